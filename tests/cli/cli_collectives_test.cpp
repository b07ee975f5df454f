// `unity simulate` of collectives: alone, and how they are chosen.

#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/command.h"

namespace {

using nlohmann::json;

using namespace command;

Outcome simulate(const std::string& arguments) { return unity("simulate " + arguments); }

void check_simulate_refused(const std::string& arguments, const std::string& said) {
  check_refused("simulate " + arguments, {said});
}

}  // namespace

TEST_CASE("one collective alone gives its time, bus bandwidth and alternatives") {
  // Three GPUs of one socket of summit: rings over NVLinks of 50 GB/s, 2 (n-1) latencies of 1.9 us.
  json ring =
      json::parse(simulate("--collective all_reduce --bytes 3000000000 --topology summit --devices 3 --json").out);
  CHECK(ring["seconds"].get<double>() == Approx(4 * 1.9e-6 + 4.0 / 3 * 3e9 / 50e9).epsilon(1e-9));
  CHECK(ring["bus_bandwidth"].get<double>() == Approx(50e9).epsilon(1e-3));
  CHECK(ring["reason"] == "only");
  json steps = json::parse(
      simulate("--collective all_reduce --bytes 3000000000 --topology summit --devices 3 --json --steps").out);
  CHECK(steps["transfers"] == 12);  // 4 steps of 3
  CHECK(steps["seconds"].get<double>() == Approx(ring["seconds"].get<double>()).epsilon(1e-9));
  json nccl = json::parse(simulate("--collective all_reduce --bytes '1 GB' --topology dgx-h100 --json").out);
  CHECK(nccl["alternatives"][0]["algorithm"] == "in_switch");
  CHECK(nccl["alternatives"].size() == 7);
}

TEST_CASE("what is asked of collectives and can not be is refused") {
  check_simulate_refused("--collective all_redue --bytes 8 --topology summit", "all_reduce");
  check_simulate_refused("--collective all_reduce --topology summit", "--bytes");
  check_simulate_refused("--collective all_reduce --bytes 8", "--topology");
  check_simulate_refused("--collective all_reduce --bytes '-1 GB' --topology summit", "'-1 GB'");
  check_simulate_refused("--collective all_reduce --bytes 8 --topology summit --devices 1", "at least 2");
  check_simulate_refused("--collective send --bytes 8 --topology summit", "--devices 2");
  check_simulate_refused("--collective all_reduce --bytes 8 --topology summit --collective-algorithm rign", "'ring'");
  check_simulate_refused("--collective all_reduce --bytes 8 --topology dgx-h100 --collective-protocol LL12", "'LL128'");
  check_simulate_refused("plan.json --collective all_reduce --bytes 8", "without PLAN");
  check_simulate_refused("--collective all_reduce --bytes 8 --topology summit --collective-chunk 0",
                         "--collective-chunk: found '0', expected more than 0");
}

TEST_CASE("options that say nothing of a collective or of flows are refused") {
  Folder f;
  for (const char* option : {"--straggler 0=5", "--jitter 0.5", "--seed 3", "--iterations 5", "--critical-path",
                             "--no-fold", "--collectives", "--schedule 1f1b", "--remat all"}) {
    const std::string text = option, name = text.substr(0, text.find(' '));
    check_simulate_refused("--collective all_reduce --bytes 8 --topology summit " + text,
                           name + " excludes --collective");
  }
  std::string trace = f.file("trace.json");
  check_simulate_refused("--collective all_reduce --bytes 8 --topology summit --trace " + trace,
                         "--trace excludes --collective");
  CHECK(!fs::exists(trace));
  std::string flows = f.write("flows.json", R"({"flows": [{"src": 0, "dst": 1, "bytes": 1}]})");
  CHECK(simulate("--flows " + flows + " --topology summit --nodes 1 --devices 4 --routes --json").code == 0);
  for (const char* option : {"--steps", "--iterations 5", "--schedule nonsense", "--collective-algorithm nonsense"}) {
    const std::string text = option, name = text.substr(0, text.find(' '));
    check_simulate_refused("--flows " + flows + " --topology summit " + text, name + " excludes --flows");
  }
}
