#include "core/machine/import/nccl_topo.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

#include <tinyxml2.h>

#include "core/base/text.h"

namespace unity {
namespace {

using tinyxml2::XMLElement;

struct Gpu {
  const XMLElement* element;  // gpu, or the pci element where there is no gpu in it
  std::string busid, above, host;
  int dev = 0;
  BytesPerSecond pcie;  // or what takes its place
  std::string source;
  LinkKind kind = LinkKind::pcie;
};

// Bus ids are written in both cases.
std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

class Reader {
 public:
  Reader(const std::string& xml, std::string file, std::string device)
      : file_(std::move(file)), device_(std::move(device)) {
    if (document_.Parse(xml.data(), xml.size()) != tinyxml2::XML_SUCCESS)
      throw_input_error("{}:{}: malformed XML: {}", file_, std::max(document_.ErrorLineNum(), 1),
                        document_.ErrorName());
    const XMLElement* system = document_.RootElement();
    if (!system) throw_input_error("{}:1: found no element, expected <system>", file_);
    if (std::string_view(system->Name()) != "system")
      fail(system, fmt::format("found <{}>, expected <system>", system->Name()));
    for (const XMLElement* cpu = system->FirstChildElement("cpu"); cpu; cpu = cpu->NextSiblingElement("cpu"))
      read_cpu(cpu);
    if (gpus_.empty()) fail(system, "found no GPU, expected <gpu> elements, or <pci> elements of class 0x0302");
    number_gpus();
    choose_generation();
    for (const Gpu& gpu : gpus_) read_nvlinks(gpu);
    add_nvlinks();
    for (const Gpu& gpu : gpus_) link(name_of(gpu.busid), gpu.above, gpu.kind, gpu.pcie.rate, 1, gpu.source);
    join_hosts();
  }

  ImportedNode take() && { return std::move(node_); }

 private:
  [[noreturn]] void fail(const XMLElement* element, const std::string& message) const {
    throw_input_error("{}:{}: {}", file_, element->GetLineNum(), message);
  }

  std::string text(const XMLElement* element, const char* name) const {
    const char* value = element->Attribute(name);
    if (!value) fail(element, fmt::format("<{}>: attribute '{}' is missing", element->Name(), name));
    return value;
  }

  double number(const XMLElement* element, const char* name, const std::string& value) const {
    char* end = nullptr;
    double result = std::strtod(value.c_str(), &end);
    if (value.empty() || *end != '\0' || !(result >= 0) || result > 1e15)
      fail(element, fmt::format("<{}>: {}: found '{}', expected a number", element->Name(), name, value));
    return result;
  }
  int whole(const XMLElement* element, const char* name) const {
    constexpr double kMost = 1 << 20;  // sums of them fit, too
    double value = number(element, name, text(element, name));
    if (value > kMost || value != std::floor(value))
      fail(element, fmt::format("<{}>: {}: found '{}', expected a whole number of at most {}", element->Name(), name,
                                text(element, name), kMost));
    return static_cast<int>(value);
  }

  void link(const std::string& a, const std::string& b, LinkKind kind, double rate, double microseconds,
            const std::string& source) {
    node_.links.push_back({a, b, kind, {rate}, from_seconds(microseconds * 1e-6), source});
  }

  void read_cpu(const XMLElement* cpu) {
    std::string host = cpu->Attribute("host_hash") ? cpu->Attribute("host_hash") : "";
    if (!hosts_.empty() && host != host_hash_)
      fail(cpu,
           fmt::format("<cpu>: host_hash: found '{}', expected '{}': only one host can be imported", host, host_hash_));
    host_hash_ = host;
    std::string name = fmt::format("host{}", hosts_.size());
    if (!numa_.insert(text(cpu, "numaid")).second)
      fail(cpu, fmt::format("<cpu>: numaid: '{}' is given twice", text(cpu, "numaid")));
    hosts_.push_back({name, cpu});
    node_.vertices.push_back(name);
    for (const XMLElement* pci = cpu->FirstChildElement("pci"); pci; pci = pci->NextSiblingElement("pci"))
      read_pci(pci, name, name);
    if (const XMLElement* nic = cpu->FirstChildElement("nic")) read_nic(nic, name, {0, ""});  // such as sockets
  }

  // Usable rate of a link and where it comes from.
  std::pair<double, std::string> pcie_rate(const XMLElement* pci) const {
    std::string speed = pci->Attribute("link_speed") ? pci->Attribute("link_speed") : "";
    std::string width = pci->Attribute("link_width") ? pci->Attribute("link_width") : "";
    if (speed.empty() || width.empty() || width == "0") return {0, ""};
    double lanes = number(pci, "link_width", width);
    char* unit = nullptr;
    double transfers = std::strtod(speed.c_str(), &unit);
    if (!(transfers > 0 && transfers < 1e6) || !std::string_view(unit).starts_with(" GT/s"))
      fail(pci, fmt::format("<pci>: link_speed: found '{}', expected a speed such as '16.0 GT/s PCIe'", speed));
    // 8b/10b up to 5 GT/s, then 128b/130b
    double lane = transfers * (transfers <= 5 ? 0.075e9 : 0.09375e9);
    return {lane * lanes, fmt::format("PCIe, {:g} GT/s x {:g} (F; C: usable)", transfers, lanes)};
  }

