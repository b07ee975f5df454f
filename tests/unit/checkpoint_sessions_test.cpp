#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>
#include <unistd.h>

#include "core/base/error.h"
#include "runtime/checkpoint/sessions.h"

using namespace unity;

namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "unity-sessions-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() {
    std::error_code error;
    fs::remove_all(path, error);
  }
};

}  // namespace

TEST_CASE("steps that a later session did again are lost, those that it began after are kept") {
  // 10 s for 50 steps of 0.16 s each; the next begins after 40 of them: 40 x 0.16 = 6.4 s count, 1.6 s do not.
  std::vector<Session> sessions = {{0, 10, 0, 50, 8, 1}, {20, 5, 40, 60, 4, 0.5}};
  EffectiveTime e = effective_time(sessions);
  CHECK(e.sessions == 2);
  CHECK(e.steps == 60);
  CHECK(e.lost_steps == 10);
  CHECK(e.seconds == Approx(15));
  CHECK(e.step_seconds == Approx(10.4));
  CHECK(e.lost_seconds == Approx(1.6));
  CHECK(e.checkpoint_seconds == Approx(1.5));
  CHECK(e.ratio() == Approx(10.4 / 15));
}

TEST_CASE("a session that came to nothing is time lost, and one that went back undoes all after it") {
  EffectiveTime none = effective_time({{0, 3, 0, 0, 0, 0}, {5, 7, 0, 10, 6, 0}});
  CHECK(none.ratio() == Approx(0.6));
  // The third begins at step 20 again: of the second nothing is kept, of the first 20 of 30.
  EffectiveTime back = effective_time({{0, 3, 0, 30, 3, 0}, {5, 3, 30, 60, 3, 0}, {9, 4, 20, 60, 4, 0}});
  CHECK(back.steps == 60);
  CHECK(back.lost_steps == 40);
  CHECK(back.step_seconds == Approx(6));
  CHECK(effective_time({}).ratio() == 1);
  // Nothing but an evaluation: no step was done again.
  EffectiveTime evaluated = effective_time({{0, 3, 0, 10, 3, 0}, {5, 2, 10, 10, 1, 0}});
  CHECK(evaluated.lost_steps == 0);
  CHECK(evaluated.lost_seconds == 0);
}

TEST_CASE("a session is on file from its start, and what is no whole line is left out and overwritten") {
  Folder folder;
  auto now = SessionLog::Clock::now();
  CHECK(read_sessions(folder.path).empty());
  {
    SessionLog first(folder.path, now - std::chrono::seconds(2), 5);
    CHECK(read_sessions(folder.path).at(0).step == 5);
    first.note(25, 1.5, 0.25, true);
  }
  std::ofstream(folder.path / "sessions.jsonl", std::ios::app) << "{\"started\": 17";  // as on a disk that filled up
  CHECK(read_sessions(folder.path).size() == 1);
  SessionLog second(folder.path, now, 20);
  std::vector<Session> sessions = read_sessions(folder.path);
  REQUIRE(sessions.size() == 2);
  CHECK(sessions[0].first_step == 5);
  CHECK(sessions[0].step == 25);
  CHECK(sessions[0].step_seconds == 1.5);
  CHECK(sessions[0].checkpoint_seconds == 0.25);
  CHECK(sessions[0].seconds >= 2);
  CHECK(sessions[1].first_step == 20);
}

TEST_CASE("two sessions do not write into one folder at once") {
  Folder folder;
  auto now = SessionLog::Clock::now();
  {
    SessionLog first(folder.path, now, 0);
    CHECK_THROWS_WITH(SessionLog(folder.path, now, 0, std::chrono::milliseconds(1)),
                      Catch::StartsWith(folder.path.string() + ": another run is writing checkpoints here"));
    CHECK(read_sessions(folder.path).size() == 1);
  }
  SessionLog second(folder.path, now, 0, std::chrono::milliseconds(1));
  CHECK(read_sessions(folder.path).size() == 2);
}
