#include "gui/session/edits.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "core/base/text.h"
#include "gui/session/rewriting.h"

namespace unity::gui {
namespace {

Result<std::string> argument(const Edit& edit, const std::string& name) {
  auto at = edit.arguments.find(name);
  if (at == edit.arguments.end() || at->second.empty()) return fail("{}: needs the argument '{}'", edit.name, name);
  return at->second;
}

Result<int> integer(std::string_view subject, const std::string& text) {
  int value = 0;
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size())
    return fail("{}: found '{}', expected a whole number", subject, text);
  return value;
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

Result<NodeId> find_node(const Pcg& pcg, const std::string& word) {
  if (!word.empty() && std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    int number = UNITY_TRY(integer("nodes", word));
    if (static_cast<std::size_t>(number) >= pcg.size())
      return fail("node {}: found a graph of {} nodes, expected one that has it", number, pcg.size());
    return NodeId(number);
  }
  std::vector<std::string> labels;
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    // What lays out an operator's operands carries its label, too, and has no mapping.
    if (pcg.nodes()[i].is_parallelization()) continue;
    if (pcg.nodes()[i].name == word) return NodeId(static_cast<std::int64_t>(i));
    labels.push_back(pcg.nodes()[i].name);
  }
  std::string near = nearest_name(word, labels);
  return fail("node '{}': the graph has no operator of that label{}", word,
              near.empty() ? std::string() : fmt::format(" (did you mean '{}'?)", near));
}

Result<Document> edit_apply_rule(const Document& document, const Edit& edit) {
  if (!document.plan) return fail("apply_rule: {} is a model without a plan", document.title);
  std::string name = UNITY_TRY(argument(edit, "rule"));
  int number = UNITY_TRY(integer("match", UNITY_TRY(argument(edit, "match"))));
  const Rule* rule = find_rule(name);
  if (!rule) return fail("apply_rule: the library has no rule '{}'", name);
  auto given = edit.arguments.find("parameters");
  Parameters parameters;
  if (given != edit.arguments.end()) parameters = UNITY_TRY(parse_parameters(given->second));
  std::vector<Match> matches = find_matches(document.plan->pcg, *rule);
  if (number < 0 || static_cast<std::size_t>(number) >= matches.size())
    return fail("apply_rule: {} has {} matches, found match {}", name, matches.size(), number);
  Plan plan = UNITY_TRY(
      rewrite_plan(*document.plan, *document.topology, *rule, matches[static_cast<std::size_t>(number)], parameters));
  Document next = document;
  plan.prediction = {};  // was that of another plan
  next.plan = std::make_shared<const Plan>(std::move(plan));
  return next;
}

Result<Document> edit_set_mapping(const Document& document, const Edit& edit) {
  if (!document.plan) return fail("set_mapping: {} is a model without a plan", document.title);
  std::string nodes = UNITY_TRY(argument(edit, "nodes"));
  MachineMapping mapping;
  mapping.start = UNITY_TRY(integer("start", UNITY_TRY(argument(edit, "start"))));
  for (const std::string& word : words(UNITY_TRY(argument(edit, "strides"))))
    mapping.strides.push_back(UNITY_TRY(integer("strides", word)));
  Plan plan = *document.plan;
  for (const std::string& word : words(nodes)) {
    NodeId id = UNITY_TRY(find_node(plan.pcg, word));
    const Node& node = plan.pcg[id];
    if (node.is_parallelization()) return fail("{}: lays out data, it runs on no device by itself", node.op->name());
    Result<void> fits =
        check_mapping(mapping, node_grid(plan.pcg, id), static_cast<int>(document.topology->device_count()));
    if (!fits.ok()) return fail("{}: {}", node.name, fits.error().message);
    plan.mappings[id.index()] = mapping;
  }
  Document next = document;
  plan.prediction = {};
  next.plan = std::make_shared<const Plan>(std::move(plan));
  return next;
}

Result<Document> edit_set_scale(const Document& document, const Edit& edit) {
  if (!document.topology) return fail("set_scale: {} has no machine", document.title);
  std::string what = UNITY_TRY(argument(edit, "what"));
  std::string factor = UNITY_TRY(argument(edit, "factor"));
  Document next = document;
  try {
    Scale scale = parse_scale(what + "=" + factor);
    std::erase_if(next.scales, [&](const Scale& s) {
      return s.kind == scale.kind && s.name == scale.name && s.property == scale.property;
    });
    if (scale.factor != 1) next.scales.push_back(scale);
    // Equal questions are equal documents, in whatever order they were asked.
    std::sort(next.scales.begin(), next.scales.end(),
              [](const Scale& a, const Scale& b) { return a.text() < b.text(); });
    Topology scaled = *document.topology;
    apply_scales(next.scales, scaled);
  } catch (const InputError& error) {
    return Error{error.what()};
  }
  return next;
}

Result<Document> edit_reset_scales(const Document& document, const Edit&) {
  Document next = document;
  next.scales.clear();
  return next;
}

}  // namespace

const std::vector<EditInfo>& edits() {
  static const std::vector<EditInfo> all = {
#define UNITY_EDIT(name, label) {#name, label},
#include "gui/session/edits.def"
#undef UNITY_EDIT
  };
  return all;
}

Result<Document> apply(const Document& document, const Edit& edit) {
#define UNITY_EDIT(which, label) \
  if (edit.name == #which) return edit_##which(document, edit);
#include "gui/session/edits.def"
#undef UNITY_EDIT
  std::vector<std::string> known;
  for (const EditInfo& info : edits()) known.emplace_back(info.name);
  return fail("unknown edit '{}'{}", edit.name, suggestion(edit.name, known));
}

void History::push(Snapshot next, Edit edit) {
  states_.resize(at_ + 1);
  edits_.resize(at_);
  states_.push_back(std::move(next));
  edits_.push_back(std::move(edit));
  ++at_;
  if (states_.size() > kMost) {
    states_.erase(states_.begin());
    edits_.erase(edits_.begin());
    --at_;
  }
}

}  // namespace unity::gui
