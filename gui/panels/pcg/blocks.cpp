#include "gui/panels/pcg/blocks.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace unity::gui {
namespace {

constexpr std::size_t kSmallGroup = 3;  // operators; smaller named groups are not worth a box
constexpr std::size_t kLongestPeriod = 64;
constexpr std::size_t kFewOperators = 4;  // repeats of one operator, or of inputs, are joined from so many on

std::vector<std::string> components(const std::string& label) {
  std::vector<std::string> parts(1);
  for (char c : label)
    if (c == '.')
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

class Builder {
 public:
  explicit Builder(const Pcg& pcg) : pcg_(pcg) {}

  BlockTree build() {
    tree_.blocks.push_back({.kind = Block::Kind::group, .key = "", .label = pcg_.name()});
    tree_.of_node.resize(pcg_.size());
    std::map<std::string, int> groups = {{"", 0}};
    for (const Node& node : pcg_.nodes())
      if (node.is_compute() && !node.name.empty()) ++labels_[node.name];
    for (std::size_t i = 0; i < pcg_.size(); ++i) {
      NodeId id(static_cast<std::int64_t>(i));
      int parent = group(groups, path_of(id));
      Block leaf{.kind = Block::Kind::op,
                 .key = fmt::format("#{}", i),
                 .label = pcg_.nodes()[i].op->name(),
                 .parent = parent,
                 .nodes = {id}};
      tree_.of_node[i] = add(std::move(leaf));
    }
    tidy(0);
    hash(0);
    repeat(0);
    compact();
    return std::move(tree_);
  }

 private:
  Block& at(int i) { return tree_.blocks[static_cast<std::size_t>(i)]; }

  int add(Block block) {
    int index = static_cast<int>(tree_.blocks.size());
    if (block.parent >= 0) at(block.parent).children.push_back(index);
    tree_.blocks.push_back(std::move(block));
    return index;
  }

  // The labels' components but the last; all of them where several operators have one label. What has no label belongs
  // where its first operand does.
  std::vector<std::string> path_of(NodeId id) const {
    const Node* node = &pcg_[id];
    while (node->name.empty() && !node->inputs.empty()) node = &pcg_[node->inputs[0].node];
    std::vector<std::string> path = components(node->name);
    if (auto shared = labels_.find(node->name); shared == labels_.end() || shared->second < kSmallGroup)
      path.pop_back();
    return path;
  }

  int group(std::map<std::string, int>& groups, const std::vector<std::string>& path) {
    std::string key;
    int parent = 0;
    for (const std::string& part : path) {
      key += (key.empty() ? "" : ".") + part;
      auto [known, fresh] = groups.emplace(key, 0);
      if (fresh) known->second = add({.kind = Block::Kind::group, .key = key, .label = part, .parent = parent});
      parent = known->second;
    }
    return parent;
  }

  std::size_t operators(int block) {
    std::size_t count = 0;
    for (NodeId id : at(block).nodes) count += pcg_[id].is_compute() ? 1 : 0;
    return count;
  }

  // Bottom up: joins a group with its only child group, dissolves small ones, puts children in the order of the graph.
  void tidy(int block) {
    if (at(block).kind == Block::Kind::op) return;
    for (int child : std::vector<int>(at(block).children)) tidy(child);
    std::vector<int> children;
    for (int child : at(block).children) {
      std::size_t enough = is_number(at(child).label) ? 2 : kSmallGroup;
      if (at(child).kind == Block::Kind::group && operators(child) < enough) {
        for (int inner : at(child).children) children.push_back(inner);
      } else {
        children.push_back(child);
      }
    }
    if (children.size() == 1 && block != 0 && at(children[0]).kind == Block::Kind::group) {
      Block only = at(children[0]);
      at(block).label += "." + only.label;
      at(block).key = only.key;
      children = only.children;
    }
    at(block).nodes.clear();
    for (int child : children) {
      at(child).parent = block;
      at(block).nodes.insert(at(block).nodes.end(), at(child).nodes.begin(), at(child).nodes.end());
    }
    std::sort(at(block).nodes.begin(), at(block).nodes.end());
    // The first operator that computes says where a block stands: weights and inputs come as early as they like.
    auto first = [&](int child) {
      for (NodeId id : at(child).nodes)
        if (pcg_[id].is_compute()) return std::pair(0, id);
      return std::pair(0, at(child).nodes.front());
    };
    std::stable_sort(children.begin(), children.end(), [&](int a, int b) { return first(a) < first(b); });
    at(block).children = std::move(children);
  }

  Hash hash_nodes(const std::vector<NodeId>& nodes) const {
    std::unordered_map<std::int32_t, std::size_t> place;
    for (std::size_t i = 0; i < nodes.size(); ++i) place[nodes[i].value] = i + 1;
    Hash h = nodes.size();
    for (NodeId id : nodes) {
      const Node& node = pcg_[id];
      h = combine(h, combine(hash_text(node.op->name()), hash_attributes(node.attributes)));
      for (const ParallelShape& shape : node.outputs) h = combine(h, hash_shape(shape));
      for (ValueRef v : node.inputs) {
        auto inside = place.find(v.node.value);
        h = combine(h, inside == place.end() ? 0 : inside->second * 8 + static_cast<std::size_t>(v.output));
      }
    }
    return h;
  }

  void hash(int block) {
    at(block).structure = hash_nodes(at(block).nodes);
    for (int child : std::vector<int>(at(block).children)) hash(child);
  }

  struct Run {
    std::size_t period = 0, count = 0;
    std::size_t length() const { return period * count; }
  };

  // The longest run of children that starts here and is worth a block; of equally long ones that of the shortest
  // period.
  Run run_at(const std::vector<int>& children, std::size_t begin) {
    Run best;
    auto alike = [&](std::size_t a, std::size_t b) {
      return at(children[a]).structure == at(children[b]).structure && at(children[a]).kind == at(children[b]).kind;
    };
    std::size_t most = std::min(kLongestPeriod, (children.size() - begin) / 2);
    for (std::size_t period = 1; period <= most; ++period) {
      std::size_t end = begin + period;
      while (end < children.size() && alike(end, end - period)) ++end;
      Run run{period, (end - begin) / period};
      if (run.count < 2 || run.length() <= best.length()) continue;
      std::size_t ops = 0;
      for (std::size_t i = begin; i < begin + period; ++i) ops += operators(children[i]);
      bool single = period == 1 && at(children[begin]).kind == Block::Kind::op;
      if (single || ops == 0 ? run.count < kFewOperators : ops < 2) continue;
      best = run;
    }
    return best;
  }

  std::string run_label(const std::vector<int>& first, int parent) {
    if (first.size() == 1) {
      const Block& one = at(first[0]);
      if (one.kind == Block::Kind::op) return one.label;
      if (is_number(one.label)) return at(parent).label;
      std::size_t dot = one.label.rfind('.');
      if (dot != std::string::npos && is_number(one.label.substr(dot + 1))) return one.label.substr(0, dot);
      return one.label;
    }
    std::string label = at(first[0]).label;
    for (std::size_t i = 1; i < first.size() && i < 3; ++i) label += ", " + at(first[i]).label;
    return label + (first.size() > 3 ? " .." : "");
  }

  void repeat(int block) {
    if (at(block).kind == Block::Kind::op) return;
    std::vector<int> children = at(block).children, result;
    for (std::size_t i = 0; i < children.size();) {
      Run run = run_at(children, i);
      if (run.count < 2) {
        result.push_back(children[i++]);
        continue;
      }
      std::vector<int> first(children.begin() + static_cast<std::ptrdiff_t>(i),
                             children.begin() + static_cast<std::ptrdiff_t>(i + run.period));
      Block all{.kind = Block::Kind::repeat,
                .key = at(children[i]).key + "*" + std::to_string(run.count),
                .label = run_label(first, block),
                .structure = at(children[i]).structure};
      int repeated = add(std::move(all));
      at(repeated).parent = block;
      for (std::size_t k = 0; k < run.count; ++k) {
        int made = instance(children, i, run, k, repeated);  // may move the blocks
        at(repeated).children.push_back(made);
      }
      for (int child : at(repeated).children)
        at(repeated).nodes.insert(at(repeated).nodes.end(), at(child).nodes.begin(), at(child).nodes.end());
      std::sort(at(repeated).nodes.begin(), at(repeated).nodes.end());
      result.push_back(repeated);
      i += run.length();
    }
    at(block).children = result;
    for (int child : result)
      if (at(child).kind == Block::Kind::group) {
        repeat(child);
      } else if (at(child).kind == Block::Kind::repeat) {
        for (int inner : std::vector<int>(at(child).children)) repeat(inner);
      }
  }

  int instance(const std::vector<int>& children, std::size_t begin, const Run& run, std::size_t number, int parent) {
    std::size_t from = begin + number * run.period;
    if (run.period == 1) {
      at(children[from]).parent = parent;
      return children[from];
    }
    Block one{.kind = Block::Kind::group,
              .key = at(children[from]).key + "+" + std::to_string(run.period),
              .label = fmt::format("{} {}", at(parent).label, number),
              .structure = at(children[from]).structure};
    int made = add(std::move(one));
    at(made).parent = parent;
    for (std::size_t i = from; i < from + run.period; ++i) {
      at(children[i]).parent = made;
      at(made).children.push_back(children[i]);
      at(made).nodes.insert(at(made).nodes.end(), at(children[i]).nodes.begin(), at(children[i]).nodes.end());
    }
    std::sort(at(made).nodes.begin(), at(made).nodes.end());
    return made;
  }

  // A group that holds nothing but one repeat is that repeat.
  void compact() {
    for (std::size_t i = 1; i < tree_.blocks.size(); ++i) {
      Block& group = tree_.blocks[i];
      if (group.kind != Block::Kind::group || group.children.size() != 1 || group.parent < 0) continue;
      int only = group.children[0];
      if (at(only).kind != Block::Kind::repeat) continue;
      std::vector<int>& siblings = at(group.parent).children;
      auto place = std::find(siblings.begin(), siblings.end(), static_cast<int>(i));
      if (place == siblings.end()) continue;
      *place = only;
      at(only).parent = group.parent;
      at(only).nodes = group.nodes;
      group.parent = -1;
    }
  }

  const Pcg& pcg_;
  BlockTree tree_;
  std::map<std::string, std::size_t> labels_;  // operators that have it
};

}  // namespace

int BlockTree::find(const std::string& key) const {
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (blocks[i].key == key && (i == 0 || blocks[i].parent >= 0)) return static_cast<int>(i);
  return -1;
}

BlockTree find_blocks(const Pcg& pcg) { return Builder(pcg).build(); }

}  // namespace unity::gui
