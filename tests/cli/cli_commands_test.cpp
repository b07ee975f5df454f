// The `unity` command as a user meets it: a child process, its exit code, its two streams.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/checksum.h"
#include "tests/support/command.h"

namespace {

using nlohmann::json;

using namespace command;

}  // namespace

TEST_CASE("the worked example: 3,252,224 bytes for data parallelism, at most 526,848 for the plan found") {
  Outcome o = unity(
      "compare mlp-mnist --topology summit --nodes 1 --devices 2 --batch-per-gpu 32 --strategies data-parallel,unity "
      "--json");
  REQUIRE(o.code == 0);
  json list = json::parse(o.out);
  REQUIRE(list.size() == 2);
  CHECK(list[0]["communication_bytes"] == 3'252'224);
  CHECK(list[1]["communication_bytes"] <= 526'848);  // 131,712 elements
  for (const char* key :
       {"model", "topology", "devices", "strategy", "iteration_seconds", "samples_per_second", "communication_bytes",
        "peak_memory_bytes", "search_seconds", "candidates", "stopped_because", "plan"})
    CHECK(list[1].contains(key));
}

TEST_CASE("a strategy that does not apply gives an entry with its error, and the others still run") {
  Outcome o =
      unity("compare mlp-mnist --topology summit --nodes 1 --devices 1 --strategies expert,data-parallel --json");
  REQUIRE(o.code == 0);
  json list = json::parse(o.out);
  CHECK(list[0].contains("error"));
  CHECK(list[1]["iteration_seconds"] > 0);
}

TEST_CASE("strategies are compared on a scaled machine") {
  std::string command = "compare bert-tiny --topology laptop --strategies data-parallel --json";
  json plain = json::parse(unity(command).out), scaled = json::parse(unity(command + " --scale device=2").out);
  CHECK_FALSE(plain[0].contains("scale"));
  CHECK(scaled[0]["scale"] == json{"device=2"});
  CHECK(scaled[0]["iteration_seconds"] < plain[0]["iteration_seconds"]);
  check_refused(command + " --scale task:matmul=2", {"--scale task:matmul=2", "links or devices"});
}

TEST_CASE("search, explain, simulate, export, run and validate go the same way with one plan") {
  Folder f;
  std::string plan = f.file("plan.json");
  REQUIRE(unity("search mlp-tiny --topology laptop --devices 2 --global-batch 60 --strategy data-parallel -o " + plan)
              .code == 0);
  CHECK(unity("explain " + plan).out.find("2-way data") != std::string::npos);
  json simulated = json::parse(unity("simulate " + plan + " --json --trace " + f.file("trace.json")).out);
  CHECK(simulated["iteration_seconds"] > 0);
  json explained = json::parse(unity("explain " + plan + " --json").out);
  CHECK(explained["iteration_seconds"] == simulated["iteration_seconds"]);
  CHECK(explained["model_flops_utilization"] <= explained["executed_flops_utilization"]);
  CHECK(json::parse(read(f.file("trace.json")))["format"] == "unity-trace");
  CHECK(unity("export " + plan + " --format dot -o " + f.file("g.dot")).code == 0);
  CHECK(read(f.file("g.dot")).find("digraph") != std::string::npos);
  CHECK(unity("export " + plan + " --format perfetto -o " + f.file("p.json")).code == 0);
  CHECK(json::parse(read(f.file("p.json"))).contains("traceEvents"));
  json run = json::parse(unity("run " + plan + " --data digits --epochs 3 --compare-one-device --json").out);
  REQUIRE(run["losses"].size() == 3 * (1437 / 60));
  CHECK(run["losses"].back() < run["losses"].front());
  CHECK(run["final_metrics"]["test_accuracy"] > 0.5);
  CHECK(run["final_metrics"]["largest_relative_loss_difference"] < 1e-3);
  json validated = json::parse(unity("validate " + plan + " --steps 3 --json").out);
  CHECK(validated["predicted_seconds"] > 0);
  CHECK(validated["measured_seconds"] > 0);
}

TEST_CASE("a plan for the first devices of a cluster is read back for the same cluster") {
  // 6 of 12 devices fill one of the two nodes, behind which the other's switches stay.
  Folder folder;
  std::string plan = folder.file("plan.json");
  REQUIRE(unity("search mlp-tiny --topology summit --devices 6 --strategy data-parallel --global-batch 48 -o " + plan)
              .code == 0);
  Outcome simulated = unity("simulate " + plan + " --json");
  REQUIRE(simulated.code == 0);
  CHECK(json::parse(simulated.out)["devices"].size() == 6);
}

TEST_CASE("search makes a pipeline under a schedule, and simulate and run take another one for it") {
  Folder f;
  std::string plan = f.file("plan.json");
  json found = json::parse(unity("search bert-tiny --topology laptop --global-batch 24 --strategy pipeline --stages 2 "
                                 "--micro-batches 4 --schedule 1f1b --bucket '1 MB' --json -o " +
                                 plan)
                               .out);
  CHECK(found["stopped_because"] == "2 stages of 2 devices, 4 micro-batches, 1f1b");
  CHECK(unity("explain " + plan).out.find("schedule: 1f1b, gradients in buckets of 1 MB\n") != std::string::npos);
  auto peak = [&](const std::string& options) {
    json out = json::parse(unity("simulate " + plan + " --json " + options).out);
    std::int64_t sum = 0;
    for (const auto& [category, bytes] : out["devices"][0]["memory_by_category"].items())
      sum += bytes.get<std::int64_t>();
    CHECK(sum == out["devices"][0]["peak_memory_bytes"]);
    return sum;
  };
  std::int64_t usual = peak("");
  CHECK(peak("--schedule gpipe") > usual);
  CHECK(peak("--remat blocks") < usual);
  CHECK(peak("--offload activations") <= usual);
  CHECK(peak("--weight-versions 2bw") > usual);
  json run = json::parse(unity("run " + plan +
                               " --schedule gpipe --remat all --offload activations --steps 2 "
                               "--compare-one-device --json")
                             .out);
  CHECK(run["final_metrics"]["largest_relative_loss_difference"] < 1e-5);
  // Chains are other tasks, with the same losses.
  json apart = json::parse(unity("run " + plan + " --steps 2 --json").out),
       fused = json::parse(unity("run " + plan + " --steps 2 --fuse chains --json").out);
  CHECK(fused["losses"] == apart["losses"]);
  auto tasks = [&](const std::string& options) {
    json of = json::parse(unity("validate " + plan + " --steps 1 --json" + options).out);
    return of["profiled_tasks"].get<int>() + of["estimated_tasks"].get<int>();
  };
  CHECK(tasks(" --fuse chains") < tasks(""));
  std::string missing = unity("profile " + plan + " --fuse chains --list-missing -o " + f.file("profile.yaml")).out;
  CHECK(missing.find("+ gelu(.) -> ") != std::string::npos);
  check_refused("simulate " + plan + " --fuse all", {"--fuse", "all", "chains"});
  check_refused("simulate " + plan + " --schedule 2f2b", {"--pipeline-schedule", "2f2b", "1f1b"});
  check_refused("simulate " + plan + " --remat encodr.0", {"encodr.0", "bert-tiny"});
  check_refused("run " + plan + " --offload weights", {"--offload", "weights", "activations"});
  check_refused("run " + plan + " --weight-versions 3bw", {"--weight-versions", "3bw", "2bw"});
  check_refused("search mlp-tiny --topology laptop --strategy pipeline --stages 3", {"3 stages", "4 devices"});
}

TEST_CASE("a step of 2BW among others takes less than one by itself, and one with flush as long") {
  Folder folder;
  std::string plan = folder.file("p.json");
  unity(
      "search bert-tiny --topology laptop --batch-per-gpu 8 --strategy pipeline --stages 4 --micro-batches 8 "
      "--schedule "
      "1f1b -o " +
      plan);
  auto simulated = [&](const std::string& options) {
    return json::parse(unity("simulate " + plan + " --json " + options).out);
  };
  auto seconds = [](const json& j) { return j.at("iteration_seconds").get<double>(); };
  json flush = simulated("--iterations 3"), delayed = simulated("--weight-versions 2bw");
  CHECK(seconds(flush) == Approx(seconds(simulated(""))).epsilon(1e-3));
  CHECK(seconds(delayed) < seconds(simulated("--weight-versions 2bw --iterations 1")));
  CHECK(delayed["bubble"] < flush["bubble"]);
  REQUIRE(delayed["iteration_ends_seconds"].size() == 4);
  double before = delayed["iteration_ends_seconds"][1], end = delayed["iteration_ends_seconds"][2];
  CHECK(seconds(delayed) == Approx(end - before));
  CHECK(delayed["communication_bytes"] == flush["communication_bytes"]);
  for (const json& d : delayed["devices"])
    CHECK(d["compute_seconds"].get<double>() * (1 + delayed["bubble"].get<double>()) <= seconds(delayed) * (1 + 1e-9));
  json explained = json::parse(unity("explain " + plan + " --iterations 3 --json").out);
  CHECK(seconds(explained["steady"]) == seconds(flush));
  CHECK_FALSE(json::parse(unity("explain " + plan + " --json").out).contains("steady"));
  check_refused("simulate " + plan + " --iterations 256", {"--iterations", "256", "255"});
}

TEST_CASE("run of a model uses data parallelism unless told otherwise") {
  json run = json::parse(unity("run mlp-tiny --topology laptop --devices 2 --global-batch 20 --steps 2 --json").out);
  CHECK(run["strategy"] == "data-parallel");
  CHECK(run["losses"].size() == 2);
}

TEST_CASE("a sweep that was killed between its two files of results has both when it is gone on with") {
  Folder f;
  std::string grid = f.write("grid.yaml",
                             "format: unity-experiment\nversion: 1\nmodels: [mlp-tiny]\ntopologies: [laptop]\n"
                             "strategies: [data-parallel]\n");
  REQUIRE(unity("sweep " + grid + " -o " + f.file("r")).code == 0);
  std::string whole = read(f.file("r/results.csv"));
  f.write("r/results.csv", whole.substr(0, whole.find('\n') + 1));
  REQUIRE(unity("sweep " + grid + " --resume -o " + f.file("r")).code == 0);
  CHECK(read(f.file("r/results.csv")) == whole);
}

TEST_CASE("a plan that cannot be written ends a sweep, and its point stays open") {
  Folder f;
  std::string grid = f.write("grid.yaml",
                             "format: unity-experiment\nversion: 1\nmodels: [mlp-tiny]\ntopologies: [laptop]\n"
                             "strategies: [data-parallel]\n");
  REQUIRE(unity("sweep " + grid + " -o " + f.file("r")).code == 0);
  std::string plan = fs::directory_iterator(f.path / "r/plans")->path().filename().string();
  fs::create_directories(f.path / "again/plans" / plan);  // no file can be written there
  check_refused("sweep " + grid + " -o " + f.file("again"), {plan + ": cannot be written: Is a directory"});
  CHECK_FALSE(fs::exists(f.path / "again/results.json"));
  fs::remove(f.path / "again/plans" / plan);
  REQUIRE(unity("sweep " + grid + " --resume -o " + f.file("again")).code == 0);
  CHECK(json::parse(read(f.file("again/results.json")))["rows"][0].contains("iteration_seconds"));
}

TEST_CASE("a sweep writes a row for each point, resumes, and gives the same results as without the interruption") {
  Folder f;
  std::string text =
      "format: unity-experiment\nversion: 1\nmodels: [mlp-mnist]\ntopologies: [summit]\nnodes: [1]\ndevices: [1, "
      "2]\nstrategies: [data-parallel, unity]\n";
  std::string all = f.write("all.yaml", text);
  std::string part = f.write("part.yaml", text.replace(text.find("[1, 2]"), 6, "[1]"));
  REQUIRE(unity("sweep " + part + " -o " + f.file("r")).code == 0);
  const Outcome other = unity("sweep " + all + " --resume -o " + f.file("r"));
  REQUIRE(other.code == 0);
  CHECK(other.err.find("2 rows were made by another version") != std::string::npos);
  REQUIRE(unity("sweep " + all + " -o " + f.file("once")).code == 0);
  json resumed = json::parse(read(f.file("r/results.json")))["rows"],
       once = json::parse(read(f.file("once/results.json")))["rows"];
  REQUIRE(resumed.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(resumed[i]["point"] == once[i]["point"]);
    CHECK(resumed[i]["iteration_seconds"] == once[i]["iteration_seconds"]);
  }
  std::string csv = read(f.file("r/results.csv"));
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 5);
  check_refused("sweep " + all + " -o " + f.file("r"), {"--resume"});
}