  void read_pci(const XMLElement* pci, const std::string& above, const std::string& host) {
    std::string busid = lower(text(pci, "busid")), type = text(pci, "class");
    auto [rate, source] = pcie_rate(pci);
    auto is = [&](std::string_view prefix) { return type.starts_with(prefix); };
    const XMLElement *gpu = pci->FirstChildElement("gpu"), *nic = pci->FirstChildElement("nic");
    if (gpu || (!nic && (is("0x0302") || is("0x0300")))) {
      Gpu entry{gpu ? gpu : pci, busid, above, host, static_cast<int>(gpus_.size()), {rate}, source};
      if (gpu) entry.dev = whole(gpu, "dev");
      gpus_.push_back(entry);
    } else if (nic || is("0x02")) {
      read_nic(nic, above, {rate, source});
    } else if (pci->FirstChildElement("pci")) {
      std::string name = fmt::format("pcie{}", switches_++);
      node_.vertices.push_back(name);
      upward_.push_back({name, above, rate, source});
      for (const XMLElement* child = pci->FirstChildElement("pci"); child; child = child->NextSiblingElement("pci"))
        read_pci(child, name, host);
    }
  }

  // One vertex for each port; without a description of ports, one of a rate that is sold with such GPUs.
  void read_nic(const XMLElement* nic, const std::string& above, std::pair<double, std::string> pcie) {
    const XMLElement* net = nic ? nic->FirstChildElement("net") : nullptr;
    do {
      std::string name = fmt::format("nic{}", nics_++);
      node_.vertices.push_back(name);
      upward_.push_back({name, above, pcie.first, pcie.second});
      Port port{name, 0, "", LinkKind::infiniband};
      if (net) {
        std::string title = net->Attribute("name") ? net->Attribute("name") : "";
        if (net->Attribute("speed")) port.rate = number(net, "speed", text(net, "speed")) * 1e6 / 8;
        port.source = "speed of the port (F)";
        if (!title.starts_with("mlx") && !title.starts_with("ib")) port.kind = LinkKind::ethernet;
        net = net->NextSiblingElement("net");
      }
      ports_.push_back(port);
    } while (net);
  }

  void number_gpus() {
    std::stable_sort(gpus_.begin(), gpus_.end(), [](const Gpu& a, const Gpu& b) { return a.dev < b.dev; });
    node_.gpus = static_cast<int>(gpus_.size());
    for (std::size_t g = 0; g < gpus_.size(); ++g)
      if (!names_.emplace(gpus_[g].busid, fmt::format("gpu{}", g)).second)
        fail(gpus_[g].element, fmt::format("busid: '{}' is given twice", gpus_[g].busid));
  }
  const std::string& name_of(const std::string& busid) const { return names_.at(busid); }

  void choose_generation() {
    const char* sm = gpus_.front().element->Attribute("sm");
    if (!device_.empty()) {
      generation_ = &generation_of_device(device_);
    } else if (sm) {
      int found = whole(gpus_.front().element, "sm");
      const std::vector<GpuGeneration>& all = gpu_generations();
      generation_ = &all.front();
      for (const GpuGeneration& g : all)
        if (g.sm <= found) generation_ = &g;
      if (found / 10 != generation_->sm / 10)
        fail(gpus_.front().element,
             fmt::format("<gpu>: sm: found {}, expected 70, 80 or 90, of which there are device files, or --device",
                         found));
    } else {
      fail(gpus_.front().element, "found no attribute 'sm', which would tell the GPUs apart; expected --device");
    }
    node_.device = device_.empty() ? generation_->device : device_;
    node_.notes.push_back(device_.empty()
                              ? fmt::format("Taken for {}: sm {}", node_.device, sm)
                              : "Rates that the file does not give are those of the generation of " + device_);
    const std::string assumed = "PCIe x16 of these GPUs' generation (C: usable)";
    auto or_usual = [&](double& rate, std::string& source) {
      if (rate <= 0) rate = generation_->pcie, source = assumed;
    };
    for (Gpu& gpu : gpus_) or_usual(gpu.pcie.rate, gpu.source);
    for (Upward& up : upward_) {
      or_usual(up.rate, up.source);
      link(up.name, up.above, LinkKind::pcie, up.rate, up.name.starts_with("nic") ? 0.25 : 0.5, up.source);
    }
    for (const Port& port : ports_) {
      bool known = port.rate > 0;
      link(port.name, "fabric", port.kind, known ? port.rate : generation_->network, 0.75,
           known ? port.source : "E: a port as sold with these GPUs");
    }
  }

