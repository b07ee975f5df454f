// docs/howto/panel.md: what the panel shows is prepared without a window.

#include "docs/examples/panel/panel.h"

#include <catch2/catch.hpp>

#include "core/models/models.h"

using namespace unity;
using namespace unity::gui;

TEST_CASE("operators are counted by kind, the most frequent first") {
  // mlp-mnist: two matmuls with a relu between, and the loss.
  CHECK(count_kinds(build_model({"mlp-mnist", {}})) ==
        std::vector<KindCount>{{"matmul", 2}, {"cross_entropy", 1}, {"relu", 1}});
}

TEST_CASE("the panel remembers its order") {
  PanelTools tools;
  Session session;
  KindsPanel panel(tools), next(tools);
  panel.add_commands(session);
  CHECK(panel.save().empty());
  REQUIRE(session.commands.run("kinds.order").ok());
  next.load(panel.save());
  CHECK(next.save() == "name");
}