TEST_CASE("flows on a topology: two that share a link get half of it each") {
  Folder f;
  // node0.socket0.gpu0 -> gpu1, twice, over one NVLink of 50 GB/s: 10 GB in all take 0.2 s.
  std::string flows = f.write(
      "flows.json",
      R"({"flows": [{"id": "a", "src": 0, "dst": 1, "bytes": 5000000000}, {"id": "b", "src": 0, "dst": 1, "bytes": 5000000000}]})");
  json result = json::parse(unity("simulate --flows " + flows + " --topology summit --nodes 1 --json").out);
  CHECK(result["flows"][0]["finish_s"].get<double>() == Approx(0.2).epsilon(1e-3));
  CHECK(result["end_s"].get<double>() == Approx(0.2).epsilon(1e-3));
}

TEST_CASE("flows are answered by their ids as given, with their routes when asked") {
  Folder f;
  // a alone on an NVLink of 50 GB/s with 1.9 us: 5 MB in 101.9 us; b after it the same again
  std::string flows = f.write("flows.json",
                              R"({"flows": [{"id": 7, "src": 0, "dst": 1, "bytes": 5000000},
                                            {"id": "b", "src": 0, "dst": 1, "bytes": 5000000, "after": [7]}]})");
  json result = json::parse(unity("simulate --flows " + flows + " --topology summit --nodes 1 --json --routes").out);
  CHECK(result["flows"][0]["id"] == 7);
  CHECK(result["flows"][1]["id"] == "b");
  CHECK(result["flows"][0]["finish_s"].get<double>() == Approx(101.9e-6).epsilon(1e-9));
  CHECK(result["end_s"].get<double>() == Approx(203.8e-6).epsilon(1e-9));
  REQUIRE(result["flows"][0]["links"].size() == 1);
  json link = result["links"][result["flows"][0]["links"][0].get<std::size_t>()];
  CHECK(link["from"] == "node0.socket0.gpu0");
  CHECK(link["to"] == "node0.socket0.gpu1");
  CHECK(link["bytes_per_second"] == 50e9);
  check_refused("simulate --topology summit --flows " +
                    f.write("wrong.json", "{\"flows\": [\n{\"src\": 0, \"dst\": 99, \"bytes\": 1}]}"),
                {"wrong.json:2", "99"});
}