  void read_nvlinks(const Gpu& gpu) {
    for (const XMLElement* n = gpu.element->FirstChildElement("nvlink"); n; n = n->NextSiblingElement("nvlink")) {
      int count = whole(n, "count");
      if (count < 1) fail(n, fmt::format("<nvlink>: count: found {}, expected at least 1", count));
      std::string target = lower(text(n, "target")), type = n->Attribute("tclass") ? n->Attribute("tclass") : "";
      if (auto other = names_.find(target); other != names_.end()) {
        int& there = mesh_[{gpu.busid, target}];
        there += count;
        lines_[{gpu.busid, target}] = n;
      } else if (type.starts_with("0x0680") && type != "0x068001") {
        switched_[gpu.busid] += count;
      } else if (type == "0x068001") {  // a POWER9
        to_host_[gpu.busid] += count;
      } else {
        fail(n, fmt::format(
                    "<nvlink>: target: found '{}' of class '{}', expected a GPU of the file, a switch (0x068000) or a "
                    "CPU (0x068001)",
                    target, type));
      }
    }
  }

  void add_nvlinks() {
    auto source = [&](int count) {
      return fmt::format("{} NVLinks (F) of {:g} GB/s per direction (V)", count, generation_->nvlink / 1e9);
    };
    std::size_t pairs = 0;
    for (const auto& [ends, count] : mesh_) {
      auto back = mesh_.find({ends.second, ends.first});
      if (back == mesh_.end() || back->second != count)
        fail(lines_.at(ends),
             fmt::format("<nvlink>: {} to {}: found {} links, expected {} as on the way back", name_of(ends.first),
                         name_of(ends.second), count, back == mesh_.end() ? 0 : back->second));
      ++pairs;
      if (ends.first < ends.second)
        link(name_of(ends.first), name_of(ends.second), LinkKind::nvlink, count * generation_->nvlink, 1.9,
             source(count));
    }
    if (!switched_.empty()) node_.vertices.push_back("nvswitch");
    for (const auto& [busid, count] : switched_)
      link(name_of(busid), "nvswitch", LinkKind::nvlink, count * generation_->nvlink, 0.95, source(count));
    for (Gpu& gpu : gpus_)
      if (auto found = to_host_.find(gpu.busid); found != to_host_.end()) {
        // Takes the place of PCIe.
        gpu.above = gpu.host;
        gpu.pcie.rate = found->second * generation_->nvlink;
        gpu.source = source(found->second);
        gpu.kind = LinkKind::nvlink;
      }
    node_.forwarding = pairs > 0 && pairs < gpus_.size() * (gpus_.size() - 1) && switched_.empty() && to_host_.empty();
  }

  // NCCL's rates between sockets.
  static double between_sockets(const std::string& arch, const std::string& vendor, int model) {
    if (arch == "ppc64") return 32e9;
    if (vendor == "AuthenticAMD") return 16e9;
    if (vendor == "GenuineIntel") return model >= 0x8f ? 22e9 : model >= 0x55 ? 10e9 : 6e9;
    return 6e9;
  }

  void join_hosts() {
    for (std::size_t a = 0; a < hosts_.size(); ++a)
      for (std::size_t b = a + 1; b < hosts_.size(); ++b) {
        const XMLElement* cpu = hosts_[a].second;
        auto attribute = [&](const char* name) {
          return std::string(cpu->Attribute(name) ? cpu->Attribute(name) : "");
        };
        int model = cpu->Attribute("modelid") ? whole(cpu, "modelid") : 0;
        link(hosts_[a].first, hosts_[b].first, LinkKind::xbus,
             between_sockets(attribute("arch"), attribute("vendor"), model), 0.5,
             fmt::format("between sockets, {} {} (C)", attribute("arch"), attribute("vendor")));
      }
  }

  struct Upward {
    std::string name, above;
    double rate;
    std::string source;
  };
  struct Port {
    std::string name;
    double rate;  // 0: not known
    std::string source;
    LinkKind kind;
  };

  std::string file_, device_, host_hash_;
  tinyxml2::XMLDocument document_;
  ImportedNode node_;
  const GpuGeneration* generation_ = nullptr;
  std::vector<std::pair<std::string, const XMLElement*>> hosts_;
  std::set<std::string> numa_;
  std::vector<Gpu> gpus_;  // by dev
  std::vector<Upward> upward_;
  std::vector<Port> ports_;
  int switches_ = 0, nics_ = 0;
  std::map<std::string, std::string> names_;  // of GPUs, by bus id
  std::map<std::pair<std::string, std::string>, int> mesh_;
  std::map<std::pair<std::string, std::string>, const XMLElement*> lines_;
  std::map<std::string, int> switched_, to_host_;
};

}  // namespace

ImportedNode import_nccl_topology(const std::string& xml, const std::string& file, const std::string& device) {
  ImportedNode imported = Reader(xml, file, device).take();
  imported.from = "Imported from NCCL's description of a node.";
  return imported;
}

}  // namespace unity
