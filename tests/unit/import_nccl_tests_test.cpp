// Links fitted to tables of nccl-tests.
#include <cstdlib>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include "core/base/text.h"
#include "core/machine/import/nccl_tests.h"
#include "tests/support/paths.h"
#include "tests/support/topology_text.h"

using namespace unity;
using namespace unity::test;
using Catch::Contains;

namespace {

const std::string kSample = UNITY_SOURCE_DIR "/tests/data/machines/all-reduce-8-h100.txt";
const std::string kHead = "# size count type redop root time algbw busbw #wrong\n";

std::string ranks(int n, int hosts) {
  std::string text;
  for (int r = 0; r < n; ++r)
    text += fmt::format("#  Rank {:2} Group 0 Pid 1 on host{} device {} [0x1b] GPU\n", r, r * hosts / n, r);
  return text;
}

// A table of the times that the function gives, in seconds.
template <class Time>
std::string table(int n, int hosts, const std::string& redop, int root, double factor, Time time) {
  std::string text = ranks(n, hosts) + kHead;
  for (double size = 1024; size < 1e9; size *= 4) {
    double t = time(size);
    text += fmt::format("{:.0f} {:.0f} float {} {} {:.4f} {:.4f} {:.4f} 0\n", size, size / 4, redop, root, t * 1e6,
                        size / t / 1e9, factor * size / t / 1e9);
  }
  return text;
}

std::string error(const std::string& text, int devices = 0) {
  try {
    read_nccl_tests(text, "t.txt", devices);
  } catch (const InputError& e) {
    return e.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a table tells ranks, hosts, collective and times of both kinds") {
  NcclTable t = read_nccl_tests(read_file(kSample), "t.txt");
  CHECK(t.ranks == 8);
  CHECK(t.hosts == 1);
  CHECK(t.collective == "all_reduce");
  CHECK(t.bytes_factor == 1.75);  // 2 * 7/8
  CHECK(t.steps == 14);
  CHECK(t.times.size() == 2 * 31);  // 8 bytes to 8 GiB
  CHECK(t.times[0].bytes == 8);
}

TEST_CASE("the collective follows from the ratio of the bandwidths, the reduction and the root") {
  auto collective = [](int n, const std::string& redop, int root, double factor) {
    return read_nccl_tests(table(n, 1, redop, root, factor, [](double s) { return 1e-5 + s / 1e11; }), "t").collective;
  };
  CHECK(collective(4, "sum", -1, 1.5) == "all_reduce");
  CHECK(collective(4, "none", -1, 0.75) == "all_gather or alike");
  CHECK(collective(4, "none", 0, 1) == "broadcast or alike");
  CHECK(collective(2, "sum", -1, 1) == "all_reduce");
  CHECK(collective(2, "none", -1, 1) == "sendrecv");
}

TEST_CASE("the fit finds the latency and bandwidth behind disturbed times") {
  // The sample was made with 28 links of 0.5 us (14 steps by the switch), 370 GB/s, errors of up to 1%, and one time
  // that is three times as long.
  LinkFit fit = fit_links({read_nccl_tests(read_file(kSample), kSample)}, load_topology("dgx-h100"));
  CHECK(fit.before.kind == LinkKind::nvlink);
  CHECK(fit.before.bandwidth.rate == 450e9);
  CHECK(fit.bandwidth.rate == Approx(370e9).epsilon(0.005));
  CHECK(fit.latency.seconds() == Approx(0.5e-6).epsilon(0.005));
  CHECK(fit.median_error < 0.01);
  CHECK(fit.largest_error > 0.6);  // the disturbed one: 1 - 1/3
}

TEST_CASE("between nodes the ports bound the ring, and the other links' latencies are taken off") {
  // A ring over 2 x 8 GPUs; 30 steps pass each of its 16 edges twice but for two: 4 times between nodes, with 2 ports
  // and 2 PCIe links of 1 us each, and 26 times by a switch, with two links of 0.95 us.
  auto time = [](double size) { return 8 * 2.5e-6 + 4 * 2e-6 + 26 * 1.9e-6 + 2 * 15 / 16.0 * size / 46e9; };
  auto half = [](double size) { return 4 * 2.5e-6 + 2 * 2e-6 + 13 * 1.9e-6 + 15 / 16.0 * size / 46e9; };
  NcclTable reduce = read_nccl_tests(table(16, 2, "sum", -1, 2 * 15 / 16.0, time), "reduce");
  NcclTable gather = read_nccl_tests(table(16, 2, "none", -1, 15 / 16.0, half), "gather");
  CHECK(reduce.hosts == 2);
  LinkFit fit = fit_links({reduce, gather}, load_topology("dgx-h100", {.nodes = 2}));
  CHECK(fit.before.kind == LinkKind::infiniband);
  CHECK(fit.bandwidth.rate == Approx(46e9).epsilon(1e-4));
  CHECK(fit.latency.seconds() == Approx(2.5e-6).epsilon(1e-3));
  CHECK(fit.largest_error < 1e-3);
}

TEST_CASE("fitted figures take the place of the old ones and nothing else changes") {
  LinkFit fit = fit_links({read_nccl_tests(read_file(kSample), kSample)}, load_topology("dgx-h100"));
  fit.bandwidth = {370e9}, fit.latency = {500'000};
  std::string before = read_file(UNITY_SOURCE_DIR "/topologies/dgx-h100.yaml"),
              after = with_fitted_links("dgx-h100", fit);
  std::string expected = before;
  expected.replace(expected.find("450 GB/s, latency: 0.95 us"), 26, "370 GB/s, latency: 0.5 us");
  CHECK(after == expected);
}

TEST_CASE("damaged tables are refused with file and line") {
  CHECK(error("nothing\n") ==
        "t.txt:1: found no line '# size count ...', expected the table of a program of nccl-tests");
  CHECK(error(ranks(2, 1) + kHead) == "t.txt:3: found no rows of at least one byte below this head");
  CHECK(error(ranks(2, 1) + kHead + "8 2 float sum -1 5.1\n") == "t.txt:4: found 6 columns, expected 9 as in the head");
  CHECK(error(ranks(2, 1) + kHead + "8 2 float sum -1 fast 1 1 0\n") ==
        "t.txt:4: time: found 'fast', expected a number from 0 to 1e+18");
  CHECK_THAT(error(ranks(2, 1) + kHead + "8" + std::string(20, '0') + " 2 float sum -1 5 1 1 0\n"),
             Contains("t.txt:4: size: found '8"));
  CHECK(error(ranks(2, 1) + kHead + "8 2 float sum -1 0 1 1 0\n") == "t.txt:4: time: found '0', expected more than 0");
  CHECK_THAT(error(ranks(4, 1) + kHead + "8 2 float sum -1 5 1 1.2 0\n"),
             Contains("busbw / algbw is 1.200, expected 1.500, 0.750 or 1"));
  const std::string one = kHead + "8 2 float sum -1 5 1 1 0\n";
  CHECK_THAT(error(one), Contains("found 0 ranks, expected 2 to 1048576"));
  CHECK_THAT(error(one, 2147483647), Contains("found 2147483647 ranks"));
  CHECK(error(one, 2).empty());
  CHECK_THROWS_WITH(fit_links({read_nccl_tests(one, "t", 2)}, load_topology("dgx-h100")), Contains("found one size"));
  // 5 us for 8 bytes as for 16: no bandwidth follows.
  const std::string flat = one + "16 4 float sum -1 5 1 1 0\n";
  CHECK_THROWS_WITH(fit_links({read_nccl_tests(flat, "t", 2)}, load_topology("dgx-h100")),
                    Contains("t: times do not grow with the size"));
  CHECK_THROWS_WITH(fit_links({read_nccl_tests(table(16, 2, "sum", -1, 1.875, [](double s) { return s / 1e9; }), "t")},
                              load_topology("dgx-h100")),
                    Contains("16 ranks, expected at most the 8 devices"));
}

TEST_CASE("unity import tells machines by a word before the file") {
  auto run = [](const std::string& arguments, std::string& out) {
    TextFile file("", ".out");
    int status = std::system((UNITY_BINARY_DIR "/bin/unity " + arguments + " >" + file.path() + " 2>&1").c_str());
    out = read_file(file.path());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  };
  const std::string machines = UNITY_SOURCE_DIR "/tests/data/machines/";
  std::string out;
  TextFile topology(""), fitted("");
  CHECK(run("import nvidia-smi-topo " + machines + "hgx-h100.smi.txt -o " + topology.path() + " --json", out) == 0);
  CHECK(nlohmann::json::parse(out)["devices"] == 8);
  CHECK(run("show " + topology.path() + " --nodes 4", out) == 0);
  CHECK_THAT(out, Contains("32 devices (4 node x 8 gpu)"));
  CHECK(run("import nccl-tests " + kSample + " --topology dgx-h100 -o " + fitted.path(), out) == 0);
  CHECK_THAT(out, Contains("nvlink links:"));
  CHECK(load_topology(fitted.path()).bandwidth(DeviceId(0), DeviceId(1)).rate == Approx(370e9).epsilon(0.005));
  CHECK(run("import " + machines + "hgx-h100.smi.txt", out) == 2);
  CHECK_THAT(out, Contains("expected a file that ends in .onnx: unity import nvidia-smi-topo"));
  CHECK(run("import nvidia-smi-topo " + kSample, out) == 2);
  CHECK_THAT(out, Contains("found no line that begins with GPU0"));
  CHECK(run("import nccl-tests " + kSample, out) == 2);
  CHECK_THAT(out, Contains("--topology is required"));
  CHECK(run("import nccl-tests " + kSample + " --topolgy x", out) == 2);
  CHECK_THAT(out, Contains("unknown option '--topolgy' (did you mean '--topology'?)"));
  CHECK(run("import", out) == 2);
  // What could not be read back is not written.
  CHECK(run("import nvidia-smi-topo " + machines + "hgx-h100.smi.txt --device h101 -o " + topology.path(), out) == 2);
  CHECK_THAT(out, Contains(topology.path() + ": not written") && Contains("unknown device 'h101'"));
  CHECK(load_topology(topology.path()).device_count() == 8);
  TextFile unfinished("format: unity-topology\nversion: 1\nhierarchy: {gpu: 2}\ndevice: cpu\n");
  CHECK(run("show " + unfinished.path(), out) == 2);
  CHECK_THAT(out, Contains(unfinished.path() + ":1:1: topology") && Contains("no way from gpu0 to gpu1"));
}
