#include "gui/panels/info/facts.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/models/summary.h"
#include "core/search/explain.h"
#include "simulator/link_use.h"

namespace unity::gui {
namespace {

using Lines = std::vector<std::pair<std::string, std::string>>;

std::string count_text(double count) { return count_to_string(count); }

double flops_of(const Node& node) {
  return node.is_compute() && node.table ? flops(*node.table, full_ranges(*node.table)) : 0;
}

void add_costs(Lines& lines, const std::vector<NodeId>& nodes, const PlanPrediction* prediction) {
  if (!prediction || !prediction->whole || prediction->nodes.empty()) return;
  NodeCost sum;
  for (NodeId id : nodes) {
    const NodeCost& cost = prediction->nodes[id.index()];
    sum.compute += cost.compute;
    sum.communication += cost.communication;
    sum.memory += cost.memory;
    sum.tasks += cost.tasks;
  }
  lines.emplace_back("compute time", to_string(sum.compute));
  lines.emplace_back("communication", to_string(sum.communication));
  lines.emplace_back("its buffers", to_string(sum.memory));
  lines.emplace_back("task spans", fmt::format("{}", sum.tasks));
}

std::vector<Facts> node_facts(const Document& document, NodeId id, const PlanPrediction* prediction) {
  const Pcg& pcg = document.graph();
  const Node& node = pcg[id];
  Facts what{node.op->name(), {}}, runs{"Runs", {}};
  what.lines.emplace_back("label", node.name.empty() ? fmt::format("#{}", id.value) : node.name);
  auto specs = node.op->attributes();
  for (std::size_t i = 0; i < specs.size(); ++i) what.lines.emplace_back(specs[i].name, to_string(node.attributes[i]));
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    what.lines.emplace_back(fmt::format("operand {}", i), to_string(pcg.shape(node.inputs[i])));
  for (const ParallelShape& shape : node.outputs) what.lines.emplace_back("result", to_string(shape));
  if (double f = flops_of(node); f > 0) {
    runs.lines.emplace_back("FLOPs forward", count_text(f));
    if (std::int64_t macs = multiply_adds(node); macs > 0)
      runs.lines.emplace_back("multiply-adds", count_text(static_cast<double>(macs)));
  }
  std::int64_t bytes = 0;
  for (const ParallelShape& shape : node.outputs) bytes += shape.shape().bytes();
  runs.lines.emplace_back("result, whole", to_string(Bytes{bytes}));
  if (node.is_compute()) {
    std::vector<std::string> ways = parallelism_in_words(pcg, id);
    runs.lines.emplace_back("parallelism", ways.empty() ? "serial" : join(ways));
  }
  if (document.plan && !node.is_parallelization()) {
    const MachineMapping& mapping = document.plan->mappings[id.index()];
    runs.lines.emplace_back("tasks", fmt::format("{}", task_count(node_grid(pcg, id))));
    runs.lines.emplace_back("mapping", to_string(mapping));
  }
  add_costs(runs.lines, {id}, prediction);
  return {what, runs};
}

std::vector<Facts> group_facts(const Document& document, const std::vector<NodeId>& nodes,
                               const PlanPrediction* prediction) {
  const Pcg& pcg = document.graph();
  Facts what{"Block", {}}, runs{"Runs", {}};
  std::int64_t parameters = 0, operators = 0;
  double work = 0;
  std::string common = pcg[nodes.front()].name;
  for (NodeId id : nodes) {
    const Node& node = pcg[id];
    operators += node.is_compute() ? 1 : 0;
    work += flops_of(node);
    if (node.is_leaf() && node.op->stored()) parameters += node.outputs[0].shape().elements();
    std::size_t same = 0;
    while (same < common.size() && same < node.name.size() && common[same] == node.name[same]) ++same;
    common.resize(same);
  }
  while (common.ends_with('.')) common.pop_back();
  what.lines.emplace_back("labels begin", common.empty() ? "differently" : common);
  what.lines.emplace_back("nodes", fmt::format("{}", nodes.size()));
  what.lines.emplace_back("operators", fmt::format("{}", operators));
  what.lines.emplace_back("parameters", count_text(static_cast<double>(parameters)));
  runs.lines.emplace_back("FLOPs forward", count_text(work));
  add_costs(runs.lines, nodes, prediction);
  return {what, runs};
}

std::vector<Facts> value_facts(const Document& document, ValueRef value) {
  const Pcg& pcg = document.graph();
  const ParallelShape& shape = pcg.shape(value);
  Facts what{"Tensor", {}}, use{"Read by", {}};
  what.lines.emplace_back("made by", pcg[value.node].op->name() + " " + pcg[value.node].name);
  what.lines.emplace_back("shape", to_string(shape));
  what.lines.emplace_back("shards", fmt::format("{}", shape.shards()));
  what.lines.emplace_back("copies", fmt::format("{}", shape.copies));
  what.lines.emplace_back("partial sums", fmt::format("{}", shape.partials));
  what.lines.emplace_back("whole", to_string(Bytes{shape.shape().bytes()}));
  what.lines.emplace_back("on each device", to_string(Bytes{shape.shape().bytes() / std::max(shape.shards(), 1)}));
  std::vector<Pcg::Use> uses = pcg.uses()[value.node.index()];
  for (const Pcg::Use& u : uses)
    if (u.output == value.output)
      use.lines.emplace_back(pcg[u.user].op->name(), fmt::format("operand {} of {}", u.operand, pcg[u.user].name));
  if (use.lines.empty()) use.lines.emplace_back("nobody", "a result of the graph");
  return {what, use};
}

std::vector<Facts> device_facts(const Document& document, DeviceId id, const PlanPrediction* prediction) {
  const Topology& topology = *document.topology;
  const DeviceSpec& spec = topology.spec(id);
  Facts what{"Device " + topology.device(id).name, {}}, does{"Holds at its peak", {}};
  what.lines.emplace_back("kind", spec.name);
  for (const auto& [type, rate] : spec.peak)
    what.lines.emplace_back(fmt::format("peak {}", to_string(type)), to_string(rate));
  what.lines.emplace_back("memory bandwidth", to_string(spec.memory_bandwidth));
  what.lines.emplace_back("memory", to_string(spec.memory));
  what.lines.emplace_back("launch", to_string(spec.launch_overhead));
  if (prediction && prediction->whole && id.index() < prediction->peak_memory.size()) {
    does.lines.emplace_back("all", to_string(prediction->peak_memory[id.index()]));
    for (std::size_t c = 0; c < 5; ++c)
      does.lines.emplace_back(std::string(to_string(static_cast<BufferCategory>(c))),
                              to_string(prediction->result.memory_by_category[id.index()][c]));
  }
  return {what, does};
}

std::vector<Facts> link_facts(const Document& document, LinkId id, const PlanPrediction* prediction) {
  const Topology& topology = *document.topology;
  const Link& link = topology.links[id.index()];
  Facts what{"Link", {}};
  what.lines.emplace_back("from, to", link_name(topology, id));
  what.lines.emplace_back("kind", std::string(to_string(link.kind)));
  what.lines.emplace_back("bandwidth", to_string(link.bandwidth));
  what.lines.emplace_back("latency", to_string(link.latency));
  if (prediction && prediction->whole)
    for (const LinkUsage& usage : prediction->result.trace.links)
      if (usage.link == id) {
        what.lines.emplace_back("carries", to_string(usage.bytes));
        double full = static_cast<double>(usage.bytes.count) / usage.bandwidth.rate;
        what.lines.emplace_back("busy, if full", to_string(from_seconds(full)));
      }
  return {what};
}

// That has the least left of its memory, as a fraction; invalid where nothing is known.
DeviceId fullest_device(const Topology& topology, const std::vector<Bytes>& peak) {
  DeviceId fullest;
  double most = -1;
  for (std::size_t d = 0; d < std::min(peak.size(), topology.device_count()); ++d) {
    DeviceId device(static_cast<std::int64_t>(d));
    double full = static_cast<double>(peak[d].count) /
                  static_cast<double>(std::max<std::int64_t>(topology.spec(device).memory.count, 1));
    if (full > most) most = full, fullest = device;
  }
  return fullest;
}

}  // namespace

Facts document_facts(const Document& document, const PlanPrediction* prediction) {
  Facts facts{document.title, {}};
  Lines& lines = facts.lines;
  if (document.sweep) {
    const report::Results& results = document.sweep->results;
    auto failed = std::count_if(results.rows.begin(), results.rows.end(),
                                [](const report::ResultRow& row) { return row.find("error") != nullptr; });
    lines.emplace_back("experiment", results.experiment);
    lines.emplace_back("points", fmt::format("{}", results.rows.size()));
    lines.emplace_back("without a plan", fmt::format("{}", failed));
    lines.emplace_back("figures", document.sweep->figures.empty() ? document.sweep->note
                                                                  : fmt::format("{}", document.sweep->figures.size()));
    return facts;
  }
  if (!document.plan) {
    ModelSummary summary = summarize(document.graph());
    lines.emplace_back("parameters", count_text(static_cast<double>(summary.facts.parameters)));
    lines.emplace_back("MACs per sample", count_text(static_cast<double>(summary.facts.macs_per_sample)));
    lines.emplace_back("operators", fmt::format("{}", summary.facts.operators));
    lines.emplace_back("activations", to_string(Bytes{summary.facts.activation_bytes}));
    lines.emplace_back("batch", fmt::format("{}", summary.batch));
    return facts;
  }
  const Plan& plan = *document.plan;
  lines.emplace_back("model", plan.model.name);
  lines.emplace_back("machine", fmt::format("{}, {}", document.topology->name, in_words(document.topology->levels)));
  lines.emplace_back("strategy", plan.search.strategy);
  lines.emplace_back("global batch", fmt::format("{}", plan.global_batch));
  if (prediction && prediction->error.empty()) {
    lines.emplace_back("iteration", prediction->iteration_text());
    lines.emplace_back("samples/s", fmt::format("{:.1f}", prediction->samples_per_second));
    if (prediction->whole) lines.emplace_back("communication", to_string(prediction->communicated));
    if (DeviceId full = fullest_device(*document.topology, prediction->peak_memory); full.valid())
      lines.emplace_back("peak memory", fmt::format("{} of {}", to_string(prediction->peak_memory[full.index()]),
                                                    to_string(document.topology->spec(full).memory)));
  }
  if (plan.search.log.interrupted) lines.emplace_back("search", "stopped early: best so far");
  // The certificate is of the machine as it is.
  if (plan.search.lower_bound.count > 0 && document.scales.empty())
    lines.emplace_back("no plan is below", to_string(plan.search.lower_bound));
  if (prediction && prediction->whole && prediction->program)
    lines.emplace_back("tasks", fmt::format("{}", prediction->program->tasks.size()));
  for (const Scale& scale : document.scales) lines.emplace_back("what if", scale.text());
  return facts;
}

std::vector<Facts> selection_facts(const Document& document, const Selection& selection,
                                   const PlanPrediction* prediction) {
  const Pcg& pcg = document.graph();
  if (prediction && !prediction->nodes.empty() && prediction->nodes.size() != pcg.size()) prediction = nullptr;
  switch (selection.kind) {
    case Selection::Kind::nodes:
      if (selection.nodes.back().index() >= pcg.size()) return {};
      return selection.nodes.size() == 1 ? node_facts(document, selection.nodes[0], prediction)
                                         : group_facts(document, selection.nodes, prediction);
    case Selection::Kind::value:
      if (selection.value.node.index() >= pcg.size()) return {};
      return value_facts(document, selection.value);
    case Selection::Kind::device:
      if (!document.topology || selection.device.index() >= document.topology->device_count()) return {};
      return device_facts(document, selection.device, prediction);
    case Selection::Kind::link:
      if (!document.topology || selection.link.index() >= document.topology->links.size()) return {};
      return link_facts(document, selection.link, prediction);
    case Selection::Kind::none:
    case Selection::Kind::task:
    case Selection::Kind::step:
      break;
  }
  return {};
}

}  // namespace unity::gui
