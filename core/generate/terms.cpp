#include "core/generate/terms.h"

#include <algorithm>

#include "core/ops/reference.h"

namespace unity {
namespace {

Shape exact_shape(const ParallelShape& shape) {
  Shape logical = shape.shape();
  if (logical.dtype != DType::i32) logical.dtype = DType::mod;
  return logical;
}

// One in `zeros` elements is zero; 0: none.
LogicalTensor random_tensor(const ParallelShape& shape, std::int64_t index_bound, RandomKey key, std::uint64_t zeros) {
  LogicalTensor tensor(exact_shape(shape));
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    auto index = static_cast<std::uint64_t>(i);
    if (tensor.shape().dtype == DType::i32)
      tensor.as<std::int32_t>()[i] = static_cast<std::int32_t>(
          random_below(key, index, static_cast<std::uint64_t>(std::max<std::int64_t>(index_bound, 1))));
    else if (zeros == 0 || random_below(key.with(1), index, zeros) != 0)
      tensor.as<Mod>()[i].value = random_below(key, index, Mod::kPrime);
  }
  return tensor;
}

Hash hash_tensor(const LogicalTensor& tensor) {
  Operand operand = tensor.operand();
  auto bytes = static_cast<std::size_t>(tensor.shape().bytes());
  Hash h = hash_bytes({static_cast<const std::byte*>(operand.data), bytes});
  for (std::int64_t d : tensor.shape().dims) h = combine(h, static_cast<Hash>(d));
  return h;
}

// The identity on logical tensors.
bool keeps_tensor(const TermOperator& op) {
  return op.op->category() == OpCategory::parallelization && op.operands == 1;
}

}  // namespace

int TermTable::add_operator(TermOperator op) {
  Hash h = combine(combine(hash_text(op.op->name()), hash_attributes(op.attributes)), static_cast<Hash>(op.operands));
  std::vector<std::int32_t>& same = operator_index_[h];
  for (std::int32_t i : same) {
    const TermOperator& o = operators_[static_cast<std::size_t>(i)];
    if (o.op == op.op && o.attributes == op.attributes && o.operands == op.operands) return i;
  }
  same.push_back(static_cast<std::int32_t>(operators_.size()));
  operators_.push_back(std::move(op));
  return same.back();
}

int TermTable::add_leaf(const ParallelShape& shape, std::int64_t index_bound) {
  UNITY_CHECK(nodes_.empty(), "leaves come before all other values");
  RandomKey key = RandomKey(seed_).with(static_cast<std::uint64_t>(leaves_++));
  TermValue value;
  value.shape = intern(shape);
  value.logical = intern(
      Tensors{random_tensor(shape, index_bound, key.with(1), 0), random_tensor(shape, index_bound, key.with(2), 4)});
  values_.push_back(value);
  return static_cast<int>(values_.size()) - 1;
}

std::int32_t TermTable::intern(const ParallelShape& shape) {
  std::vector<std::int32_t>& same = shape_index_[hash_shape(shape)];
  for (std::int32_t i : same)
    if (shapes_[static_cast<std::size_t>(i)] == shape) return i;
  same.push_back(static_cast<std::int32_t>(shapes_.size()));
  shapes_.push_back(shape);
  return same.back();
}

std::int32_t TermTable::intern(Tensors tensors) {
  std::vector<std::int32_t>& same = tensor_index_[combine(hash_tensor(tensors.first), hash_tensor(tensors.second))];
  for (std::int32_t i : same)
    if (tensors_[static_cast<std::size_t>(i)] == tensors) return i;
  same.push_back(static_cast<std::int32_t>(tensors_.size()));
  tensors_.push_back(std::move(tensors));
  return same.back();
}

int TermTable::type(int op, std::span<const std::int32_t> inputs) {
  shape_key_.assign(1, op);
  for (std::int32_t v : inputs) shape_key_.push_back(values_[static_cast<std::size_t>(v)].shape);
  std::int32_t& known = type_index_.at(shape_key_, -2);
  if (known != -2) return known;
  const TermOperator& o = operators_[static_cast<std::size_t>(op)];
  std::vector<ParallelShape> operands;
  for (std::int32_t v : inputs) operands.push_back(shape(v));
  auto shapes = infer_parallel_shapes(*o.op, o.attributes, operands);
  if (!shapes.ok()) return known = kIllTyped;
  Ids ids;
  for (const ParallelShape& s : *shapes) ids.push_back(intern(s));
  results_.push_back(std::move(ids));
  return known = static_cast<std::int32_t>(results_.size()) - 1;
}

