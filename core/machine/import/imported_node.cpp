#include "core/machine/import/imported_node.h"

#include <algorithm>

#include "core/base/text.h"

namespace unity {

const std::vector<GpuGeneration>& gpu_generations() {
  static const std::vector<GpuGeneration> kGenerations = {{70, "v100-sxm2-16gb", 6, 25e9, 12e9, 12.5e9, 10e9},
                                                          {80, "a100-sxm4-80gb", 12, 25e9, 24e9, 25e9, 16e9},
                                                          {90, "h100-sxm5", 18, 25e9, 48e9, 50e9, 22e9}};
  return kGenerations;
}

const GpuGeneration& generation_of_device(const std::string& device) {
  std::string name = device.substr(device.rfind('/') + 1);
  for (const GpuGeneration& g : gpu_generations())
    if (name.substr(0, 2) == g.device.substr(0, 2)) return g;
  return gpu_generations()[1];
}

const GpuGeneration& generation_with(int nvlinks) {
  for (const GpuGeneration& g : gpu_generations())
    if (nvlinks <= g.nvlinks) return g;
  return gpu_generations().back();
}

std::string topology_text(const ImportedNode& node) {
  std::string text = fmt::format("# {}\n", node.from);
  for (const std::string& note : node.notes) text += fmt::format("# {}\n", note);
  text +=
      "# Letters name the source of a figure: V vendor, C NCCL's code, F the imported file, E engineering estimate.\n";
  text += fmt::format("format: unity-topology\nversion: 1\nhierarchy:\n  node: 1\n  gpu: {}\ndevice: {}\n", node.gpus,
                      node.device);
  if (node.forwarding) text += "forwarding: all  # GPUs without an NVLink between them use another GPU, as NCCL does\n";
  bool fabric =
      std::any_of(node.links.begin(), node.links.end(), [](const ImportedLink& l) { return l.b == "fabric"; });
  if (fabric || !node.vertices.empty()) text += "switches:\n";
  if (fabric) text += "  machine: [fabric]\n";
  if (!node.vertices.empty()) text += fmt::format("  node: [{}]\n", join(node.vertices));
  if (!node.links.empty()) text += "links:\n";
  std::vector<bool> written(node.links.size(), false);
  for (std::size_t i = 0; i < node.links.size(); ++i) {
    const ImportedLink& first = node.links[i];
    bool outside = first.b == "fabric";
    std::vector<std::string> pairs;
    for (std::size_t j = i; j < node.links.size(); ++j) {
      const ImportedLink& l = node.links[j];
      if (written[j] || l.kind != first.kind || l.bandwidth != first.bandwidth || l.latency != first.latency ||
          l.source != first.source || (l.b == "fabric") != outside)
        continue;
      written[j] = true;
      pairs.push_back(outside ? fmt::format("[node*.{}, fabric]", l.a) : fmt::format("[{}, {}]", l.a, l.b));
    }
    if (pairs.empty()) continue;
    text += fmt::format("  # {}; latency E\n  - within: {}\n    pairs:\n", first.source, outside ? "machine" : "node");
    for (const std::string& pair : pairs) text += fmt::format("      - {}\n", pair);
    text += fmt::format("    kind: {}\n    bandwidth: {} GB/s\n    latency: {} us\n", to_string(first.kind),
                        first.bandwidth.rate / 1e9, static_cast<double>(first.latency.count) / 1e6);
  }
  return text;
}

}  // namespace unity
