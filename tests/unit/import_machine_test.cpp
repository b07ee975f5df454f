// Machines of nvidia-smi and NCCL as topology files. The samples in tests/data/machines are written after these
// programs' formats: an HGX of eight H100, a DGX-1, and four H100 on two sockets.
#include <catch2/catch.hpp>

#include "core/base/text.h"
#include "core/machine/import/nccl_topo.h"
#include "core/machine/import/nvidia_smi.h"
#include "tests/support/paths.h"
#include "tests/support/topology_text.h"

using namespace unity;
using namespace unity::test;
using Catch::Contains;

namespace {

using Names = std::vector<std::string>;

std::string sample(const std::string& name) { return read_file(UNITY_SOURCE_DIR "/tests/data/machines/" + name); }

Topology load(const ImportedNode& node, int nodes = 1) {
  TextFile file(topology_text(node));
  return load_topology(file.path(), {.nodes = nodes});
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

std::string smi_error(const std::string& text, const std::string& device = "") {
  try {
    import_nvidia_smi(text, "topo.txt", device);
  } catch (const InputError& e) {
    return e.what();
  }
  return {};
}

const std::string kTwo =
    "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\n"
    "GPU0\t X \tNV4\tPIX\t0-7\t0\n"
    "GPU1\tNV4\t X \tSYS\t8-15\t1\n"
    "NIC0\tPIX\tSYS\t X \t\t\n";

}  // namespace

TEST_CASE("nvidia-smi: eighteen NVLinks to each of seven others come from a switch") {
  ImportedNode node = import_nvidia_smi(sample("hgx-h100.smi.txt"), "topo.txt");
  CHECK(node.gpus == 8);
  CHECK(node.device == "h100-sxm5");
  Topology t = load(node, 2);
  CHECK(way(t, 0, 7) == Names{"node0.nvswitch", "node0.gpu7"});
  CHECK(t.bandwidth(DeviceId(0), DeviceId(7)).rate == 18 * 25e9);
  CHECK(way(t, 3, 12) == Names{"node0.pcie3", "node0.nic3", "fabric", "node1.nic4", "node1.pcie4", "node1.gpu4"});
  // 8 GPU-switch, 16 on 8 PCIe switches, 8 to 2 hosts, 1 between these, 8 to the fabric; two nodes, two directions
  CHECK(t.links.size() == 2 * 2 * (8 + 16 + 8 + 1 + 8));
}

TEST_CASE("nvidia-smi: the cube mesh of DGX-1 has single and double links, and GPUs forward") {
  ImportedNode node = import_nvidia_smi(sample("dgx-1.smi.txt"), "topo.txt");
  CHECK(node.device == "v100-sxm2-16gb");
  CHECK(node.notes.front() == "Taken for v100-sxm2-16gb: 6 NVLinks for each GPU");
  Topology t = load(node);
  CHECK(t.bandwidth(DeviceId(0), DeviceId(3)).rate == 50e9);
  CHECK(t.bandwidth(DeviceId(0), DeviceId(1)).rate == 25e9);
  CHECK(t.route(DeviceId(0), DeviceId(5)).size() == 2);
  for (const Device& d : t.devices) {
    double out = 0;
    for (const Link& l : t.links)
      if (l.from == d.vertex && l.kind == LinkKind::nvlink) out += l.bandwidth.rate;
    CHECK(out == 6 * 25e9);
  }
}

TEST_CASE("nvidia-smi: PCIe relations make a tree, and one that fits no tree is refused") {
  Topology t = load(import_nvidia_smi(kTwo, "topo.txt"));
  CHECK(way(t, 0, 1) == Names{"node0.gpu1"});
  CHECK(t.bandwidth(DeviceId(0), DeviceId(1)).rate == 100e9);
  CHECK(t.levels.back().count == 2);
  const std::string three =
      "GPU0 GPU1 GPU2 NIC0\nGPU0 X NV1 NV1 PIX\nGPU1 NV1 X NV1 PIX\nGPU2 NV1 NV1 X PXB\nNIC0 PIX PIX PXB X\n";
  Topology deep = load(import_nvidia_smi(three, "topo.txt"), 2);
  // GPU 2 is one bridge further away than the switch of NIC 0
  CHECK(way(deep, 2, 3) ==
        Names{"node0.bridge0", "node0.pcie0", "node0.nic0", "fabric", "node1.nic0", "node1.pcie0", "node1.gpu0"});
  const std::string crossed =
      "GPU0 GPU1 NIC0 NIC1\nGPU0 X NV1 PIX SYS\nGPU1 NV1 X PIX PIX\nNIC0 PIX PIX X SYS\nNIC1 SYS PIX SYS X\n";
  CHECK(smi_error(crossed) == "topo.txt:5: NIC1 and GPU0: found SYS, expected PIX as others relate them");
}

TEST_CASE("nvidia-smi: damaged tables are refused with the line") {
  CHECK(smi_error("no table\n") ==
        "topo.txt:1: found no line that begins with GPU0, expected the table of nvidia-smi topo -m");
  CHECK(smi_error(replaced(kTwo, "GPU1\tNV4", "GPU1\tNV3")) ==
        "topo.txt:3: GPU1 and GPU0: found NV3, expected NV4 as in row GPU0");
  CHECK(smi_error(replaced(kTwo, "NV4\tPIX", "NW4\tPIX")) ==
        "topo.txt:2: GPU0 and GPU1: found 'NW4', expected NV#, PIX, PXB, PHB, NODE or SYS");
  CHECK(smi_error(replaced(kTwo, "NV4\tPIX", "NV2147483647\tPIX")) ==
        "topo.txt:2: GPU0 and GPU1: found 'NV2147483647', expected NV#, PIX, PXB, PHB, NODE or SYS");
  CHECK_THAT(smi_error(kTwo.substr(0, kTwo.find("NIC0\tPIX"))), Contains("found 2 rows, expected 3: NIC0 is missing"));
  CHECK_THAT(smi_error(kTwo.substr(0, kTwo.find("SYS\t8")) + "\n"),
             Contains("topo.txt:3: GPU1: found 2 entries, expected 3"));
  CHECK_THAT(smi_error("GPU0 GPU1\nGPU0 X SYS\nGPU1 SYS X\n"), Contains("found no NVLinks") && Contains("--device"));
  CHECK(smi_error("GPU0 GPU1\nGPU0 X SYS\nGPU1 SYS X\n", "a100-sxm4-80gb").empty());
}

#ifdef UNITY_HAS_TINYXML2
namespace {

std::string xml_error(const std::string& xml) {
  try {
    import_nccl_topology(xml, "topo.xml");
  } catch (const InputError& e) {
    return e.what();
  }
  return {};
}

}  // namespace

TEST_CASE("NCCL: sockets, PCIe switches, GPUs, NVSwitches and ports become vertices with the file's rates") {
  ImportedNode node = import_nccl_topology(sample("four-h100.nccl.xml"), "topo.xml");
  CHECK(node.device == "h100-sxm5");
  Topology t = load(node, 2);
  REQUIRE(t.device_count() == 8);
  CHECK(way(t, 0, 3) == Names{"node0.nvswitch", "node0.gpu3"});
  CHECK(way(t, 2, 4) == Names{"node0.pcie1", "node0.nic1", "fabric", "node1.nic0", "node1.pcie0", "node1.gpu0"});
  CHECK(t.bandwidth(DeviceId(2), DeviceId(4)).rate == 48e9);  // 16 lanes of 32 GT/s: 16 * 32 * 0.09375
  double port = 0;
  for (const Link& l : t.links)
    if (l.kind == LinkKind::infiniband) port = l.bandwidth.rate;
  CHECK(port == 50e9);  // 400000 Mbit/s
  // 4 NVSwitch, 4 + 2 + 2 PCIe, 1 between the sockets, 2 ports; two nodes, two directions
  CHECK(t.links.size() == 2 * 2 * (4 + 8 + 1 + 2));
}

TEST_CASE("NCCL: NVLinks between GPUs are read from both ends, those to a POWER9 take the place of PCIe") {
  auto gpu = [](int n, const std::string& links) {
    return fmt::format(
        "<pci busid=\"0004:0{}:00.0\" class=\"0x030200\" link_speed=\"8 GT/s\" link_width=\"2\">\n"
        "<gpu dev=\"{}\" sm=\"70\">{}</gpu></pci>\n",
        n, n, links);
  };
  auto nvlink = [](const std::string& target, int count, const std::string& type) {
    return fmt::format("<nvlink target=\"{}\" count=\"{}\" tclass=\"{}\"/>", target, count, type);
  };
  auto machine = [&](int back) {
    return "<system version=\"1\">\n<cpu numaid=\"0\" arch=\"ppc64\">\n" +
           gpu(4, nvlink("0004:05:00.0", 2, "0x030200") + nvlink("0000:00:00.0", 2, "0x068001")) +
           gpu(5, nvlink("0004:04:00.0", back, "0x030200") + nvlink("0000:00:00.1", 2, "0x068001")) +
           "</cpu>\n</system>\n";
  };
  Topology t = load(import_nccl_topology(machine(2), "topo.xml"));
  CHECK(way(t, 0, 1) == Names{"node0.gpu1"});
  CHECK(t.links.size() == 2 * 3);
  for (const Link& l : t.links) CHECK((l.kind == LinkKind::nvlink && l.bandwidth.rate == 50e9));
  CHECK_THAT(xml_error(machine(3)),
             Contains("topo.xml:4: <nvlink>: gpu0 to gpu1: found 2 links, expected 3 as on the way back"));
}

TEST_CASE("NCCL: a file for NCCL_TOPO_FILE, without ranks and rates, needs the device") {
  const std::string xml =
      "<system version=\"1\">\n<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">\n"
      "<pci busid=\"0001:00:00.0\" class=\"0x030200\" link_speed=\"\" link_width=\"\"/>\n"
      "<pci busid=\"0101:00:00.0\" class=\"0x020700\" link_speed=\"\" link_width=\"\"/>\n</cpu>\n</system>\n";
  CHECK(xml_error(xml) == "topo.xml:3: found no attribute 'sm', which would tell the GPUs apart; expected --device");
  ImportedNode node = import_nccl_topology(xml, "topo.xml", "a100-sxm4-80gb");
  Topology t = load(node, 2);
  CHECK(way(t, 0, 1) == Names{"node0.host0", "node0.nic0", "fabric", "node1.nic0", "node1.host0", "node1.gpu0"});
}

TEST_CASE("NCCL: what is wrong is refused with the line") {
  const std::string xml = sample("four-h100.nccl.xml");
  CHECK_THAT(xml_error(xml.substr(0, 900)), Contains("topo.xml:") && Contains("malformed XML"));
  CHECK(xml_error("") == "topo.xml:1: malformed XML: XML_ERROR_EMPTY_DOCUMENT");
  CHECK(xml_error("<!-- nothing else -->") == "topo.xml:1: found no element, expected <system>");
  CHECK_THAT(xml_error("<graphs/>"), Contains("topo.xml:1: found <graphs>, expected <system>"));
  CHECK_THAT(xml_error("<system>\n<cpu numaid=\"0\"/></system>"), Contains("topo.xml:1: found no GPU"));
  CHECK_THAT(xml_error(replaced(xml, "count=\"18\"", "count=\"many\"")),
             Contains("topo.xml:6: <nvlink>: count: found 'many', expected a number"));
  CHECK_THAT(xml_error(replaced(xml, "count=\"18\"", "count=\"1e15\"")),
             Contains("<nvlink>: count: found '1e15', expected a whole number of at most 1048576"));
  CHECK_THAT(xml_error(replaced(xml, "count=\"18\"", "count=\"1.5\"")), Contains("found '1.5', expected a whole"));
  CHECK_THAT(xml_error(replaced(xml, "link_speed=\"32.0 GT/s PCIe\"", "link_speed=\"inf GT/s\"")),
             Contains("link_speed: found 'inf GT/s'"));
  CHECK_THAT(xml_error(replaced(xml, "link_speed=\"32.0 GT/s PCIe\"", "link_speed=\"fast\"")),
             Contains("topo.xml:3: <pci>: link_speed: found 'fast', expected a speed such as '16.0 GT/s PCIe'"));
  CHECK_THAT(xml_error(replaced(xml, "busid=", "id=")), Contains("topo.xml:3: <pci>: attribute 'busid' is missing"));
  CHECK_THAT(xml_error(replaced(xml, "fffffff:ffff:ff\" count=\"18\" tclass=\"0x068000\"",
                                "0000:77:00.0\" count=\"18\" tclass=\"0x030200\"")),
             Contains("<nvlink>: target: found '0000:77:00.0' of class '0x030200'"));
  CHECK_THAT(xml_error(replaced(xml, "sm=\"90\"", "sm=\"61\"")), Contains("sm: found 61, expected 70, 80 or 90"));
  CHECK_THAT(xml_error(replaced(xml, "numaid=\"1\"", "numaid=\"0\"")), Contains("numaid: '0' is given twice"));
}
#endif