TEST_CASE("wrong names are refused with the nearest right one") {
  check_refused("search bert-larg --topology summit", {"bert-larg", "bert-large"});
  check_refused("search mlp --topology sumit", {"sumit", "summit"});
  check_refused("search mlp-mnist --topology summit --strategy unty", {"unty", "unity"});
  check_refused("serach mlp-mnist", {"serach", "search"});
  check_refused("search mlp-mnist --topolgy summit", {"--topolgy", "--topology"});
  check_refused("compare mlp-mnist --topology summit --strategies data-paralel", {"data-parallel"});
  check_refused("search mlp-mnist --topology summit --parallelism dta", {"data"});
  check_refused("search mlp-mnist --topology summit --option hiden=3", {"hiden"});
}

TEST_CASE("malformed and mistyped YAML is refused with file and line") {
  Folder f;
  std::string broken = f.write("broken.yaml", "format: unity-topology\nversion: 1\nhierarchy: {node: [1\n");
  check_refused("show " + broken, {"broken.yaml:"});
  check_refused("search mlp-mnist --topology " + broken, {"broken.yaml:"});
  std::string key =
      f.write("key.yaml",
              "format: unity-experiment\nversion: 1\nmodels: [mlp-mnist]\ntopologies: [summit]\nstrategys: [unity]\n");
  check_refused("sweep " + key + " -o " + f.file("r"), {"key.yaml:5:1", "strategys", "strategies"});
  std::string model = f.write("model.yaml", "format: unity-model\nversion: 1\nname: m\nlayers: 7\n");
  check_refused("search " + model + " --topology summit", {"model.yaml:"});
}

