// Sweeps in several processes, what their rows say, and results compared, as a user does it.

#include <map>
#include <set>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/child.h"
#include "tests/support/command.h"
#include "tests/support/paths.h"
#include "tests/support/well_formed.h"

namespace {

using namespace command;
using nlohmann::json;

std::string grid(const std::string& more = "devices: [2, 4]\nstrategies: [data-parallel, unity]\n") {
  return "format: unity-experiment\nversion: 1\nname: small\nmodels: [mlp-mnist, mlp-tiny]\ntopologies: [summit]\n"
         "nodes: [1]\n" +
         more;
}

// One point that takes many minutes, and one that takes no time.
std::string long_and_short() {
  return "format: unity-experiment\nversion: 1\nmodels: [bert-tiny]\ntopologies: [summit]\nnodes: [1]\nvariants:\n"
         "  - {name: long, without: [splitting], alpha: 1000, budget: 10000000}\n"
         "  - {name: short, strategy: data-parallel}\n";
}

json results(const Folder& f, const std::string& folder) { return json::parse(read(f.file(folder + "/results.json"))); }

// The rows without what differs from run to run, as the file says.
json lasting(const json& file) {
  json rows = file["rows"];
  for (json& row : rows)
    for (const json& column : file["measured"]) row.erase(column.get<std::string>());
  return rows;
}

json parsed(const std::string& path) { return json::parse(read(path), nullptr, false); }

// Of the process that has the claim; 0: none.
pid_t owner(const std::string& claim) {
  json content = parsed(claim);
  return content.is_object() ? content.value("process", 0) : 0;
}

const std::string kSlurm = "SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX=2 SLURM_ARRAY_TASK_COUNT=2 ";

// As `unity`, with variables before it.
Outcome with_variables(const std::string& variables, const std::string& arguments) {
  Folder folder;
  std::string command = "env " + variables + " " + UNITY_BINARY_DIR + "/bin/unity " + arguments + " >" +
                        folder.file("out") + " 2>" + folder.file("err") + " </dev/null";
  int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128, read(folder.file("out")), read(folder.file("err"))};
}

}  // namespace

TEST_CASE("a sweep has the same rows in the same order with any number of threads and processes") {
  Folder f;
  std::string file = f.write("e.yaml", grid());
  auto sweep = [&](const std::string& folder, const std::string& how) {
    Outcome o = unity("sweep " + file + " -o " + f.file(folder) + how);
    INFO(o.err);
    CHECK(o.code == 0);
    return lasting(results(f, folder));
  };
  json one = sweep("one", " --jobs 1");
  REQUIRE(one.size() == 8);
  CHECK(one[0]["point"] == "mlp-mnist/summit/nodes=1/devices=2/data-parallel");
  CHECK(one[7]["point"] == "mlp-tiny/summit/nodes=1/devices=4/unity");
  CHECK(one[0].contains("iteration_seconds"));
  CHECK_FALSE(one[0].contains("search_seconds"));
  CHECK(sweep("again", " --jobs 2") == one);
  CHECK(sweep("three", " --processes 3") == one);
  for (int shard : {2, 3})
    unity("sweep " + file + " -o " + f.file("parts") + " --shard " + std::to_string(shard) + "/3");
  CHECK_FALSE(fs::exists(f.file("parts/results.json")));
  Outcome last = unity("sweep " + file + " -o " + f.file("parts") + " --shard 1/3");
  CHECK(last.code == 0);
  CHECK(last.out.find("part 1/3: 3 points: 3 done") != std::string::npos);
  CHECK(lasting(results(f, "parts")) == one);  // the last one joins them
  CHECK(unity("report " + f.file("three") + " --against " + f.file("one"))
            .out.find("no regression: 8 points, 8 the same") != std::string::npos);
}

