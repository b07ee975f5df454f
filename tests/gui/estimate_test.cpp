// What an edit changes, from its surroundings alone: near to what all devices say.
#include "gui/session/estimate.h"

#include <catch2/catch.hpp>

#include "gui/session/edits.h"
#include "gui/session/session.h"
#include "tests/gui/support.h"

using namespace unity;
using namespace unity::gui;

namespace {

const Snapshot& plan_on_12() {
  static const Snapshot plan =
      open_document({.source = "bert-large", .topology = "summit", .nodes = 2, .strategy = "expert"});
  return plan;
}

std::string every(const Plan& plan, const std::string& end) {
  std::string nodes;
  for (std::size_t i = 0; i < plan.pcg.size(); ++i)
    if (plan.pcg.nodes()[i].is_compute() && plan.pcg.nodes()[i].name.ends_with(end)) nodes += fmt::format("{} ", i);
  return nodes;
}

}  // namespace

TEST_CASE("the estimate of an edit is within some percent of what the simulation of all devices says") {
  const Snapshot& before = plan_on_12();
  Predictor predictor;
  PlanPrediction known = predictor.quick(*before);
  auto check = [&](const Edit& edit, double within) {
    Document after = apply(*before, edit).value();
    std::optional<PlanPrediction> about = predictor.estimate(*before, known, after);
    PlanPrediction exact = predictor.quick(after);
    REQUIRE(about);
    CHECK(about->estimated);
    CHECK(about->iteration.seconds() == Approx(exact.iteration.seconds()).epsilon(within));
  };
  // One operator, and one of each layer, on devices that are further apart.
  check({"set_mapping", {{"nodes", "encoder.3.ffn.in.matmul"}, {"start", "0"}, {"strides", "1 6"}}}, 0.01);
  check({"set_mapping", {{"nodes", every(*before->plan, "ffn.in.matmul")}, {"start", "0"}, {"strides", "1 6"}}}, 0.1);
  check({"apply_rule", {{"rule", "fuse_attention"}, {"match", "0"}}}, 0.01);
}

TEST_CASE("what changes nothing is estimated as nothing, and other machines are not") {
  const Snapshot& before = plan_on_12();
  Predictor predictor;
  PlanPrediction known = predictor.quick(*before);
  CHECK(predictor.estimate(*before, known, *before)->iteration == known.iteration);
  Document faster = apply(*before, {"set_scale", {{"what", "link"}, {"factor", "4"}}}).value();
  CHECK(!predictor.estimate(*before, known, faster));
}

TEST_CASE("an edit of a pipeline is estimated where it stays in its stage") {
  SearchRequest request;
  request.model.model = "bert-tiny";
  request.topology = "summit";
  request.nodes = 2;
  request.strategy = "pipeline";
  set_field(request, "stages", "2");
  set_field(request, "micro-batches", "4");
  set_field(request, "layers", "4");
  Snapshot before = SearchRun(request).run({}).front();
  REQUIRE(std::any_of(before->graph().nodes().begin(), before->graph().nodes().end(),
                      [](const Node& n) { return n.op->name() == "pipeline"; }));
  Predictor predictor;
  PlanPrediction known = predictor.quick(*before);
  auto check = [&](const Edit& edit, double within) {
    Document after = apply(*before, edit).value();
    std::optional<PlanPrediction> about = predictor.estimate(*before, known, after);
    REQUIRE(about);
    CHECK(about->iteration.seconds() == Approx(predictor.quick(after).iteration.seconds()).epsilon(within));
  };
  check({"apply_rule", {{"rule", "fuse_attention"}, {"match", "0"}}}, 0.1);
  // What leaves its stage delays others: that is simulated.
  std::string label = "encoder.3.ffn.gelu";
  for (std::size_t i = 0; i < before->graph().size(); ++i) {
    if (before->graph().nodes()[i].name != label || !before->graph().nodes()[i].is_compute()) continue;
    const MachineMapping& mapping = before->plan->mappings[i];
    REQUIRE(mapping.start > 0);
    REQUIRE(mapping.strides.size() == 1);
    Document after =
        apply(*before,
              {"set_mapping", {{"nodes", label}, {"start", "0"}, {"strides", std::to_string(mapping.strides[0])}}})
            .value();
    CHECK(!predictor.estimate(*before, known, after));
  }
}
