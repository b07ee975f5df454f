// Sweeps in several processes: whose points are whose, who may write, how parts are joined.
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <thread>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/text.h"
#include "core/report/claim.h"
#include "core/report/results.h"
#include "core/report/shard.h"
#include "core/report/sweep_folder.h"
#include "tests/support/seed.h"

namespace unity::report {
namespace {

using Catch::Contains;
using nlohmann::ordered_json;
namespace fs = std::filesystem;

GridPoint point(const std::string& model, int devices, const std::string& strategy) {
  GridPoint p;
  p.model = model, p.topology = "summit", p.devices = devices;
  p.variant.name = p.variant.strategy = strategy;
  return p;
}

Experiment experiment(int devices) {
  Experiment e;
  for (int d = 1; d <= devices; ++d)
    for (const char* strategy : {"data-parallel", "unity"}) e.grid.push_back(point("mlp", d, strategy));
  return e;
}

Variables variables(std::map<std::string, std::string> values) {
  return [values](const char* name) {
    auto at = values.find(name);
    return at == values.end() ? nullptr : at->second.c_str();
  };
}

std::string slurm(const std::map<std::string, std::string>& values) {
  return to_string(parse_shard("slurm", variables(values)));
}

// A folder for a test, empty.
fs::path fresh(const std::string& name) {
  fs::path folder = fs::temp_directory_path() / name;
  fs::remove_all(folder);
  return folder;
}

ordered_json row(const GridPoint& p, double seconds) { return {{"point", p.key()}, {"iteration_seconds", seconds}}; }

// The rows of a shard that are there, as its process would have written them.
void write_part(SweepFolder& folder, const Shard& shard) {
  std::map<std::string, RowJson> rows;
  std::vector<int> shards = shards_of(folder.grid(), shard.count);
  for (std::size_t i = 0; i < shards.size(); ++i)
    if (shards[i] == shard.index) rows[folder.grid()[i].key()] = row(folder.grid()[i], 1.0 + static_cast<double>(i));
  folder.claim(shard);
  folder.write(shard, rows);
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

std::string claim_of(const std::string& machine, pid_t process, int beat) {
  return ordered_json{{"token", "t"},   {"host", "node7"},    {"machine", machine},
                      {"started", "1"}, {"process", process}, {"beat", beat}}
      .dump();
}

TEST_CASE("shards of random grids are disjoint, complete and as even as their largest point allows") {
  const std::uint64_t seed = test::seed_of_run();
  INFO("seed " << seed);
  std::mt19937_64 random(seed);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<GridPoint> grid;
    for (std::size_t n = random() % 60; grid.size() < n;)
      grid.push_back(point(fmt::format("m{}", random() % 3), static_cast<int>(random() % 200),
                           random() % 2 ? "unity" : "data-parallel"));
    int count = 1 + static_cast<int>(random() % 12);
    std::vector<int> shards = shards_of(grid, count);
    REQUIRE(shards.size() == grid.size());  // one shard for each point
    std::vector<double> work(static_cast<std::size_t>(count));
    std::vector<std::size_t> points(static_cast<std::size_t>(count));
    double largest = 0;
    for (std::size_t i = 0; i < grid.size(); ++i) {
      REQUIRE((shards[i] >= 1 && shards[i] <= count));
      work[static_cast<std::size_t>(shards[i] - 1)] += estimated_work(grid[i]);
      ++points[static_cast<std::size_t>(shards[i] - 1)];
      largest = std::max(largest, estimated_work(grid[i]));
    }
    CHECK(*std::max_element(points.begin(), points.end()) - *std::min_element(points.begin(), points.end()) <= 1);
    CHECK(*std::max_element(work.begin(), work.end()) - *std::min_element(work.begin(), work.end()) <= largest);
    CHECK(shards_of(grid, count) == shards);
  }
}

TEST_CASE("each shard gets its share of each model") {
  std::vector<GridPoint> grid;
  for (const char* model : {"a", "b", "c"})
    for (int i = 0; i < 4; ++i) grid.push_back(point(model, 4, "unity"));
  // Dealt to two there and back again: 1 2 2 1 of each model.
  CHECK(shards_of(grid, 2) == std::vector<int>{1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2, 1});
}

TEST_CASE("a shard is I/N with I from 1 to N, anything else is refused") {
  CHECK(parse_shard("2/8", variables({})) == Shard{2, 8});
  for (const char* text : {"0/3", "4/3", "x/y", "3", "/", "1/", "/2", "-1/2", "1/2/3", "1/0", "", "1 /2", "1/999999999",
                           "99999999999/99999999999"})
    CHECK_THAT(error_of([&] { parse_shard(text, variables({})); }), Contains("--shard: found '" + std::string(text)));
}

TEST_CASE("Slurm's variables say the shard: of arrays, of srun, of both, and not where they have gaps") {
  std::map<std::string, std::string> array = {{"SLURM_ARRAY_TASK_ID", "5"},
                                              {"SLURM_ARRAY_TASK_MIN", "3"},
                                              {"SLURM_ARRAY_TASK_MAX", "6"},
                                              {"SLURM_ARRAY_TASK_COUNT", "4"},
                                              {"SLURM_ARRAY_TASK_STEP", "1"}};
  CHECK(slurm(array) == "3/4");
  std::map<std::string, std::string> both = array;
  both["SLURM_PROCID"] = "1", both["SLURM_NTASKS"] = "2";
  CHECK(slurm(both) == "6/8");  // 2 tasks in each of 4; 2 x 2 before it
  CHECK(slurm({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "3"}}) == "1/3");
  CHECK(slurm({{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "9"}, {"SLURM_STEP_NUM_TASKS", "3"}}) == "3/3");
  std::map<std::string, std::string> steps = array;
  steps["SLURM_ARRAY_TASK_MAX"] = "9", steps["SLURM_ARRAY_TASK_STEP"] = "2";  // 3 5 7 9
  CHECK(slurm(steps) == "2/4");
  array["SLURM_ARRAY_TASK_COUNT"] = "3";  // 3, 5, 6
  CHECK_THAT(error_of([&] { slurm(array); }), Contains("without gaps"));
  CHECK_THAT(error_of([&] { slurm({}); }), Contains("neither SLURM_ARRAY_TASK_ID nor SLURM_PROCID"));
  CHECK_THAT(error_of([&] { slurm({{"SLURM_ARRAY_TASK_ID", "1"}}); }), Contains("SLURM_ARRAY_TASK_MIN"));
  CHECK_THAT(error_of([&] { slurm({{"SLURM_PROCID", "a"}, {"SLURM_NTASKS", "3"}}); }), Contains("SLURM_PROCID = 'a'"));
  CHECK_THAT(error_of([&] { slurm({{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "3"}}); }), Contains("task 3 of 3"));
}

TEST_CASE("a claim is refused while its owner lives, given back at its end, and taken over from the dead") {
  fs::path folder = fresh("claim");
  fs::create_directories(folder);
  fs::path file = folder / "c.running";
  {
    Claim mine(file, "part 1/2");
    CHECK_THAT(error_of([&] { Claim second(file, "part 1/2"); }),
               Contains("part 1/2: is being run by process " + std::to_string(getpid())) && Contains(file.string()));
    CHECK_NOTHROW(mine.check());
  }
  CHECK(fs::is_empty(folder));
  pid_t child = fork();
  if (child == 0) {
    new Claim(file, "part 1/2");  // never given back
    _exit(0);
  }
  siginfo_t ended{};
  waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);
  REQUIRE(fs::exists(file));
  CHECK_NOTHROW(refuse_if_claimed(file, "part 1/2"));  // nobody has asked for its exit code yet
  waitpid(child, nullptr, 0);
  CHECK_NOTHROW(refuse_if_claimed(file, "part 1/2"));
  CHECK_NOTHROW(Claim(file, "part 1/2").check());
  CHECK(fs::is_empty(folder));
}