TEST_CASE("the tasks of a Slurm array and of srun find their parts") {
  Folder f;
  std::string sweep = "sweep " + f.write("e.yaml", grid()) + " --shard slurm -o ";
  CHECK(with_variables(kSlurm + "SLURM_ARRAY_TASK_ID=2", sweep + f.file("array")).out.find("part 2/2: 4 points") == 0);
  Outcome last = with_variables(kSlurm + "SLURM_ARRAY_TASK_ID=1", sweep + f.file("array"));
  CHECK(last.out.find("part 1/2: 4 points: 4 done") == 0);
  CHECK(results(f, "array")["rows"].size() == 8);
  for (const char* rank : {"0", "1", "2"})
    CHECK(with_variables(std::string("SLURM_NTASKS=3 SLURM_PROCID=") + rank, sweep + f.file("srun")).code == 0);
  CHECK(lasting(results(f, "srun")) == lasting(results(f, "array")));
  check_refused(sweep + f.file("none"), {"--shard slurm", "SLURM_ARRAY_TASK_ID"});
}

TEST_CASE("parts that are wrong, of another number, or of a changed grid are refused") {
  Folder f;
  std::string file = f.write("e.yaml", grid()), sweep = "sweep " + file + " -o " + f.file("r");
  for (const char* shard : {"0/3", "4/3", "x/y", "3", "1/0"})
    check_refused(sweep + " --shard " + shard, {"--shard", std::string("'") + shard + "'", "2/8"});
  check_refused(sweep + " --shard 1/2 --processes 2", {"--shard", "--processes"});
  check_refused(sweep + " --processes 0", {"--processes"});
  CHECK_FALSE(fs::exists(f.file("r/parts")));
  REQUIRE(unity(sweep + " --shard 1/2").code == 0);
  check_refused(sweep + " --shard 1/2", {"1-of-2.json", "--resume"});
  check_refused(sweep + " --shard 1/3", {"1-of-2.json", "is one of 2 parts, expected 3", "--merge"});
  check_refused(sweep + " --resume --processes 3", {"is one of 2 parts, expected 3"});
  check_refused(sweep, {"parts", "--resume"});
  std::string other = f.write("e.yaml", grid("devices: [2]\n"));
  check_refused("sweep " + other + " -o " + f.file("r") + " --shard 2/2", {"1-of-2.json", "has " + file + " changed?"});
  f.write("e.yaml", grid() + "figures:\n  - {name: a, x: devices, y: candidates}\n");  // the points stay the same
  CHECK(unity(sweep + " --shard 2/2").code == 0);
  std::string part = read(f.file("r/parts/1-of-2.json"));
  f.write("r/parts/1-of-2.json", part.substr(0, part.size() / 2));
  check_refused(sweep + " --merge", {"1-of-2.json:", "not a complete JSON document", "is the file truncated?"});
  f.write("r/parts/1-of-2.json", "{\"format\": \"other\"}");
  check_refused(sweep + " --shard 1/2 --resume", {"1-of-2.json: is not the result of a sweep"});
}

TEST_CASE("a part that is run cannot be run twice, and one that was killed stays open and can be gone on with") {
  Folder f;
  std::string file = f.write("e.yaml", long_and_short()), there = " -o " + f.file("r");
  Child child(f, {"sweep", file, "-o", f.file("r"), "--processes", "2", "--jobs", "1"});
  const std::string part = f.file("r/parts/1-of-2");
  REQUIRE(Child::soon([&] { return owner(part + ".running") > 0; }));
  REQUIRE(Child::soon([&] {
    json done = parsed(f.file("r/parts/2-of-2.json"));
    return done.is_object() && done["rows"].size() == 1;
  }));
  pid_t process = owner(part + ".running");
  check_refused("sweep " + file + there + " --shard 1/2 --resume",
                {"part 1/2 of ", "is being run by process " + std::to_string(process)});
  check_refused("sweep " + file + there + " --resume", {"is being run by process " + std::to_string(process)});
  kill(process, SIGKILL);
  int status = child.wait();
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
  CHECK(read(f.file("err"))
            .find("1 of 2 points are open, which --resume goes on with; process 1 of 2: was killed by "
                  "signal 9") != std::string::npos);
  CHECK(results(f, "r")["rows"].size() == 1);
  Outcome merge = unity("sweep " + file + there + " --merge");
  CHECK(merge.code == 1);
  CHECK(merge.err.find("1 of 2 points are open") != std::string::npos);
  CHECK(fs::exists(part + ".running"));  // left by the dead, and no hindrance
  Outcome again = unity("sweep " + file + there + " --resume --shard 1/2 --only variant=long --only devices=6");
  CHECK(again.err.find("no point of the grid has devices=6") != std::string::npos);
  f.write("e.yaml", long_and_short());
  Child resumed(f, {"sweep", file, "-o", f.file("r"), "--shard", "1/2", "--resume"});
  CHECK(Child::soon([&] { return owner(part + ".running") != process; }));
}