TEST_CASE("degrees that do not divide are refused with what would") {
  check_refused("search mlp-mnist --topology summit --nodes 1 --devices 3 --global-batch 64 --strategy data-parallel",
                {"64", "3", "multiple of 3"});
}

TEST_CASE("plans that are cut off, foreign, for another machine or too large are refused") {
  Folder f;
  std::string plan = f.file("plan.json");
  REQUIRE(unity("search mlp-tiny --strategy data-parallel --topology laptop --devices 2 --global-batch 60 -o " + plan)
              .code == 0);
  std::string text = read(plan);
  check_refused("explain " + f.write("cut.json", text.substr(0, text.size() / 2)), {"cut.json:", "truncated"});
  check_refused("explain " + f.write("foreign.json", "{\"format\": \"other\"}"),
                {"foreign.json", "other", "unity-plan"});
  check_refused("explain " + f.write("number.json", "[1e999]"), {"number.json", "out of range"});
  check_refused("simulate " + plan + " --topology summit --nodes 1 --devices 2", {"plan.json", "another machine"});
  check_refused("run " + plan + " --topology laptop --devices 4", {"plan.json", "2 devices"});
  check_refused("explain " + f.file("absent.json"), {"absent.json"});
  check_refused("explain " + f.write("escape.json", "{\"format\": \"\\u001b[31mred\\r\"}"), {"format is ' [31mred '"});
  check_refused("search mlp-mnist --topology summit --nodes 1 --devices 2 --memory-limit '1 MB'",
                {"needs", "which is limited to 1 MB"});
  std::string degree = files::without_checksum(text);
  std::size_t at = degree.find("\"strides\":");
  REQUIRE(at != std::string::npos);
  at = degree.find("partition(0, 2");
  if (at == std::string::npos) at = degree.find("partition(1, 2");
  REQUIRE(at != std::string::npos);
  degree.replace(at + 13, 1, "777777");
  check_refused("simulate " + f.write("degree.json", degree), {"degree.json", "degree 777777 is too large"});
}

TEST_CASE("output that cannot be written is refused before the work starts") {
  check_refused("search bert-large --topology summit --nodes 2 -o /nonexistent/folder/plan.json",
                {"/nonexistent/folder"});
}

