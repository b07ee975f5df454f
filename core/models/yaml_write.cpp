#include "core/models/yaml_write.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/base/text.h"

namespace unity {
namespace {

// A scalar of YAML that reads back as this text.
std::string yaml_text(const std::string& text) {
  auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-'; };
  const bool null = text == "null" || text == "Null" || text == "NULL";
  if (!null && !text.empty() && std::isalpha(static_cast<unsigned char>(text[0])) &&
      std::all_of(text.begin(), text.end(), plain))
    return text;
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' || c == '\t' || c == '\r' ? ' ' : c;
  }
  return quoted + "\"";
}

std::string yaml_real(double v) {
  if (std::isinf(v)) return v > 0 ? ".inf" : "-.inf";
  return std::isnan(v) ? ".nan" : to_string(AttributeValue(v));
}

class Writer {
 public:
  Writer(const Pcg& pcg, const ModelFileText& text) : pcg_(pcg), text_(text) { name_values(); }

  std::string run() {
    out_ = "format: unity-model\nversion: 1\n";
    out_ += fmt::format("name: {}\n", yaml_text(pcg_.name()));
    if (!text_.description.empty()) out_ += fmt::format("description: {}\n", yaml_text(text_.description));
    out_ += fmt::format("options: {{batch: {}}}\n", text_.batch);
    if (!text_.weights_file.empty()) out_ += fmt::format("weights_file: {}\n", yaml_text(text_.weights_file));
    for (const char* kind : {"input", "weight", "state"}) leaves(kind);
    bool empty = std::all_of(pcg_.nodes().begin(), pcg_.nodes().end(), in_section);
    out_ += empty ? "layers: []\n" : "layers:\n";
    for (std::size_t i = 0; i < pcg_.size(); ++i) layer(i);
    std::vector<std::string> outputs;
    for (ValueRef v : pcg_.outputs()) outputs.push_back(value(v));
    out_ += fmt::format("outputs: [{}]\n", join(outputs));
    return out_;
  }

 private:
  static bool in_section(const Node& node) {
    const std::string& op = node.op->name();
    return op == "input" || op == "weight" || op == "state";
  }

  // Leaves keep their names; layers, too, where no value has that name already.
  void name_values() {
    std::set<std::string> used;
    names_.resize(pcg_.size());
    for (std::size_t i = 0; i < pcg_.size(); ++i)
      if (in_section(pcg_.nodes()[i])) used.insert(names_[i] = pcg_.nodes()[i].name);
    for (std::size_t i = 0; i < pcg_.size(); ++i) {
      const Node& node = pcg_.nodes()[i];
      if (in_section(node)) continue;
      auto taken = [&](const std::string& name) {
        if (node.outputs.size() == 1) return used.contains(name);
        for (std::size_t r = 0; r < node.outputs.size(); ++r)
          if (used.contains(fmt::format("{}.{}", name, r))) return true;
        return false;
      };
      std::string name = node.name.empty() ? node.op->name() : node.name;
      for (int k = 2; taken(name); ++k) name = fmt::format("{}_{}", node.name, k);
      names_[i] = name;
      for (std::size_t r = 0; r < node.outputs.size(); ++r)
        used.insert(node.outputs.size() == 1 ? name : fmt::format("{}.{}", name, r));
    }
  }

  std::string value(ValueRef v) const {
    const std::string& name = names_[v.node.index()];
    return yaml_text(pcg_[v.node].outputs.size() == 1 ? name : fmt::format("{}.{}", name, v.output));
  }

  std::string size(std::int64_t v, std::int64_t doubled) const {
    if (v == doubled) return fmt::format("{}", v);
    return v == text_.batch ? "batch" : fmt::format("{}*batch", v / text_.batch);
  }

  std::string attribute(std::size_t node, std::size_t i) const {
    const AttributeValue& v = pcg_.nodes()[node].attributes[i];
    const AttributeValue& w = text_.doubled ? text_.doubled->nodes()[node].attributes[i] : v;
    if (auto text = std::get_if<std::string>(&v)) return yaml_text(*text);
    if (auto real = std::get_if<double>(&v)) return yaml_real(*real);
    if (auto integer = std::get_if<std::int64_t>(&v)) return size(*integer, std::get<std::int64_t>(w));
    const auto& list = std::get<Integers>(v);
    std::vector<std::string> items;
    for (std::size_t k = 0; k < list.size(); ++k) {
      bool batch = !text_.doubled && k == 0 && list[0] == text_.batch && pcg_.nodes()[node].op->name() == "input";
      items.push_back(batch ? "batch" : size(list[k], std::get<Integers>(w)[k]));
    }
    return fmt::format("[{}]", join(items));
  }

  std::string attributes(std::size_t node) const {
    std::vector<std::string> parts;
    auto specs = pcg_.nodes()[node].op->attributes();
    for (std::size_t i = 0; i < specs.size(); ++i)
      if (specs[i].required || pcg_.nodes()[node].attributes[i] != specs[i].fallback)
        parts.push_back(fmt::format("{}: {}", specs[i].name, attribute(node, i)));
    return join(parts);
  }

  void leaves(const std::string& kind) {
    bool first = true;
    for (std::size_t i = 0; i < pcg_.size(); ++i) {
      if (pcg_.nodes()[i].op->name() != kind) continue;
      if (first) out_ += kind + "s:\n";
      first = false;
      out_ += fmt::format("  {}: {{{}}}\n", yaml_text(names_[i]), attributes(i));
    }
  }

  void layer(std::size_t i) {
    const Node& node = pcg_.nodes()[i];
    if (in_section(node)) return;
    std::vector<std::string> inputs;
    for (ValueRef v : node.inputs) inputs.push_back(value(v));
    std::string given = attributes(i);
    out_ += fmt::format("  - {{name: {}, op: {}", yaml_text(names_[i]), node.op->name());
    if (!given.empty()) out_ += fmt::format(", attributes: {{{}}}", given);
    if (!inputs.empty()) out_ += fmt::format(", inputs: [{}]", join(inputs));
    out_ += "}\n";
  }

  const Pcg& pcg_;
  const ModelFileText& text_;
  std::vector<std::string> names_;
  std::string out_;
};

}  // namespace

Result<void> scales_with_batch(const Pcg& once, const Pcg& twice, std::int64_t batch) {
  if (once.size() != twice.size())
    return fail("the graph has {} operators, but {} at twice the batch", once.size(), twice.size());
  auto scales = [&](std::int64_t a, std::int64_t b) { return a == b || (b == 2 * a && a % batch == 0); };
  for (std::size_t n = 0; n < once.size(); ++n) {
    const Node &a = once.nodes()[n], &b = twice.nodes()[n];
    bool same = a.op == b.op && a.inputs == b.inputs && a.attributes.size() == b.attributes.size();
    for (std::size_t i = 0; same && i < a.attributes.size(); ++i) {
      const AttributeValue &v = a.attributes[i], &w = b.attributes[i];
      if (v == w) continue;
      const auto *x = std::get_if<Integers>(&v), *y = std::get_if<Integers>(&w);
      const auto *p = std::get_if<std::int64_t>(&v), *q = std::get_if<std::int64_t>(&w);
      same = (p && q && scales(*p, *q)) || (x && y && std::equal(x->begin(), x->end(), y->begin(), y->end(), scales));
    }
    if (!same) return fail("{} {} depends on the batch in a way that a model file can't say", a.op->name(), a.name);
  }
  return {};
}

std::string write_model(const Pcg& pcg, const ModelFileText& text) { return Writer(pcg, text).run(); }

}  // namespace unity