TEST_CASE("a claim of another machine counts while it changes, and no longer") {
  using namespace std::chrono_literals;
  fs::path folder = fresh("claim-far");
  fs::create_directories(folder);
  fs::path file = folder / "c.running";
  write_file_atomically(file, claim_of("elsewhere", 12, 0));
  CHECK_NOTHROW(Claim(file, "all", {.beat = 10ms, .patience = 50ms}).check());
  write_file_atomically(file, claim_of("elsewhere", 12, 0));
  std::thread owner([&] {
    std::this_thread::sleep_for(50ms);
    write_file_atomically(file, claim_of("elsewhere", 12, 1));
  });
  CHECK_THAT(error_of([&] { Claim(file, "all", {.beat = 10ms, .patience = 10min}); }),
             Contains("by process 12 on node7"));
  owner.join();
}

TEST_CASE("who was taken over from writes no more, and leaves the claim alone") {
  fs::path folder = fresh("claim-lost");
  fs::create_directories(folder);
  fs::path file = folder / "c.running";
  {
    Claim mine(file, "part 1/2");
    write_file_atomically(file, claim_of("elsewhere", 12, 0));
    CHECK_THAT(error_of([&] { mine.check(); }), Contains("part 1/2: was taken over by process 12 on node7"));
  }
  CHECK(fs::exists(file));
}