TEST_CASE("data that cannot be used are refused with place") {
  Folder f;
  std::string head = "run mlp-tiny --topology laptop --devices 1 --global-batch 4 --epochs 1 --data ";
  check_refused(head + f.file("absent.csv"), {"absent.csv"});
  check_refused(head + f.write("short.csv", "1,2,0\n1,0\n"), {"short.csv:2", "2 columns", "expected 3"});
  check_refused(head + f.write("nan.csv", "1,2,0\n1,nan,1\n"), {"nan.csv:2"});
  check_refused(head + f.write("few.csv", "1,2,0\n1,3,1\n"), {"2 features", "input"});
}

TEST_CASE("factors beyond the simulated clock are refused, not wrapped around") {
  Folder folder;
  std::string plan = folder.file("plan.json");
  REQUIRE(unity("search mlp-tiny --topology laptop --strategy data-parallel -o " + plan).code == 0);
  for (const char* option : {"--straggler 0=1e15", "--scale device=1e-18", "--scale task:matmul=1e12"})
    check_refused("simulate " + plan + " " + option, {"one after the other, expected less than"});
  check_refused("simulate " + plan + " --trace-format perfetto", {"--trace-format requires --trace"});
  check_refused("simulate --collective all_reduce --topology laptop --bytes 99999999999999999999", {"out of range"});
}

TEST_CASE("counts that are no counts are refused with what was found and expected") {
  check_refused("search mlp-tiny --topology laptop --nodes two", {"--nodes", "'two'", "whole number"});
  check_refused("search mlp-tiny --topology laptop --devices 0", {"--devices", "'0'"});
  check_refused("search mlp-tiny --topology laptop --jobs -3", {"--jobs", "'-3'"});
  check_refused("search mlp-tiny --topology laptop --layers 99999999999", {"--layers", "99999999999"});
  check_refused("run mlp-tiny --steps 1.5", {"--steps", "'1.5'"});
}

TEST_CASE("options of the search are refused for a plan, which has its own") {
  Folder f;
  std::string plan = f.file("plan.json");
  REQUIRE(unity("search mlp-tiny --topology laptop --devices 2 --global-batch 60 -o " + plan).code == 0);
  check_refused("run " + plan + " --global-batch 30 --steps 1", {"plan.json", "--global-batch"});
  check_refused("validate " + plan + " --strategy expert", {"plan.json", "--strategy"});
}

TEST_CASE("the critical path of a plan adds up to its iteration") {
  Folder f;
  std::string plan = f.file("plan.json");
  REQUIRE(unity("search mlp-tiny --topology laptop --devices 2 --global-batch 60 -o " + plan).code == 0);
  json out = json::parse(unity("simulate " + plan + " --critical-path --json").out);
  double sum = 0;
  for (const json& step : out["critical_path"]) sum += step["seconds"].get<double>();
  CHECK(sum == Approx(out["iteration_seconds"].get<double>()).epsilon(1e-9));
}

TEST_CASE("explain predicts what a plan is bound by, and what would make it faster") {
  Folder f;
  std::string plan = f.file("plan.json");
  REQUIRE(unity("search bert-tiny --topology summit --nodes 2 --strategy data-parallel -o " + plan).code == 0);
  json out = json::parse(unity("explain " + plan + " --what-if --scale device=2 --json").out);
  json simulated = json::parse(unity("simulate " + plan + " --json").out);
  CHECK(out["unscaled_iteration_seconds"] == simulated["iteration_seconds"]);
  CHECK(out["iteration_seconds"] < simulated["iteration_seconds"]);
  double iteration = out["iteration_seconds"];
  for (const auto& [name, bound] : out["lower_bounds_seconds"].items()) CHECK(bound.get<double>() <= iteration);
  const json& path = out["critical_path"];
  double sum = 0;
  for (const char* part : {"compute_seconds", "communication_seconds", "host_copies_seconds", "waiting_seconds"})
    sum += path[part].get<double>();
  CHECK(sum == Approx(iteration).epsilon(1e-9));
  CHECK(out["model_flops_utilization"] <= out["executed_flops_utilization"]);
  CHECK(out["devices"].size() == 12);
  CHECK(out["links"][0]["mean_use"] >= out["links"][1]["mean_use"]);
  CHECK(out["collectives"][0]["kind"] == "all_reduce");
  REQUIRE(out["what_if"].size() >= 6);
  CHECK(out["what_if"][0]["speedup"] >= out["what_if"][1]["speedup"]);
  std::string text = unity("explain " + plan + " --what-if").out;
  for (const char* said : {"12-way data", "at best", "critical path", "busiest links", "what if"})
    CHECK(text.find(said) != std::string::npos);
  check_refused("explain " + plan + " --scale link:infinband=2", {"--scale", "infinband", "infiniband"});
  check_refused("simulate " + plan + " --scale device=x", {"--scale", "found 'x'"});
  check_refused("simulate --collective all_reduce --bytes 1000 --topology summit --scale link=2",
                {"--scale needs PLAN"});
}

