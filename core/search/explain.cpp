#include "core/search/explain.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <type_traits>
#include <utility>

#include "core/base/text.h"
#include "core/search/data_parallel.h"

namespace unity {
namespace {

std::vector<std::string> parts_of(const std::string& label) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= label.size();) {
    std::size_t end = std::min(label.find('.', begin), label.size());
    parts.push_back(label.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool is_index(const std::string& part) {
  return !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "encoder.3.attention.query.matmul" -> block "encoder.3", part "attention", operator "query.matmul".
struct Place {
  std::string block, part, op;
};
Place place_of(const std::string& label) {
  std::vector<std::string> parts = parts_of(label);
  auto index = static_cast<std::size_t>(std::find_if(parts.begin(), parts.end(), is_index) - parts.begin());
  std::size_t block = index < parts.size() ? index + 1 : parts.size() > 1 ? 1 : 0;
  std::size_t part = parts.size() > block + 1 ? block + 1 : block;
  auto text = [&](std::size_t from, std::size_t to) {
    return join({parts.begin() + static_cast<std::ptrdiff_t>(from), parts.begin() + static_cast<std::ptrdiff_t>(to)},
                ".");
  };
  return {text(0, block), text(block, part), text(part, parts.size())};
}

// The word for splitting an axis of this operator.
std::string word_for(const Pcg& pcg, const Node& n, std::size_t axis) {
  const AxisTable& t = *n.table;
  auto walks_at = [&](const OperandAxes& operand) {
    for (std::size_t d = 0; d < operand.dims.size(); ++d)
      if (split_axis(t, operand.dims[d]) == static_cast<int>(axis)) return static_cast<int>(d);
    return -1;
  };
  int out = t.outputs.empty() ? -1 : walks_at(t.outputs[0]);
  std::size_t rank = t.outputs.empty() ? 0 : t.outputs[0].dims.size();
  bool weights = std::any_of(n.inputs.begin(), n.inputs.end(), [&](ValueRef v) {
    while (pcg[v.node].is_parallelization()) v = pcg[v.node].inputs[0];
    return pcg[v.node].op->name() == "weight";
  });
  // An axis at dimension 0 of the first operand that is not a weight is the batch.
  int in0 = t.inputs.empty() ? -1 : walks_at(t.inputs[0]);
  bool first_is_data = !n.inputs.empty() && !(weights && n.op->name() == "embedding" && in0 < 0);
  if (first_is_data && in0 == 0 && !t.inputs[0].dims.empty() && (out == 0 || out < 0) &&
      !(rank == 1 && weights && n.op->name() != "matmul"))
    return "data";
  if (t.axes[axis].role == AxisRole::reduction) return "by reduction";
  if (t.axes[axis].role == AxisRole::window) return "spatial";
  if (n.op->name() == "matmul" && t.axes[axis].name == "n") return "by output";
  bool image = std::any_of(t.axes.begin(), t.axes.end(), [](const Axis& a) { return a.role == AxisRole::window; }) ||
               n.op->name() == "batch_norm" || n.op->name() == "group_norm";
  if (image && out == 1) return "by channel";
  if (rank == 4 && out == 1) return "by head";
  if (rank == 4 && out == 2 && n.op->name() == "reshape") return "by head";
  if (rank >= 3 && out == 1) return "by sequence";
  if (out == static_cast<int>(rank) - 1) return "by output";
  return "along " + t.axes[axis].name;
}

// "of 24 parts, 2 on each of devices 0 to 7, 1 on each of devices 8 to 15"
std::string shares_in_words(const std::vector<int>& places) {
  std::map<int, int> counts;
  for (int device : places) ++counts[device];
  std::string text = fmt::format("of {} parts", places.size());
  for (auto first = counts.begin(); first != counts.end();) {
    auto last = first, next = std::next(first);
    while (next != counts.end() && next->second == first->second && next->first == last->first + 1) last = next++;
    text += first == last ? fmt::format(", {} on device {}", first->second, first->first)
                          : fmt::format(", {} on each of devices {} to {}", first->second, first->first, last->first);
    first = next;
  }
  return text;
}

// "devices 0 to 3, 6 and 8 to 9"
std::string devices_in_words(const std::vector<int>& numbers) {
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    ranges.push_back(last == i ? std::to_string(numbers[i]) : fmt::format("{} to {}", numbers[i], numbers[last]));
    i = last + 1;
  }
  std::string text = numbers.size() == 1 ? "device " : "devices ";
  if (ranges.size() == 1) return text + ranges[0];
  const std::string end = ranges.back();
  ranges.pop_back();
  return text + join(ranges) + " and " + end;
}

// What an operator is called where its label says something else: rules hand labels on.
std::string called(const std::string& label, const Node& n) {
  return find_operator(label) && label != n.op->name() ? fmt::format("{} ({})", label, n.op->name()) : label;
}

}  // namespace

std::string without_indices(const std::string& label) {
  std::vector<std::string> parts = parts_of(label);
  for (std::string& part : parts)
    if (is_index(part)) part = "*";
  return join(parts, ".");
}

std::vector<std::string> parallelism_in_words(const Pcg& pcg, NodeId node) {
  const Node& n = pcg[node];
  std::vector<std::string> words;
  if (!n.is_compute()) return words;
  Sharding sharding = node_sharding(pcg, node);
  for (std::size_t a = 0; a < sharding.degrees.size(); ++a) {
    if (sharding.degrees[a] > 1) words.push_back(fmt::format("{}-way {}", sharding.degrees[a], word_for(pcg, n, a)));
    if (sharding.micro[a] > 1) words.push_back(fmt::format("{} micro-batches", sharding.micro[a]));
  }
  if (sharding.passing > 1) words.push_back(fmt::format("on {} partial sums", sharding.passing));
  if (sharding.copies > 1) words.push_back(fmt::format("computed {} times", sharding.copies));
  return words;
}

std::vector<BlockExplanation> explain_blocks(const Pcg& pcg) {
  using Groups = std::vector<std::pair<std::string, std::vector<std::string>>>;  // key -> members, in order
  auto group = [](auto& groups, const std::string& key) -> auto& {
    for (auto& g : groups)
      if (g.first == key) return g.second;
    groups.emplace_back(key, typename std::remove_reference_t<decltype(groups)>::value_type::second_type());
    return groups.back().second;
  };
  std::vector<std::pair<std::string, std::vector<std::pair<std::string, Groups>>>>
      blocks;  // block -> part -> how -> ops
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& n = pcg.nodes()[i];
    if (!n.is_compute()) continue;
    Place place = place_of(n.name);
    std::vector<std::string> words = parallelism_in_words(pcg, NodeId(static_cast<std::int64_t>(i)));
    group(group(group(blocks, place.block), place.part), words.empty() ? "on one device" : join(words))
        .push_back(called(place.op, n));
  }
  std::vector<BlockExplanation> result;
  std::map<std::pair<std::string, std::vector<std::string>>, std::size_t> seen;
  for (const auto& [label, parts] : blocks) {
    std::vector<std::string> sentences;
    for (const auto& [part, groups] : parts) {
      std::vector<std::string> clauses;
      for (const auto& [how, operators] : groups)
        clauses.push_back(groups.size() == 1 && !part.empty() ? how : join(operators) + ": " + how);
      sentences.push_back((part.empty() ? "" : part + ": ") + join(clauses, "; "));
    }
    std::string name = without_indices(label);
    auto [it, inserted] = seen.try_emplace({name, sentences}, result.size());
    if (inserted)
      result.push_back({label, 1, sentences});
    else
      ++result[it->second].count, result[it->second].block = name;
  }
  return result;
}

std::vector<PlaceExplanation> explain_places(const Plan& plan) {
  std::vector<PlaceExplanation> places;
  std::map<std::vector<int>, std::size_t> known;
  for (std::size_t i = 0; i < plan.pcg.size(); ++i) {
    const Node& n = plan.pcg.nodes()[i];
    if (!n.is_compute()) continue;
    std::set<int> numbers;
    for (DeviceId d : plan.mappings.at(i).devices(node_grid(plan.pcg, NodeId(static_cast<std::int64_t>(i)))))
      numbers.insert(static_cast<int>(d.value));
    auto [it, inserted] = known.try_emplace({numbers.begin(), numbers.end()}, places.size());
    if (inserted) places.push_back({it->first, 0, n.name, {}});
    ++places[it->second].operators, places[it->second].last = n.name;
  }
  return places;
}

std::vector<RuleSummary> summarise_derivation(const Plan& plan) {
  std::vector<RuleSummary> rules;
  for (const DerivationStep& s : plan.derivation) {
    auto rule = std::find_if(rules.begin(), rules.end(),
                             [&](const RuleSummary& r) { return r.rule == s.rule && r.degree == s.degree; });
    if (rule == rules.end()) rule = rules.insert(rules.end(), {s.rule, s.degree, 0, {}});
    ++rule->count;
    std::string place = without_indices(s.where);
    if (std::find(rule->places.begin(), rule->places.end(), place) == rule->places.end()) rule->places.push_back(place);
  }
  return rules;
}

static std::string counted(int count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string explain_plan(const Plan& plan) {
  std::string text = fmt::format("Plan for {} on {} ({} of {}), found by strategy {}\n", plan.model.name, plan.topology,
                                 counted(plan.devices, "device"), counted(plan.nodes, "node"), plan.search.strategy);
  text += fmt::format("  as it was found: {} per iteration of {} samples, {} communicated, {} on the fullest device\n",
                      to_string(plan.prediction.iteration), plan.global_batch, to_string(plan.prediction.communicated),
                      to_string(plan.prediction.peak_memory));
  text +=
      fmt::format("  search: {} candidates in {:.1f} s; stopped: {}\n  schedule: {}\n\nParallelism, block by block\n",
                  plan.search.candidates, plan.search.seconds, plan.search.stopped_because, in_words(plan.schedule));
  if (std::optional<std::vector<int>> places = shared_places(plan.mappings))
    text += fmt::format("  unequal shares: {}; those of a device run as one\n", shares_in_words(*places));
  for (const BlockExplanation& block : explain_blocks(plan.pcg)) {
    text += fmt::format("  {}{}\n", block.count > 1 ? fmt::format("{} x ", block.count) : "",
                        block.block.empty() ? "(top level)" : block.block);
    for (const std::string& s : block.sentences) text += "    " + s + "\n";
  }
  // Where all devices compute all of it, that goes without saying.
  if (const std::vector<PlaceExplanation> places = explain_places(plan);
      places.size() > 1 || (places.size() == 1 && std::cmp_less(places[0].devices.size(), plan.devices))) {
    text += "\nDevices\n";
    constexpr std::size_t kMost = 24;
    for (const PlaceExplanation& p : std::span(places).first(std::min(kMost, places.size())))
      text += fmt::format("  {}: {}, {}\n", devices_in_words(p.devices), counted(p.operators, "operator"),
                          p.operators == 1 ? p.first : p.first + " to " + p.last);
    if (places.size() > kMost) text += fmt::format("  and {} more sets of devices\n", places.size() - kMost);
  }
  text += "\nRules applied\n";
  if (plan.derivation.empty()) text += "  none: the model as it is\n";
  constexpr std::size_t kShown = 3;
  for (const RuleSummary& r : summarise_derivation(plan)) {
    std::vector<std::string> places(r.places.begin(),
                                    r.places.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, r.places.size())));
    if (r.places.size() > kShown) places.push_back(fmt::format("{} more places", r.places.size() - kShown));
    text += fmt::format("  {:>4} x {}{} at {}\n", r.count, r.rule,
                        r.degree > 0 ? fmt::format(" (degree {})", r.degree) : "", join(places));
  }
  return text;
}

}  // namespace unity