// Whether every operand that holds indices stays below what the operator allows.
bool TermTable::indices_fit(const TermOperator& op, std::span<const std::int32_t> inputs) const {
  std::vector<Shape> shapes;
  for (std::int32_t v : inputs) shapes.push_back(shape(v).shape());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (shapes[i].dtype != DType::i32) continue;
    auto bound = op.op->index_bound(op.attributes, shapes, i);
    const Tensors& t = tensors_[static_cast<std::size_t>(value(inputs[i]).logical)];
    if (bound)
      for (const LogicalTensor* tensor : {&t.first, &t.second})
        for (std::int64_t e = 0; e < tensor->elements(); ++e)
          if (tensor->as<std::int32_t>()[e] < 0 || tensor->as<std::int32_t>()[e] >= *bound) return false;
  }
  return true;
}

int TermTable::evaluate(int op, std::span<const std::int32_t> inputs, const Ids& shapes) {
  logical_key_.assign(1, op);
  for (std::int32_t v : inputs) logical_key_.push_back(values_[static_cast<std::size_t>(v)].logical);
  std::int32_t& known = evaluation_index_.at(logical_key_, -2);
  if (known != -2) return known;
  const TermOperator& o = operators_[static_cast<std::size_t>(op)];
  if (!indices_fit(o, inputs)) return known = kIllTyped;
  Ids ids;
  if (keeps_tensor(o)) {
    ids.push_back(logical_key_[1]);
  } else {
    std::vector<Tensors> results(shapes.size());
    for (bool first : {true, false}) {
      std::vector<Operand> operands, outputs;
      for (std::size_t i = 1; i < logical_key_.size(); ++i) {
        const Tensors& t = tensors_[static_cast<std::size_t>(logical_key_[i])];
        operands.push_back((first ? t.first : t.second).operand());
      }
      for (std::size_t r = 0; r < shapes.size(); ++r) {
        LogicalTensor& tensor = first ? results[r].first : results[r].second;
        tensor = LogicalTensor(exact_shape(shapes_[static_cast<std::size_t>(shapes[r])]));
        outputs.push_back(tensor.operand());
      }
      o.op->reference({o.attributes, operands, outputs, RandomKey(seed_)});
    }
    for (Tensors& t : results) ids.push_back(intern(std::move(t)));
  }
  results_.push_back(std::move(ids));
  return known = static_cast<std::int32_t>(results_.size()) - 1;
}

int TermTable::apply(int op, std::span<const std::int32_t> inputs) {
  key_.assign(1, op);
  key_.insert(key_.end(), inputs.begin(), inputs.end());
  if (inputs.size() == 2 && key_[1] > key_[2] && operators_[static_cast<std::size_t>(op)].op->commutative())
    std::swap(key_[1], key_[2]);
  std::span<const std::int32_t> operands(key_.data() + 1, inputs.size());
  int typed = type(op, operands);
  if (typed < 0) return kIllTyped;

  std::array<std::int32_t, kMaxTermOperators> closure{};
  std::size_t count = 0;
  for (std::int32_t v : operands) {
    const TermValue& in = values_[static_cast<std::size_t>(v)];
    for (std::int32_t i = 0; i < in.operators; ++i) {
      std::int32_t n = in.closure[static_cast<std::size_t>(i)];
      std::size_t at = 0;
      while (at < count && closure[at] < n) ++at;
      if (at < count && closure[at] == n) continue;
      if (count + 1 >= kMaxTermOperators) return kTooLarge;
      for (std::size_t k = count++; k > at; --k) closure[k] = closure[k - 1];
      closure[at] = n;
    }
  }
  Ids shapes = results_[static_cast<std::size_t>(typed)];
  int evaluated = evaluate(op, operands, shapes);
  if (evaluated < 0) return kIllTyped;
  auto next = static_cast<std::int32_t>(nodes_.size());
  std::int32_t& known = node_index_.at(key_, next);
  if (known != next) return known;
  closure[count++] = next;
  TermNode node;
  node.op = op;
  node.first_input = static_cast<std::int32_t>(inputs_.size());
  node.operands = static_cast<std::int32_t>(operands.size());
  node.first_value = static_cast<std::int32_t>(values_.size());
  node.results = static_cast<std::int32_t>(shapes.size());
  inputs_.insert(inputs_.end(), operands.begin(), operands.end());
  nodes_.push_back(node);
  for (std::size_t r = 0; r < shapes.size(); ++r)
    values_.push_back({next, static_cast<std::int32_t>(r), shapes[r], results_[static_cast<std::size_t>(evaluated)][r],
                       static_cast<std::int32_t>(count), closure});
  return next;
}

bool TermTable::constant(int v) const {
  const Tensors& t = tensors_[static_cast<std::size_t>(value(v).logical)];
  return t.first == t.second;
}

int TermTable::joint_operators(const TermValue& a, const TermValue& b) {
  std::int32_t i = 0, j = 0, n = 0;
  while (i < a.operators && j < b.operators) {
    std::int32_t x = a.closure[static_cast<std::size_t>(i)], y = b.closure[static_cast<std::size_t>(j)];
    i += x <= y, j += y <= x, ++n;
  }
  return n + (a.operators - i) + (b.operators - j);
}

}  // namespace unity
