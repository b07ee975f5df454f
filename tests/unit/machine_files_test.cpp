// What topology and device files are refused for.
#include <catch2/catch.hpp>

#include "tests/support/topology_text.h"

using namespace unity;
using namespace unity::test;
using Catch::Contains;

namespace {

const std::string kRates = "kind: pcie, bandwidth: 1 GB/s, latency: 1 us}\n";
// Lines 3 to 6 of the file.
const std::string kPair = "hierarchy: {gpu: 2}\ndevice: cpu\nlinks:\n  - {between: [gpu0, gpu1], ";

std::string device_error(const std::string& content) {
  TextFile file("format: unity-device\nversion: 1\n" + content);
  try {
    load_device(file.path());
  } catch (const InputError& e) {
    std::string message = e.what();
    return message.substr(message.find(".yaml:") + 5);
  }
  return {};
}

}  // namespace

TEST_CASE("devices without a way between them are refused, naming the pair") {
  CHECK_THAT(topology_error("hierarchy: {gpu: 3}\ndevice: cpu\nlinks:\n  - {between: [gpu0, gpu1], " + kRates),
             Contains(":6:3: topology") && Contains("no way from gpu0 to gpu2"));
  CHECK_THAT(topology_error(kPair + kRates + "forwarding: [gpu7]\n"),
             Contains(":7:14: forwarding: 'gpu7' matches no device (did you mean 'gpu"));
  const std::string row = "hierarchy: {gpu: 3}\ndevice: cpu\nlinks: [{between: [gpu<i>, gpu<i+1>], where: i < 2, " +
                          kRates.substr(0, kRates.size() - 1) + "]\n";
  CHECK_THAT(topology_error(row + "forwarding: none\n"),
             Contains(":6:13: forwarding: no way from gpu0 to gpu2 unless more devices forward"));
  CHECK(topology_error(row + "forwarding: [gpu1]\n").empty());
}

TEST_CASE("rates have units and are more than nothing") {
  CHECK_THAT(topology_error(kPair + "kind: pcie, bandwidth: 50, latency: 1 us}\n"),
             Contains(":6:52: bandwidth: found '50' with unit ''"));
  CHECK_THAT(topology_error(kPair + "kind: pcie, bandwidth: 0 GB/s, latency: 1 us}\n"),
             Contains("expected more than 0"));
  CHECK_THAT(topology_error(kPair + "kind: pcie, bandwidth: -2 GB/s, latency: 1 us}\n"),
             Contains("expected more than 0"));
  CHECK_THAT(topology_error(kPair + "kind: pcie, bandwidth: 1 GB/s, latency: -1 us}\n"),
             Contains("expected 0 to 60 s"));
  CHECK_THAT(topology_error(kPair + "kind: pcie, width: 1 - 1, bandwidth: 1 GB/s, latency: 1 us}\n"),
             Contains("width: '1 - 1' is 0, expected at least 1"));
  CHECK_THAT(topology_error(kPair + "kind: pcie, bandwidth: 1e300 TB/s, latency: 1 us}\n"),
             Contains(":6:52: bandwidth: found '1e300 TB/s', which is out of range"));
  const std::string head = "hierarchy: {gpu: 2}\ndevice: cpu\n";
  CHECK_THAT(topology_error(head + "switches: {machine: [{name: s, capacity: 0 GB/s}]}\n"),
             Contains(":5:42: capacity: found '0 GB/s', expected more than 0"));
  CHECK_THAT(topology_error(head + "switches: {machine: [{name: s, capacity: 12}]}\n"), Contains("with unit ''"));
  CHECK_THAT(topology_error(head + "switches: {machine: [{name: s}]}\n"), Contains("key 'capacity' is missing"));
}

TEST_CASE("unknown kinds and keys are refused with the nearest known one") {
  CHECK_THAT(topology_error(kPair + "kind: pcei, bandwidth: 1 GB/s, latency: 1 us}\n"),
             Contains(":6:35: unknown kind of link 'pcei' (did you mean 'pcie'?)"));
  CHECK_THAT(topology_error(kPair + "kind: switching, bandwidth: 1 GB/s, latency: 1 us}\n"), Contains("unknown kind"));
  CHECK_THAT(topology_error(kPair + "widht: 2, " + kRates), Contains("unknown key 'widht' (did you mean 'width'?)"));
  CHECK_THAT(topology_error(kPair + kRates + "forwading: all\n"),
             Contains(":7:1: unknown key 'forwading' (did you mean 'forwarding'?)"));
  CHECK_THAT(topology_error(kPair + kRates + "routing: fastest\n"),
             Contains(":7:10: routing: found 'fastest', expected shortest or ecmp"));
  CHECK_THAT(topology_error(kPair + kRates + "forwarding: some\n"),
             Contains("found 'some', expected all, none or a list"));
}

