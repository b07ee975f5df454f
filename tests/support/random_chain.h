// Chains (core/ops/chain.h) of random operators, with random data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <random>
#include <vector>

#include "core/ops/chain.h"

namespace unity::test {

struct RandomChain {
  std::unique_ptr<Chain> chain;
  std::vector<Operand> operands;  // inputs, then results, in `memory`
  std::vector<std::vector<std::byte>> memory;

  std::span<const Operand> inputs() const { return std::span(operands).first(chain->inputs()); }
  std::span<const Operand> outputs() const { return std::span(operands).subspan(chain->inputs()); }
  // The same with results of its own, which hold nothing plausible.
  RandomChain again() const {
    RandomChain copy;
    copy.chain = std::make_unique<Chain>(chain->steps(), chain->inputs());
    copy.operands = operands, copy.memory = memory;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (i >= chain->inputs()) std::fill(copy.memory[i].begin(), copy.memory[i].end(), std::byte{0x7f});
      copy.operands[i].data = copy.memory[i].data();
    }
    return copy;
  }
};

// Of `steps` element-wise operators on blocks of this extent, of a larger tensor, in reals of this type; led by a
// matmul, where asked for.
inline RandomChain random_chain(std::mt19937_64& random, const Dims& extent, std::size_t steps, DType real,
                                bool product = false) {
  RandomChain made;
  auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  auto block = [&](const Dims& of, DType type) {
    Operand o{nullptr, type, of, Dims(of.size(), 0), of};
    for (std::size_t d = 0; d < of.size(); ++d)
      if (of[d] > 1) o.offset[d] = 3, o.global[d] = of[d] + 5;
    auto& bytes = made.memory.emplace_back(static_cast<std::size_t>(o.elements() * size_of(type)));
    o.data = bytes.data();
    for (std::int64_t i = 0; i < o.elements(); ++i) {
      double x = std::uniform_real_distribution(-2.0, 2.0)(random);
      if (type == DType::f64) o.as<double>()[i] = x;
      if (type == DType::f32) o.as<float>()[i] = static_cast<float>(x);
      if (type == DType::i32) o.as<std::int32_t>()[i] = x > 0;
    }
    made.operands.push_back(o);
    return static_cast<int>(made.operands.size()) - 1;
  };
  auto broadcast = [&]() -> Dims {
    Dims of = extent;
    for (std::int64_t& size : of)
      if (below(3) == 0) size = 1;
    if (below(3) == 0 && !of.empty()) of.erase(of.begin());
    return below(3) == 0 ? extent : of;
  };
  std::vector<const Operator*> all;
  for (const Operator* op : all_operators())
    if (is_elementwise(*op)) all.push_back(op);

  std::vector<ChainStep> list;
  std::vector<DType> written;  // by step
  if (product) {
    Dims x = extent;
    x.back() = 7;
    list.push_back({.op = &get_operator("matmul"), .attributes = {std::string("none"), std::int64_t{0}}});
    list[0].operands = {block(x, real), block({7, extent.back()}, real)};
    written.push_back(real);
  }
  const int first_result = 1000;  // operands are renumbered when all inputs are known
  std::vector<std::size_t> kept;  // steps
  for (;;) {
    const bool full = made.operands.size() + kept.size() + 6 > Chain::kMostOperands;  // a step takes up to three
    const bool last = full || list.size() + 1 == steps, first = list.empty();
    const bool whole_number = !first && written.back() == DType::i32;
    const Operator* op = all[below(all.size())];
    const bool selects = op->name() == "where", casts = op->name() == "cast";
    if (whole_number && !selects && !casts) continue;
    if (product && last && op->name() == "greater") continue;
    ChainStep step{.op = op, .attributes = op->examples()[0].attributes};
    if (casts) step.attributes = {std::string(whole_number || (product && last) || below(2) ? "f32" : "i32")};
    step.dtype =
        op->name() == "greater" || (casts && text_attribute(step.attributes, 0) == "i32") ? DType::i32 : DType::f32;
    const auto count = static_cast<std::size_t>(op->arity().max);
    const bool may_broadcast = count > 1 && !op->name().ends_with("_gradient");
    const std::size_t before = whole_number || count == 1 ? 0 : (selects ? 1 : 0) + below(selects ? 2 : count);
    for (std::size_t i = 0; i < count; ++i) {
      const DType type = selects && i == 0 ? DType::i32 : real;
      std::vector<int> earlier;
      for (std::size_t s : kept)
        if (s + 1 < list.size() && written[s] == type) earlier.push_back(first_result + static_cast<int>(s));
      if (!first && i == before)
        step.operands.push_back(ChainStep::kBefore);
      else if (!earlier.empty() && below(2) == 0)
        step.operands.push_back(earlier[below(earlier.size())]);
      else
        step.operands.push_back(block(may_broadcast && (!first || i != before) ? broadcast() : extent, type));
    }
    if (last || below(3) == 0) step.kept = 0, kept.push_back(list.size());
    written.push_back(step.dtype == DType::i32 ? DType::i32 : real);
    list.push_back(std::move(step));
    if (last) break;
  }
  const std::size_t inputs = made.operands.size();
  for (std::size_t k = 0; k < kept.size(); ++k) list[kept[k]].kept = block(extent, written[kept[k]]);
  for (ChainStep& step : list)
    for (int& i : step.operands)
      if (i >= first_result) i = list[static_cast<std::size_t>(i - first_result)].kept;
  made.chain = std::make_unique<Chain>(std::move(list), inputs);
  return made;
}

// NaN is as good as NaN.
template <class T>
bool same_elements(const Operand& a, const Operand& b) {
  for (std::int64_t i = 0; i < a.elements(); ++i) {
    T x = a.as<T>()[i], y = b.as<T>()[i];
    if (x != y && !(x != x && y != y)) return false;
  }
  return true;
}

}  // namespace unity::test