TEST_CASE("a point that fails is a row with its error, the others go on, and the exit code says so") {
  Folder f;
  std::string model = f.write("bad.yaml", "format: unity-model\nversion: 1\nname: m\nlayers: 7\n");
  std::string file = f.write("e.yaml", "format: unity-experiment\nversion: 1\nmodels: [" + model +
                                           ", mlp-tiny]\ntopologies: [laptop]\ndevices: [1, 2]\nvariants:\n"
                                           "  - {name: dp, strategy: data-parallel}\n"
                                           "  - {name: small, strategy: data-parallel, memory-limit: 1 kB}\n");
  Outcome o = unity("sweep " + file + " -o " + f.file("r"));
  CHECK(o.code == 1);
  CHECK(o.out.find("8 points: 8 done, 6 of them without a plan, 0 were there already") == 0);
  CHECK(o.err.find("6 of 8 points have no plan") != std::string::npos);
  std::map<std::string, std::string> errors;
  const json all = results(f, "r");
  for (const json& row : all["rows"])
    if (row.contains("error")) errors[row["point"]] = row["error"];
  CHECK(errors.size() == 6);
  CHECK(errors.at(model + "/laptop/nodes=0/devices=1/dp (strategy=data-parallel)").find("bad.yaml:") !=
        std::string::npos);
  CHECK(errors.at("mlp-tiny/laptop/nodes=0/devices=2/small (strategy=data-parallel memory-limit=1 kB)")
            .find("which is limited to 1 kB") != std::string::npos);
  CHECK(unity("sweep " + file + " -o " + f.file("r") + " --resume")
            .out.find("0 done, 0 of them without a plan, 8 were") != std::string::npos);
  f.write("bad.yaml", read((fs::path(UNITY_SOURCE_DIR) / "experiments/models/two-tower.yaml").string()));
  Outcome retried = unity("sweep " + file + " -o " + f.file("r") + " --retry-failed --only variant=dp");
  INFO(retried.err);
  CHECK(retried.out.find("4 points: 2 done, 0 of them without a plan, 2 were there already") == 0);
  CHECK(retried.code == 0);
}

TEST_CASE("every row says what it comes from, in JSON and CSV, and reports tell it") {
  Folder f;
  std::string file = f.write("e.yaml",
                             "format: unity-experiment\nversion: 1\nmodels: [mlp-mnist]\ntopologies: [summit]\n"
                             "nodes: [1]\ndevices: [2]\nvariants:\n  - {name: a, budget: 20, seed: 7}\n"
                             "  - {name: b, strategy: data-parallel, without: [algebra]}\n");
  REQUIRE(unity("sweep " + file + " -o " + f.file("r")).code == 0);
  json rows = results(f, "r")["rows"];
  std::string csv = read(f.file("r/results.csv"));
  for (const char* column : {"unity_version", "unity_commit", "experiment_hash", "model_hash", "topology_hash",
                             "rules_hash", "settings", "seed", "plan_hash", "host", "started", "threads"}) {
    INFO(column);
    for (const json& row : rows) {
      REQUIRE(row.contains(column));
      std::string value = row[column].is_string() ? row[column].get<std::string>() : row[column].dump();
      CHECK_FALSE(value.empty());
      CHECK(csv.find(value) != std::string::npos);
    }
    CHECK(csv.substr(0, csv.find('\n')).find(column) != std::string::npos);
  }
  CHECK(rows[0]["seed"] == 7);
  CHECK(rows[0]["settings"] == "budget=20 alpha=1.05");
  CHECK(rows[1]["settings"] == "budget=4000 alpha=1.05 no-algebra");
  CHECK(rows[0]["model_hash"] == rows[1]["model_hash"]);
  CHECK(rows[0]["plan_hash"] != rows[1]["plan_hash"]);
  CHECK(fs::exists(f.file("r") + "/" + rows[0]["plan"].get<std::string>()));
  Outcome report = unity("report " + f.file("r"));
  CHECK(report.out.find("| topology hash | " + rows[0]["topology_hash"].get<std::string>() + " |") !=
        std::string::npos);
  CHECK(report.out.find("| seed | 1, 7 |") != std::string::npos);
}