TEST_CASE("a device file without a rate that is needed is refused") {
  const std::string rest = "kind: gpu\nmemory_bandwidth: 1 GB/s\nmemory: 1 GB\nlaunch_overhead: 1 us\n";
  CHECK_THAT(device_error("name: x\npeak: {f64: 1 TFLOPS}\n" + rest), Contains(":4:7: peak: key 'f32' is missing"));
  CHECK_THAT(device_error("name: x\npeak: {f32: 0 TFLOPS}\n" + rest), Contains(":4:13: peak: found '0 TFLOPS'"));
  CHECK_THAT(device_error("name: x\npeak: {f32: 1 TFLOPS}\nkind: gpu\nmemory: 1 GB\nlaunch_overhead: 1 us\n"),
             Contains("key 'memory_bandwidth' is missing"));
}

TEST_CASE("names do not overlap") {
  const std::string head = "hierarchy: {node: 2, gpu: 2}\ndevice: cpu\n";
  CHECK_THAT(topology_error(head + "switches: {machine: [node*2]}\n"),
             Contains(":5:22: switches: found 'node*2', expected another name than that of a level"));
  CHECK_THAT(topology_error(head + "switches: {node: [gpu]}\n"), Contains("another name than that of a level"));
  CHECK_THAT(topology_error(head + "switches: {node: [gpu1]}\n"),
             Contains(":5:19: the name 'node0.gpu1' is given twice"));
  CHECK_THAT(topology_error(head + "switches: {node: [s, s]}\n"), Contains(":5:22: the name 'node0.s' is given twice"));
  CHECK_THAT(topology_error(head + "switches: {node: [nic1, nic*2]}\n"),
             Contains("the name 'node0.nic1' is given twice"));
  CHECK_THAT(topology_error("hierarchy: {gpu: 2, gpu: 2}\ndevice: cpu\n"), Contains(":3:21: key 'gpu' is given twice"));
  CHECK_THAT(topology_error("devices: [{name: a, device: cpu}, {name: a, device: cpu}]\n"),
             Contains(":3:42: the name 'a' is given twice"));
  CHECK_THAT(topology_error(kPair + kRates + "  - {between: [gpu1, gpu0], " + kRates),
             Contains(":7:15: gpu0 and gpu1 are linked twice"));
  CHECK_THAT(topology_error(head + "parameters: {node: 3}\n"),
             Contains("the name 'node' is given twice, or is that of a level"));
  CHECK_THAT(topology_error(head + "switches: {node: [a.b]}\n"), Contains("found 'a.b', expected a name without '.'"));
}

TEST_CASE("patterns and indices mean something that is there") {
  const std::string head = "hierarchy: {gpu: 4}\ndevice: cpu\nswitches: {machine: [leaf*2]}\nlinks:\n";
  CHECK_THAT(topology_error(head + "  - {between: [gpu*, laef*], " + kRates),
             Contains(":7:22: link: 'laef*' matches nothing"));
  CHECK_THAT(topology_error(head + "  - {between: [gpu<i>, leaf<i>], " + kRates),
             Contains(":7:24: link: 'leaf<i>' is leaf2 for gpu2, expected leaf0 to leaf1"));
  CHECK_THAT(topology_error(head + "  - {between: [gpu<i>, leaf<i-1>], " + kRates), Contains("is leaf-1 for gpu0"));
  CHECK_THAT(topology_error(head + "  - {between: [gpu<i>, spine<i>], " + kRates), Contains("there is no spine0"));
  CHECK_THAT(topology_error(head + "  - {between: [gpu<i>, leaf<j/2>], " + kRates),
             Contains("link: 'j/2': unknown name 'j' (did you mean 'i'?)"));
  CHECK_THAT(topology_error(head + "  - {between: [gpu<i>, leaf<i/0>], " + kRates),
             Contains(":7:24: link: division by zero"));
  CHECK_THAT(topology_error(head + "  - {between: [gpu<i>, leaf<i/2>], where: i <, " + kRates),
             Contains("where: 'i <'"));
  CHECK_THAT(topology_error("hierarchy: {gpu: 4}\ndevice: cpu\nswitches: {machine: [leaf*(gpu-4)]}\n"),
             Contains(":5:22: switches: 'leaf*(gpu-4)': found 0, expected 1 to "));
  CHECK_THAT(topology_error("hierarchy: {gpu: 4}\ndevice: cpu\nrequire: [gpu % 3 == 0]\n"),
             Contains(":5:11: require: found gpu = 4, expected gpu % 3 == 0"));
  CHECK_THAT(topology_error("hierarchy: {gpu: 4}\ndevice: cpu\nparameters: {x: gpus}\n"),
             Contains(":5:17: x: 'gpus': unknown name 'gpus' (did you mean 'gpu'?)"));
}

