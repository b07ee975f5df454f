// What is kept for the next start is not lost: by other arguments, by copies and states that cannot be read, by another
// folder or window.
#include <chrono>
#include <thread>

#include <catch2/catch.hpp>

#include "core/machine/files.h"
#include "gui/session/session.h"
#include "gui/session/state_lock.h"
#include "tests/gui/support.h"
#include "tests/gui/wait.h"

using namespace unity;
using namespace unity::gui;
namespace fs = std::filesystem;

namespace {

// A folder of the test's own, which goes with it.
struct Folder {
  explicit Folder(const std::string& name)
      : path(fs::temp_directory_path() / fmt::format("unity-gui-{}-{}", getpid(), name)) {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

Snapshot edited_plan() {
  Document edited =
      apply(*small_plan(), {"set_mapping", {{"nodes", "encoder.0.ffn.gelu"}, {"start", "0"}, {"strides", "1 2"}}})
          .value();
  edited.edited = true;
  return std::make_shared<const Document>(std::move(edited));
}

// The state of a window in which these were open.
SavedState written(const std::vector<Snapshot>& documents, const std::string& path) {
  write_session({}, documents, path);
  return state_from_json(read_file(path), path);
}

}  // namespace

TEST_CASE("a start with other files keeps the edited plans of the last one") {
  Folder folder("keeps");
  std::string path = (folder.path / "gui.json").string();
  Snapshot edited = edited_plan();
  SavedState saved = written({edited, small_plan()}, path);
  REQUIRE(saved.open.size() == 2);

  Session session;
  // The second is what the same request finds again.
  session.keep(saved, path, {{.source = "mlp-tiny"}, saved.open[1].request});
  session.open({.source = "mlp-tiny"});
  wait_for(session);
  CHECK(session.files().size() == 1);
  CHECK(session.restoring() == std::vector<SavedDocument>{saved.open[0]});
  SavedState state;
  state.open = session.restoring();
  write_session(state, {session.document()}, path);

  Session next;
  next.restore(state_from_json(read_file(path), path), path);
  wait_for(next);
  REQUIRE(next.files().size() == 2);
  CHECK(to_text(*next.files()[1]->history.now()) == to_text(*edited));
}

TEST_CASE("a copy that cannot be read stays, and is tried again at the next start") {
  Folder folder("broken");
  std::string path = (folder.path / "gui.json").string();
  SavedState saved = written({edited_plan()}, path);
  std::string copy = copy_of(saved.open[0], path), text = read_file(copy);
  write_file_atomically(copy, text.substr(0, text.size() / 2));
  Session session;
  session.restore(saved, path);
  wait_for(session);
  CHECK(session.files().empty());
  REQUIRE(session.messages().size() == 1);
  CHECK(session.messages()[0].text.find("its plan stays in " + copy) != std::string::npos);
  SavedState state;
  state.open = session.restoring();
  CHECK(state.open == saved.open);
  write_session(state, {}, path);
  CHECK(fs::exists(copy));
}

TEST_CASE("a plan for a machine's file comes back in another folder") {
  Folder folder("machine");
  fs::path before = fs::current_path();
  fs::copy(topology_folder(), folder.path, fs::copy_options::recursive);
  fs::rename(folder.path / "summit.yaml", folder.path / "mine.yaml");
  fs::current_path(folder.path);
  std::string path = (folder.path / "gui.json").string();
  Session session;
  session.open({.source = "mlp-tiny", .topology = "mine.yaml", .nodes = 1, .devices = 2});
  wait_for(session);
  REQUIRE(session.document());
  REQUIRE(session.apply({"set_scale", {{"what", "device"}, {"factor", "2"}}}).ok());
  SavedState saved = written({session.document()}, path);
  fs::current_path(before);
  Session next;
  next.restore(saved, path);
  wait_for(next);
  REQUIRE(next.document());
  CHECK(next.messages().empty());
  REQUIRE(next.document()->scales.size() == 1);
  CHECK(next.document()->edited);
}

TEST_CASE("a state that cannot be read is moved aside with its plans") {
  Folder folder("aside");
  std::string path = (folder.path / "gui.json").string();
  SavedState saved = written({edited_plan()}, path);
  std::string moved = move_state_aside(path);
  CHECK(moved == (folder.path / "gui-kept.json").string());
  CHECK(!fs::exists(path));
  CHECK(!copy_of(saved.open[0], moved).empty());
  written({}, path);
  CHECK(move_state_aside(path) == (folder.path / "gui-kept-2.json").string());
}

TEST_CASE("a newer state is not written over") {
  if (no_opengl()) return;
  Folder folder("newer");
  std::string path = (folder.path / "gui.json").string();
  write_file_atomically(path, R"({"format": "unity-gui-state", "version": 99})");
  GuiRun run = run_gui(fmt::format("--state {} mlp-tiny --dump-widgets", path));
  CHECK(run.code == 2);
  CHECK(run.err.find("found version 99, expected at most 2; it was moved to") != std::string::npos);
  CHECK(read_file((folder.path / "gui-kept.json").string()).find("99") != std::string::npos);
  CHECK(state_from_json(read_file(path), path).open.size() == 1);
}

TEST_CASE("two windows write two states") {
  Folder folder("locks");
  std::string wanted = (folder.path / "gui.json").string(), first = wanted, second = wanted;
  auto lock = lock_state(first), other = lock_state(second);
  CHECK(first == wanted);
  CHECK(second == (folder.path / "gui-2.json").string());
  lock.reset();
  std::string third = wanted;
  CHECK(!lock_state(third)->elsewhere());
  CHECK(third == wanted);
}

TEST_CASE("paths of any bytes do not keep a state from being written") {
  SavedState state;
  state.open = {{.request = {.source = "pl\xf3n.json"}}};
  CHECK(state_from_json(to_json(state), "s.json").open.size() == 1);
}

TEST_CASE("cancelled, the first of those that were open does not keep the others from opening") {
  Folder folder("cancelled");
  std::string path = (folder.path / "gui.json").string();
  SavedState saved = written({edited_plan(), edited_plan()}, path);
  Session session;
  {
    BusyPool busy(session.jobs);
    session.restore(saved, path);
    session.cancel();
  }
  wait_for(session);
  CHECK(session.files().size() == 1);
  CHECK(session.restoring() == std::vector<SavedDocument>{saved.open[0]});
}