TEST_CASE("parts are joined in the order of the grid, however often, and whatever has been done so far") {
  fs::path path = fresh("join");
  SweepFolder folder(path.string(), "e.yaml", experiment(5));  // 10 points
  write_part(folder, {3, 3});
  folder.merge();
  CHECK(folder.open(folder.rows()).size() == 6);  // of 10 points dealt to 3 there and back, the last one has 4
  write_part(folder, {1, 3}), write_part(folder, {2, 3});
  folder.merge();
  std::string once = read_file(path / "results.json");
  CHECK(folder.open(folder.rows()).empty());
  Results results = results_from_json(once, "results.json");
  REQUIRE(results.rows.size() == 10);
  for (std::size_t i = 0; i < 10; ++i) {
    CHECK(results.rows[i].text("point") == folder.grid()[i].key());
    CHECK(results.rows[i].number("iteration_seconds") == 1.0 + static_cast<double>(i));
  }
  CHECK(results.shard.empty());
  CHECK(results.measured == measured_columns());
  SweepFolder(path.string(), "e.yaml", experiment(5)).merge();
  CHECK(read_file(path / "results.json") == once);
}

TEST_CASE("a point that was tried again keeps what was found, whatever its part says of before") {
  fs::path path = fresh("again");
  SweepFolder folder(path.string(), "e.yaml", experiment(1));
  REQUIRE(folder.grid().size() == 2);
  auto failed = [&](std::size_t i, const char* error, const char* started) {
    return RowJson{{"point", folder.grid()[i].key()}, {"error", error}, {"started", started}};
  };
  const std::string keys[] = {folder.grid()[0].key(), folder.grid()[1].key()};
  std::vector<int> shards = shards_of(folder.grid(), 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const Shard shard{shards[i], 2};
    folder.claim(shard);
    folder.write(shard, {{keys[i], failed(i, "old", "2026-01-01T00:00:00Z")}});
  }
  folder.claim({});
  folder.write({}, {{keys[0], row(folder.grid()[0], 1)}, {keys[1], failed(1, "new", "2026-01-02T00:00:00Z")}});
  folder.merge();
  std::vector<ResultRow> rows = results_from_json(read_file(path / "results.json"), "results.json").rows;
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].number("iteration_seconds") == 1);
  CHECK(rows[1].text("error") == "new");
}

TEST_CASE("parts of another number, of another grid, foreign or cut off are refused") {
  fs::path path = fresh("refuse");
  SweepFolder folder(path.string(), "e.yaml", experiment(5));
  write_part(folder, {1, 3});
  CHECK_THAT(error_of([&] { folder.check_parts(4); }), Contains("1-of-3.json: is one of 3 parts, expected 4"));
  SweepFolder changed(path.string(), "e.yaml", experiment(6));
  CHECK_THAT(error_of([&] { changed.merge(); }),
             Contains("1-of-3.json: found part 1/3 of a grid with hash") && Contains("has e.yaml changed?"));
  fs::path part = path / "parts/1-of-3.json";
  std::string text = read_file(part);
  for (std::size_t bytes : {text.size() / 3, text.size() / 2, text.size() - 3, std::size_t{0}}) {
    write_file_atomically(part, text.substr(0, bytes));
    CHECK_THAT(error_of([&] { folder.merge(); }), Contains("1-of-3.json:") && Contains("is the file truncated?"));
  }
  write_file_atomically(path / "parts/2-of-3.json", text);
  write_file_atomically(part, text);
  CHECK_THAT(error_of([&] { folder.merge(); }), Contains("2-of-3.json: found part 1/3"));
  std::string of_another = text;
  of_another.replace(of_another.find("\"1/3\""), 5, "\"2/3\"");
  write_file_atomically(path / "parts/2-of-3.json", of_another);
  CHECK_THAT(error_of([&] { folder.merge(); }),
             Contains("2-of-3.json: found the row of") && Contains("not of this part"));
  CHECK_FALSE(fs::exists(path / "results.json"));
}

TEST_CASE("the whole is not written while a part is, nor a part while the whole is") {
  fs::path path = fresh("both");
  SweepFolder part(path.string(), "e.yaml", experiment(2)), whole(path.string(), "e.yaml", experiment(2));
  part.claim({2, 2});
  CHECK_THAT(error_of([&] { whole.claim({}); }), Contains("part 2-of-2 of") && Contains("is being run"));
  fs::path other_path = fresh("both-2");
  SweepFolder all(other_path.string(), "e.yaml", experiment(2)), other(other_path.string(), "e.yaml", experiment(2));
  all.claim({});
  CHECK_THAT(error_of([&] { other.claim({1, 2}); }), Contains("both-2: is being run"));
  CHECK_THAT(error_of([&] { other.claim({}); }), Contains("both-2: is being run"));
}

}  // namespace
}  // namespace unity::report