TEST_CASE("a plan is exported as timelines and as Chakra traces") {
  Folder f;
  std::string plan = f.file("plan.json");
  REQUIRE(unity("search mlp-tiny --topology laptop --devices 2 --global-batch 60 --strategy data-parallel -o " + plan)
              .code == 0);
  REQUIRE(unity("simulate " + plan + " --trace " + f.file("t.perfetto.json")).code == 0);
  std::map<std::string, int> phases;
  json timeline = json::parse(read(f.file("t.perfetto.json")));
  for (const json& event : timeline["traceEvents"]) ++phases[event["ph"].get<std::string>()];
  CHECK(phases["X"] > 0);
  CHECK(phases["C"] > 0);
  CHECK(phases["s"] > 0);
  CHECK(phases["s"] == phases["f"]);
  REQUIRE(unity("simulate " + plan + " --trace-format perfetto --trace " + f.file("t.json")).code == 0);
  CHECK(read(f.file("t.json")) == read(f.file("t.perfetto.json")));
  check_refused("simulate " + plan + " --trace-format perfeto --trace " + f.file("u.json"),
                {"did you mean 'perfetto'?"});
  check_refused("export " + plan + " --format dot --trace " + f.file("t.json"), {"--trace", "expected perfetto or"});
  Outcome chakra = unity("export " + plan + " --format chakra -o " + f.file("c"));
  if (chakra.err.find("not in this build") != std::string::npos) return;
  CHECK(chakra.code == 0);
  CHECK(read(f.file("c.1.et")).substr(0, 8) == std::string("\x07\x0a\x05"
                                                           "0.0.4"));
  CHECK(json::parse(read(f.file("c.groups.json"))).is_object());
}

TEST_CASE("an absent backend is a reported state, not a crash") {
  ::setenv("UNITY_PLUGINS", "/no/such/folder", 1);
  check_refused("run mlp-tiny --topology laptop --devices 1 --steps 1 --backend cuda", {"cuda", "not in this build"});
  check_refused("run mlp-tiny --topology laptop --devices 1 --steps 1 --comm mpi", {"mpi", "not in this build"});
  ::unsetenv("UNITY_PLUGINS");
  check_refused("run mlp-tiny --topology laptop --devices 1 --steps 1 --backend abacus",
                {"abacus", "known: cpu, cuda"});
  check_refused("run mlp-tiny --topology laptop --devices 1 --steps 1 --comm pigeons", {"pigeons", "mpi"});
}

TEST_CASE("every command has help with an example") {
  for (const char* command :
       {"list", "show", "search", "compare", "explain", "simulate", "run", "validate", "profile", "export", "sweep"}) {
    Outcome o = unity(std::string(command) + " --help");
    CHECK(o.code == 0);
    CHECK(o.out.find("Examples:") != std::string::npos);
  }
  CHECK(unity("--version").out.find("unity ") == 0);
  check_refused("", {"no command"});
}

TEST_CASE("a run resumed from a checkpoint on other devices has the losses of one that was not interrupted") {
  Folder folder;
  std::string run =
      "run mlp-tiny --global-batch 60 --precision f64 --optimizer 'adamw 1e-3' --schedule 'cosine "
      "warmup=5 steps=30' --json ";
  json whole = json::parse(unity(run + "--steps 30").out);
  std::string there = run + "--checkpoint " + folder.file("c");
  REQUIRE(unity(there + " --devices 2 --steps 10 --checkpoint-every 4").code == 0);
  json rest = json::parse(unity(there + " --devices 3 --steps 30 --resume").out);
  CHECK(rest["first_step"] == 10);
  REQUIRE(rest["losses"].size() == 20);
  for (std::size_t i = 0; i < 20; ++i) {
    double expected = whole["losses"][10 + i];
    CHECK(std::abs(rest["losses"][i].get<double>() - expected) <= 1e-9 * expected);
  }
  CHECK(rest["samples_per_second"] > 0);
  CHECK(rest["evaluations"].size() == 1);
  CHECK(fs::exists(folder.path / "c" / "step-000030" / "index.json"));
  check_refused(there + " --steps 40", {"holds a checkpoint of step 30"});
}