TEST_CASE("a search that is limited by time says that it stopped for it") {
  Folder f;
  std::string text = long_and_short();
  text.replace(text.find("budget: 10000000"), 16, "time-limit: 0.5");
  REQUIRE(unity("sweep " + f.write("e.yaml", text) + " -o " + f.file("r")).code == 0);
  json rows = results(f, "r")["rows"];
  CHECK(rows[0]["stopped_because"] == "time limit of 0.5 s");
  CHECK(unity("report " + f.file("r")).out.find("1 of searches that stopped for time") != std::string::npos);
}

TEST_CASE("a report is one HTML file with figures, plans and failures, of several results as sections") {
  Folder f;
  std::string file = f.write(
      "e.yaml", grid("devices: [1, 2]\nstrategies: [data-parallel, expert, unity]\nfigures:\n"
                     "  - {name: speed, title: \"<b>fast</b> & \\\"more\\\"\", x: devices, y: samples_per_second}\n"));
  CHECK(unity("sweep " + file + " -o " + f.file("r")).code == 1);  // the expert does not apply to 1 device
  Outcome made = unity("report " + f.file("r/results.json") + " --html");
  INFO(made.err);
  REQUIRE(made.code == 0);
  CHECK_FALSE(fs::exists(f.file("r/speed.svg")));
  std::string page = read(f.file("r/report.html"));
  CHECK(markup::why_not_well_formed(page) == "");
  for (const char* words :
       {"&lt;b&gt;fast&lt;/b&gt; &amp; &quot;more&quot;", "<svg", "The fastest plans", "href=\"plans/",
        "Points without a plan", "strategy expert: found 1 device", "Searches", "topology hash"})
    CHECK(page.find(words) != std::string::npos);
  std::set<std::string> links;
  for (std::size_t at = 0; (at = page.find("href=\"plans/", at)) != std::string::npos; ++at)
    links.insert(page.substr(at + 6, page.find('"', at + 6) - at - 6));
  CHECK(links.size() == 10);
  for (const std::string& link : links) CHECK(fs::exists(f.file("r") + "/" + link));
  std::string plan = f.file("r") + "/" + *links.begin();
  fs::create_directories(f.file("pages"));
  REQUIRE(unity("report " + f.file("r") + " " + plan + " -o " + f.file("pages/all.html")).code == 0);
  page = read(f.file("pages/all.html"));
  CHECK(markup::why_not_well_formed(page) == "");
  CHECK(page.find("href=\"../r/plans/") != std::string::npos);
  CHECK(page.find("<section id=\"part-2\">") != std::string::npos);
  fs::remove(f.file("r/experiment.yaml"));
  REQUIRE(unity("report " + f.file("r") + " --html").code == 0);
  CHECK(read(f.file("r/report.html")).find("no experiment.yaml beside it") != std::string::npos);
}