TEST_CASE("a link has two ends, but a pattern may stand for one vertex at both") {
  const std::string head = "hierarchy: {gpu: 2}\ndevice: cpu\nswitches: {machine: [s]}\nlinks:\n";
  const std::string links = head + "  - {between: [gpu*, s], " + kRates;
  CHECK_THAT(topology_error(links + "  - {between: [s, s], " + kRates),
             Contains(":8:15: found 's' at both ends, expected two different ones"));
  CHECK_THAT(topology_error(links + "  - {between: [gpu0, gpu0], " + kRates), Contains("found 'gpu0' at both ends"));
  CHECK(topology_error(links + "  - {between: [gpu<gpu-1>, gpu<gpu-1>], where: gpu < 2, " + kRates).empty());
  CHECK(topology_error("hierarchy: {gpu: 1}\ndevice: cpu\nlinks:\n  - {between: [gpu*, gpu*], " + kRates).empty());
}

TEST_CASE("custom routes are refused that have a loop, a missing link or another end") {
  const std::string head =
      "hierarchy: {gpu: 2}\ndevice: cpu\nswitches: {machine: [s*3]}\nlinks:\n"
      "  - {pairs: [[gpu0, s0], [s0, s1], [s1, gpu1], [s0, gpu1], [s1, gpu0]], " +
      kRates + "routes:\n";
  CHECK_THAT(topology_error(head + "  - {between: [gpu0, gpu1], via: [s0, s1, s0]}\n"),
             Contains(":9:15: route gpu0 to gpu1 passes s0 twice"));
  CHECK_THAT(topology_error(head + "  - {between: [gpu0, gpu1], via: [s0, s2]}\n"),
             Contains("route gpu0 to gpu1: there is no link from s0 to s2"));
  CHECK_THAT(topology_error(head + "  - {between: [gpu0, gpu1], via: [s4]}\n"),
             Contains(":9:35: via: there is no 's4'"));
  CHECK_THAT(topology_error(head + "  - {between: [gpu0, gpu1], via: ['s*']}\n"), Contains("expected one vertex"));
  CHECK_THAT(topology_error(head + "  - {between: [gpu0, s1], via: [s0]}\n"),
             Contains("route: s1 is a switch, expected a device"));
  CHECK_THAT(topology_error(head + "  - {between: [gpu0, gpu1], via: [s0]}\n  - {between: [gpu1, gpu0], via: [s1]}\n"),
             Contains(":10:15: the route gpu1 to gpu0 is given twice"));
  CHECK_THAT(topology_error(head + "  - {between: [gpu0, gpu1]}\n"), Contains("key 'via' is missing"));
}

TEST_CASE("routes that a program sets are checked, too") {
  Topology t = topology_of(kPair + kRates);
  t.custom_routes[{DeviceId(0), DeviceId(1)}] = {LinkId(0), LinkId(1), LinkId(0)};
  CHECK_THROWS_WITH(t.finish(), Contains("route gpu0 to gpu1: passes gpu0 twice"));
  t.custom_routes[{DeviceId(0), DeviceId(1)}] = {LinkId(1)};
  CHECK_THROWS_WITH(t.finish(), Contains("a link leaves gpu1, expected one that leaves gpu0"));
}