TEST_CASE("checkpoints that cannot be resumed from are refused in one line, and stay as they are") {
  Folder folder;
  std::string there = " --checkpoint " + folder.file("c");
  check_refused("run mlp-tiny --resume" + there, {folder.file("c"), "found no checkpoint"});
  check_refused("run mlp-tiny --resume", {"--checkpoint"});
  REQUIRE(unity("run mlp-tiny --steps 2 --devices 1" + there).code == 0);
  std::string file = folder.file("c/step-000002/model-00001-of-00001.safetensors"), whole = read(file);
  auto resumed = [&](const std::string& model) { return "run " + model + " --steps 4 --devices 1 --resume" + there; };
  check_refused(resumed("mlp-tiny --option hidden=256"), {"layer.0.weight", "found [64, 512]", "expected [64, 256]"});
  check_refused(resumed("bert-tiny"), {"model mlp-tiny"});
  check_refused(resumed("mlp-tiny --optimizer 'sgd 0.1 momentum=0.9'"), {"layer.0.weight.state1"});
  std::string flipped = whole;
  flipped[whole.size() / 2] ^= 4;
  folder.write("c/step-000002/model-00001-of-00001.safetensors", flipped);
  check_refused(resumed("mlp-tiny"), {file, "checksum"});
  folder.write("c/step-000002/model-00001-of-00001.safetensors", whole.substr(0, 1000));
  check_refused(resumed("mlp-tiny"), {file, "found 1000 bytes"});
  fs::remove(file);
  check_refused(resumed("mlp-tiny"), {file, "is missing"});
  folder.write("c/step-000002/model-00001-of-00001.safetensors", whole);
  CHECK(unity(resumed("mlp-tiny")).code == 0);
}

TEST_CASE("optimizers, schedules and early stopping that make no sense are refused") {
  check_refused("run mlp-tiny --optimizer lion", {"optimizer: found 'lion'", "adamw"});
  check_refused("run mlp-tiny --schedule 'cosine warmup=-1'", {"schedule:", "'warmup=-1'"});
  check_refused("run mlp-tiny --early-stop 0", {"--early-stop"});
  check_refused("run mlp-tiny --early-stop 2 --early-stop-on speed", {"'speed'", "accuracy or loss"});
  check_refused("run mlp-tiny --early-stop 2 --data synthetic", {"no test rows"});
}

TEST_CASE("profile measures the tasks of a plan, keeps what it has, and simulate and validate use it") {
  Folder f;
  std::string plan = f.file("plan.json"), profile = f.file("profile.yaml");
  REQUIRE(unity("search mlp-tiny --topology laptop --devices 2 --global-batch 60 --strategy data-parallel -o " + plan)
              .code == 0);
  json missing = json::parse(unity("profile " + plan + " --list-missing --json").out)["missing"];
  REQUIRE(missing.size() > 5);
  CHECK(missing[0]["threads"] == 1);
  CHECK_FALSE(fs::exists(profile));
  json made = json::parse(unity("profile " + plan + " --threads 1 --task-seconds 0.001 --json -o " + profile).out);
  CHECK(made["measured"] == missing.size());
  CHECK(made["entries"] == missing.size());
  CHECK(json::parse(unity("profile " + plan + " --threads 1 --list-missing --json -o " + profile).out)["missing"]
            .empty());
  json again = json::parse(unity("profile " + plan + " --threads 1 --json -o " + profile).out);
  CHECK(again["measured"] == 0);
  CHECK(again["entries"] == missing.size());
  json without = json::parse(unity("simulate " + plan + " --json").out);
  CHECK(without["profiled_tasks"] == 0);
  CHECK(without["estimated_tasks"] == without["tasks"]);
  // A laptop's two devices have a core each.
  json with = json::parse(unity("simulate " + plan + " --profile " + profile + " --json").out);
  CHECK(with["estimated_tasks"] == 0);
  CHECK(with["iteration_seconds"] != without["iteration_seconds"]);
  std::string two = "validate mlp-tiny --devices 2 --global-batch 60 --random 1 --steps 3 --profile ";
  json set = json::parse(unity(two + profile + " --json").out);
  REQUIRE(set["plans"].size() == 2);
  CHECK(set["plans"][0]["estimated_tasks"] == 0);
  CHECK(set["mape"] >= 0);
  CHECK(set.contains("rank_correlation"));
  check_refused("simulate " + plan + " --profile " + f.write("bad.yaml", "format: unity-profile\nversion: 3\n"),
                {"bad.yaml:2:", "version", "expected 1 to 2"});
  check_refused("profile " + plan, {"-o", "missing"});
  check_refused("profile " + plan + " --precision f64 -o " + profile, {"profile.yaml", "precision f32", "f64"});
  check_refused("profile " + plan + " --precision bf16 -o " + f.file("half.yaml"), {"backend cpu", "bf16", "f32"});
  check_refused("validate " + plan + " --precision f64 --profile " + profile,
                {"profile of", "cpu in f32", "cpu in f64"});
  check_refused("validate " + plan + " --random 2", {"plan.json", "--random"});
  check_refused("validate " + plan + " --comm pigeons", {"pigeons", "threads"});
}

