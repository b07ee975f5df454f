#include "gui/panels/pcg/blocks.h"

#include <algorithm>
#include <map>

#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/graph/text.h"
#include "core/models/models.h"

using namespace unity;
using namespace unity::gui;

namespace {

// "24 x encoder" and the like, of the outermost level.
std::vector<std::string> outer(const BlockTree& tree) {
  std::vector<std::string> words;
  for (int child : tree[0].children) {
    const Block& block = tree[child];
    if (block.kind == Block::Kind::repeat)
      words.push_back(fmt::format("{} x {}", block.children.size(), block.label));
    else if (block.kind == Block::Kind::group)
      words.push_back(block.label);
  }
  return words;
}

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

TEST_CASE("the layers of a transformer are one block, whatever the model") {
  CHECK(has(outer(find_blocks(build_model({"bert-large", {}}))), "24 x encoder"));
  CHECK(has(outer(find_blocks(build_model({"gpt2-small", {}}))), "transformer"));
}

TEST_CASE("blocks hold every node once") {
  for (const char* model : {"bert-large", "inception-v3", "resnet-50", "dlrm", "gpt2-small", "nasnet-a-mobile"}) {
    Pcg pcg = build_model({model, {}});
    BlockTree tree = find_blocks(pcg);
    std::vector<int> seen(pcg.size(), 0);
    std::vector<int> open = {0};
    while (!open.empty()) {
      const Block& block = tree[open.back()];
      int index = open.back();
      open.pop_back();
      if (block.kind == Block::Kind::op) ++seen[block.nodes[0].index()];
      std::size_t nodes = 0;
      for (int child : block.children) {
        CHECK(tree[child].parent == index);
        nodes += tree[child].nodes.size();
        open.push_back(child);
      }
      if (!block.children.empty()) CHECK(nodes == block.nodes.size());
    }
    INFO(model);
    CHECK(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
  }
}

TEST_CASE("instances of a repeat are alike by structure") {
  BlockTree tree = find_blocks(build_model({"resnet-50", {}}));
  int repeats = 0;
  for (const Block& block : tree.blocks) {
    if (block.kind != Block::Kind::repeat || block.parent < 0) continue;
    ++repeats;
    for (int child : block.children) CHECK(tree[child].structure == tree[block.children[0]].structure);
  }
  // Of 3, 4, 6 and 3 blocks a stage the first differs (its shortcut has a convolution): 2, 3, 5 and 2 are alike.
  CHECK(repeats >= 4);
}

TEST_CASE("operators without labels are collapsed by their structure") {
  // x -> (matmul, relu) four times: no label says that these are layers.
  std::string text = "pcg plain {\n  x = input([8, 8])\n";
  std::string last = "x";
  for (int i = 0; i < 4; ++i) {
    text += fmt::format("  w{0} = weight([8, 8], init=\"normal\")\n  a{0} = matmul({1}, w{0})\n  b{0} = relu(a{0})\n",
                        i, last);
    last = fmt::format("b{}", i);
  }
  BlockTree tree = find_blocks(parse_pcg(fmt::format("{}  return {}\n}}\n", text, last)));
  auto words = outer(tree);
  INFO((words.empty() ? "nothing" : words[0]));
  REQUIRE(words.size() == 1);
  CHECK(words[0].starts_with("4 x "));
}

TEST_CASE("a layer that is parallelized differently is not alike") {
  // Two matmuls in two parts, one in four: the repeat ends where the degree changes.
  std::string text = "pcg p {\n  x = input([8, 8])\n  l.0.p = partition(0, 2, x)\n";
  std::string last = "l.0.p";
  for (int i = 0; i < 5; ++i) {
    if (i == 3) {
      text += fmt::format("  c = combine(0, 2, {})\n  d = partition(0, 4, c)\n", last);
      last = std::string("d");
    }
    text += fmt::format(
        "  l.{0}.w = weight([8, 8], init=\"normal\")\n  l.{0}.r = replicate({2}, l.{0}.w)\n  l.{0}.a = matmul({1}, "
        "l.{0}.r)\n"
        "  l.{0}.b = relu(l.{0}.a)\n",
        i, last, i < 3 ? 2 : 4);
    last = fmt::format("l.{}.b", i);
  }
  BlockTree tree = find_blocks(parse_pcg(fmt::format("{}  return {}\n}}\n", text, last)));
  std::vector<std::size_t> counts;
  for (const Block& block : tree.blocks)
    if (block.kind == Block::Kind::repeat && block.parent >= 0) counts.push_back(block.children.size());
  std::sort(counts.begin(), counts.end());
  CHECK(counts.back() <= 3);
  CHECK(counts.size() >= 2);
}
