// `unity simulate` of collectives: alone, and how they are chosen.

#include <array>
#include <cstdio>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

namespace {

using nlohmann::json;

struct Outcome {
  int code = -1;
  std::string out;  // of both streams
};

Outcome simulate(const std::string& arguments) {
  std::string command = std::string(UNITY_BINARY_DIR) + "/bin/unity simulate " + arguments + " 2>&1 </dev/null";
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe);
  Outcome outcome;
  std::array<char, 4096> part;
  while (std::size_t n = fread(part.data(), 1, part.size(), pipe)) outcome.out.append(part.data(), n);
  int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return outcome;
}

void check_refused(const std::string& arguments, const std::string& said) {
  INFO("unity simulate " << arguments);
  Outcome outcome = simulate(arguments);
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.out, Catch::Contains(said));
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
  check_refused("--collective all_redue --bytes 8 --topology summit", "all_reduce");
  check_refused("--collective all_reduce --topology summit", "--bytes");
  check_refused("--collective all_reduce --bytes 8", "--topology");
  check_refused("--collective all_reduce --bytes '-1 GB' --topology summit", "'-1 GB'");
  check_refused("--collective all_reduce --bytes 8 --topology summit --devices 1", "at least 2");
  check_refused("--collective send --bytes 8 --topology summit", "--devices 2");
  check_refused("--collective all_reduce --bytes 8 --topology summit --collective-algorithm rign", "'ring'");
  check_refused("--collective all_reduce --bytes 8 --topology dgx-h100 --collective-protocol LL12", "'LL128'");
  check_refused("plan.json --collective all_reduce --bytes 8", "without PLAN");
}