TEST_CASE("profile --comm measures collectives by size and group, or those that plans lack, and simulate uses them") {
  Folder f;
  std::string plan = f.file("plan.json"), profile = f.file("profile.yaml"), all = f.file("all.yaml");
  REQUIRE(unity("search mlp-tiny --topology laptop --devices 2 --global-batch 60 --strategy data-parallel -o " + plan)
              .code == 0);
  std::string measure = "profile " + plan + " --comm threads --task-seconds 0.001 --json -o " + profile;
  json missing = json::parse(unity(measure + " --list-missing").out);
  REQUIRE(missing["missing_collectives"].size() > 0);
  CHECK(missing["missing_collectives"][0]["collective"] == "all_reduce of 2 device");
  for (const json& task : missing["missing"])
    CHECK(task["task"].get<std::string>().find("all_reduce") == std::string::npos);
  json made = json::parse(unity(measure).out);
  CHECK(made["measured_collectives"] == missing["missing_collectives"].size());
  CHECK(made["measured"] == missing["missing"].size());
  for (const json& row : made["collectives"]) {
    CHECK(row["seconds"] > 0);
    CHECK(row["low_seconds"] <= row["high_seconds"]);
    CHECK(row["modelled_seconds"] > 0);
  }
  CHECK(made["sections"][0]["peak_flops"].is_null());  // not measured
  CHECK(made["sections"][0]["worst_spread"] >= made["sections"][0]["median_spread"]);
  json nothing = json::parse(unity(measure + " --list-missing").out);
  CHECK(nothing["missing"].empty());
  CHECK(nothing["missing_collectives"].empty());
  CHECK(json::parse(unity(measure).out)["measured_collectives"] == 0);
  CHECK(json::parse(unity("simulate " + plan + " --profile " + profile + " --json").out)["estimated_tasks"] == 0);
  CHECK(json::parse(unity("validate " + plan + " --steps 3 --profile " + profile + " --json").out)["estimated_tasks"] ==
        0);
  // 13 collectives of two groups, of 4 and 16 KiB; those of devices are left out.
  Outcome machine = unity("profile --comm threads --largest 16KiB --task-seconds 0.001 -o " + all);
  CHECK(machine.out.find("all_to_all of 4 device") != std::string::npos);
  CHECK(machine.out.find("0 tasks and 26 collectives measured") != std::string::npos);
  CHECK(read(all).find("sections: []") != std::string::npos);
  CHECK(unity("profile --comm threads --largest 16KiB --list-missing -o " + all).out == "nothing is missing\n");
  check_refused("profile --comm nccl -o " + all, {"--comm nccl", "backend cpu", "expected cuda"});
  check_refused("profile --comm threads --largest 1KiB -o " + all, {"--largest", "1KiB", "at least"});
  check_refused("profile --comm threads --topology summit --nodes 1 -o " + all, {"all.yaml:", "'laptop'", "'summit'"});
  check_refused("search mlp-tiny --topology summit --nodes 1 --profile " + all,
                {"all.yaml:", "'laptop'", "node, device", "expected 'summit'"});
  // Nothing is left to measure here; what there is has quartiles of 1 and 1.6 around 1.2.
  std::string shaky =
      "format: unity-profile\nversion: 2\ndevice: d\ndate: 2026-01-31\nbackend: cpu\nprecision: f32\ncollectives:\n"
      "  comm: threads\n  processes: 1\n  topology: laptop\n  levels: [node, device]\n  times:\n";
  for (const char* kind : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "send"})
    shaky += std::string("    ") + kind + " of 2 device: {4096: [1.2e-6, 1.2e-6, 1e-6, 1.6e-6]}\n";
  std::string spread = f.write("spread.yaml", shaky + "sections: []\n");
  Outcome warned = unity("profile --comm threads --devices 2 --largest 4KiB -o " + spread);
  CHECK(warned.code == 0);
  CHECK(warned.out.find("0 tasks and 0 collectives measured") != std::string::npos);
  CHECK(warned.err.find("spread.yaml: half of the times spread over at least 50%") != std::string::npos);
  std::string mpi = read(all);
  mpi.erase(mpi.find("checksum"), mpi.find("collectives:") - mpi.find("checksum"));
  mpi.replace(mpi.find("'threads'\n  processes: 1"), 24, "'mpi'\n  processes: 4");
  std::string other = f.write("mpi.yaml", mpi);
  check_refused("validate " + plan + " --profile " + other,
                {"mpi.yaml:", "comm mpi in 4 processes", "expected threads in 1"});
  check_refused("simulate " + plan + " --profile " + other + " --scale link=2", {"--scale link=2", "measured"});
}