TEST_CASE("results against others: what is slower or lost is a regression and exit code 1") {
  Folder f;
  auto write = [&](const std::string& name, double a, bool b, const std::string& topology) {
    json rows = {
        {{"point", "a"}, {"model", "m"}, {"variant", "v"}, {"iteration_seconds", a}, {"topology_hash", topology}},
        {{"point", "b"}, {"model", "m"}, {"variant", "w"}}};
    rows[1][b ? "iteration_seconds" : "error"] = b ? json(1.0) : json("does not fit");
    return f.write(name, json{{"format", "unity-results"}, {"version", 1}, {"rows", rows}}.dump());
  };
  std::string old = write("old.json", 1.0, true, "11"), same = write("same.json", 1.0, true, "11");
  std::string slow = write("slow.json", 1.02, false, "22");
  Outcome equal = unity("report " + same + " --against " + old);
  CHECK(equal.code == 0);
  CHECK(equal.out.find("no regression: 2 points, 2 the same") != std::string::npos);
  CHECK_FALSE(fs::exists(f.file("report.md")));
  Outcome worse = unity("report " + slow + " --against " + old);
  CHECK(worse.code == 1);
  for (const char* words : {"1 s to 1.02 s (+2.00%)", "plan lost: does not fit", "2 regressions: 2 points",
                            "topology_hash differs in 1 of 2 points: 11 before, 22 now"})
    CHECK(worse.out.find(words) != std::string::npos);
  CHECK(unity("report " + slow + " --against " + old + " --tolerance 3%")
            .out.find("1 regression: 2 points, 1 plan lost") != std::string::npos);
  CHECK(unity("report " + slow + " --against " + old + " -o " + f.file("c.html")).code == 1);
  std::string page = read(f.file("c.html"));
  CHECK(markup::why_not_well_formed(page) == "");
  CHECK(page.find("What has changed") != std::string::npos);
  check_refused("report " + slow + " " + same + " --against " + old, {"--against", "2 files"});
  check_refused("report " + slow + " --against " + f.write("foreign.json", "[1]"), {"foreign.json"});
  check_refused("report " + slow + " --against " + f.write("cut.json", read(old).substr(0, 60)), {"cut.json"});
  check_refused("report " + slow + " --against " + old + " --tolerance many", {"--tolerance", "many", "1%"});
  check_refused("report " + slow + " --tolerance 1%", {"--against"});
}

TEST_CASE("rows of files that have changed since stay with a warning, and rows of other settings are in no figure") {
  Folder f;
  const std::string machine = read(std::string(UNITY_SOURCE_DIR) + "/topologies/laptop.yaml");
  const std::string topology = f.write("machine.yaml", machine);
  auto experiment = [&](const std::string& bucket) {
    return f.write("e.yaml", "format: unity-experiment\nversion: 1\nmodels: [mlp-tiny]\ntopologies: [" + topology +
                                 "]\ndevices: [2]\nvariants:\n  - {name: whole, strategy: data-parallel}\n"
                                 "  - {name: joined, strategy: data-parallel, bucket: " +
                                 bucket +
                                 "}\nfigures:\n  - {name: times, title: Times, x: devices, y: iteration_seconds}\n");
  };
  const std::string sweep = "sweep " + experiment("1 kB") + " -o " + f.file("r");
  REQUIRE(unity(sweep).code == 0);
  CHECK(unity(sweep + " --resume").err.empty());
  f.write("machine.yaml", std::string(machine).replace(machine.find("2.5 GB/s"), 8, "2.6 GB/s"));
  const Outcome other = unity(sweep + " --resume");
  CHECK(other.code == 0);
  CHECK_THAT(other.err, Catch::Matchers::Contains("2 rows were made before " + topology + " changed, and stay"));
  experiment("2 kB");
  REQUIRE(unity(sweep + " --resume").code == 0);
  const json rows = results(f, "r")["rows"];
  CHECK(rows.size() == 3);
  const Outcome report = unity("report " + f.file("r/results.json"));
  REQUIRE(report.code == 0);
  CHECK_THAT(report.out, Catch::Matchers::Contains("1 row is of variants with other settings, and left out"));
}
