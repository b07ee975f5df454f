#include "tests/support/ops_sharded.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "core/ops/reference.h"
#include "runtime/cpu/blocks.h"

namespace unity::testing {
namespace {

template <class Body>
void visit(DType type, Body&& body) {
  switch (type) {
    case DType::f32:
      return body.template operator()<float>();
    case DType::f64:
      return body.template operator()<double>();
    case DType::i32:
      return body.template operator()<std::int32_t>();
    case DType::i64:
      return body.template operator()<std::int64_t>();
    case DType::mod:
      return body.template operator()<Mod>();
    case DType::bf16:
      UNITY_CHECK(false, "blocks of tests do not hold bf16");
  }
}

template <class T>
T* data(Block& b) {
  return reinterpret_cast<T*>(b.words.data());
}
template <class T>
const T* data(const Block& b) {
  return reinterpret_cast<const T*>(b.words.data());
}

DType held_as(DType declared, DType real_type) { return declared == DType::i32 ? DType::i32 : real_type; }

// A pattern that is no plausible value in either half, so that an element that is not written shows.
constexpr std::uint64_t kUnwritten = 0x7b4d5e6f7b4d5e6f;

// How often each element of a tensor was written.
class Coverage {
 public:
  explicit Coverage(const Dims& dims) : counts_(empty_block(DType::i64, dims)) {}
  void add(const Box& box) {
    Block ones = empty_block(DType::i64, box, counts_.global);
    std::fill(ones.words.begin(), ones.words.end(), 1);
    add_into(counts_, ones);
  }
  bool once() const {
    return std::all_of(counts_.words.begin(), counts_.words.end(), [](std::uint64_t n) { return n == 1; });
  }

 private:
  Block counts_;
};

// Random summands that add up to `whole`.
std::vector<Block> summands_of(const Block& whole, int count, RandomKey key) {
  std::vector<Block> parts;
  Block rest = whole;
  for (int i = 1; i < count; ++i) {
    parts.push_back(random_block({whole.box.extent, whole.dtype}, whole.dtype, 0, key.with(static_cast<Hash>(i))));
    add_into(rest, parts.back(), -1);
  }
  parts.push_back(rest);
  return parts;
}

}  // namespace

Operand Block::operand(bool shape_only) {
  return {shape_only ? nullptr : words.data(), dtype, box.extent, box.offset, global};
}
double Block::real(std::int64_t i) const {
  return dtype == DType::f32 ? static_cast<double>(data<float>(*this)[i]) : data<double>(*this)[i];
}
void Block::set_real(std::int64_t i, double value) {
  if (dtype == DType::f32)
    data<float>(*this)[i] = static_cast<float>(value);
  else
    data<double>(*this)[i] = value;
}

Block empty_block(DType dtype, Box box, Dims global) {
  Block b{dtype, std::move(box), std::move(global), {}};
  b.words.assign(static_cast<std::size_t>((b.box.elements() * size_of(dtype) + 7) / 8), 0);
  return b;
}
Block empty_block(DType dtype, const Dims& global) { return empty_block(dtype, whole_box(global), global); }

Block cut(const Block& whole, const Box& box) {
  Block b = empty_block(whole.dtype, box, whole.global);
  cpu::copy_block(b.words.data(), box, whole.words.data(), whole.box, box, whole.dtype);
  return b;
}

Block random_block(const Shape& shape, DType real_type, std::int64_t index_bound, RandomKey key) {
  Block b = empty_block(held_as(shape.dtype, real_type), shape.dims);
  for (std::int64_t i = 0; i < shape.elements(); ++i) {
    auto n = static_cast<std::uint64_t>(i);
    auto integer = static_cast<std::int64_t>(random_below(key, n, 9)) - 4;
    switch (b.dtype) {
      case DType::f32:
      case DType::f64:
        b.set_real(i, 2 * random_uniform(key, n) - 1);
        break;
      case DType::i32:
        data<std::int32_t>(b)[i] = static_cast<std::int32_t>(random_below(key, n, static_cast<Hash>(index_bound)));
        break;
      case DType::i64:
        data<std::int64_t>(b)[i] = integer;
        break;
      case DType::mod:
        data<Mod>(b)[i] = Mod(integer);
        break;
      case DType::bf16:
        UNITY_CHECK(false, "blocks of tests do not hold bf16");
    }
  }
  return b;
}

std::vector<Block> random_operands(const Example& example, DType real_type, RandomKey key) {
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < example.inputs.size(); ++i)
    blocks.push_back(random_block(example.inputs[i], real_type, example.index_bound, key.with(i)));
  for (Block& b : blocks)
    for (std::int64_t i = 0; (b.dtype == DType::f32 || b.dtype == DType::f64) && i < b.box.elements(); ++i)
      b.set_real(i, example.low + (b.real(i) + 1) / 2 * (example.high - example.low));
  return blocks;
}

void add_into(Block& sum, const Block& summand, int sign) {
  const Box& s = sum.box;
  visit(sum.dtype, [&]<class T>() {
    for_each_index(summand.box.extent, [&](const Dims& index, std::int64_t i) {
      Dims at = index;
      for (std::size_t d = 0; d < at.size(); ++d) at[d] += summand.box.offset[d] - s.offset[d];
      T& target = data<T>(sum)[position(s.extent, at)];
      if (sign > 0)
        target += data<T>(summand)[i];
      else
        target -= data<T>(summand)[i];
    });
  });
}

void fold_into(Block& whole, const Block& partial, Monoid monoid) {
  if (monoid == Monoid::sum) return add_into(whole, partial);
  visit(whole.dtype, [&]<class T>() {
    for (std::int64_t i = 0; i < whole.box.elements(); ++i)
      if (greater(data<T>(partial)[i], data<T>(whole)[i])) data<T>(whole)[i] = data<T>(partial)[i];
  });
}

double difference(const Block& a, const Block& b) {
  if (a.dtype != b.dtype || !(a.box == b.box)) throw std::runtime_error("compared blocks of different type or place");
  double worst = 0;
  visit(a.dtype, [&]<class T>() {
    for (std::int64_t i = 0; i < a.box.elements(); ++i) {
      T x = data<T>(a)[i], y = data<T>(b)[i];
      if constexpr (std::is_floating_point_v<T>) {
        double d = std::abs(static_cast<double>(x) - static_cast<double>(y));
        worst = d <= worst ? worst : std::isnan(d) ? HUGE_VAL : d;
      } else if (!(x == y)) {
        worst = 1;
      }
    }
  });
  return worst;
}

Block converted(const Block& block, DType real_type) {
  if (block.dtype == DType::i32) return block;
  Block b = empty_block(real_type, block.box, block.global);
  for (std::int64_t i = 0; i < block.box.elements(); ++i) b.set_real(i, block.real(i));
  return b;
}

Evaluator reference_evaluator() {
  return [](const Operator& op, const OpCall& call) { op.reference(call); };
}

std::vector<Block> call_operator(const Evaluator& evaluate, const Operator& op, const Attributes& attributes,
                                 const AxisTable& table, std::vector<Block>& inputs, const std::vector<Box>& boxes,
                                 DType real_type, RandomKey random) {
  std::vector<Operand> in, out;
  for (std::size_t i = 0; i < inputs.size(); ++i) in.push_back(inputs[i].operand(table.inputs[i].shape_only));
  std::vector<Block> results;
  for (std::size_t o = 0; o < table.outputs.size(); ++o) {
    Shape shape = operand_shape(table, table.outputs[o]);
    results.push_back(empty_block(held_as(shape.dtype, real_type), boxes[o], shape.dims));
    results.back().words.push_back(0);
    std::fill(results.back().words.begin(), results.back().words.end(), kUnwritten);
  }
  for (Block& r : results) out.push_back(r.operand());
  evaluate(op, OpCall{attributes, in, out, random});
  for (Block& r : results) {
    auto size = static_cast<std::size_t>(size_of(r.dtype)), n = static_cast<std::size_t>(r.box.elements());
    const char* bytes = reinterpret_cast<const char*>(r.words.data());
    auto unwritten = [&](std::size_t i) { return std::memcmp(bytes + i * size, &kUnwritten, size) == 0; };
    for (std::size_t i = 0; i < n; ++i)
      if (unwritten(i))
        throw std::runtime_error(fmt::format("{} did not write element {} of its result", op.name(), i));
    if (!unwritten(n)) throw std::runtime_error(op.name() + " wrote past the end of its result");
    r.words.pop_back();
  }
  return results;
}

std::string to_string(const AxisTable& table, const Distribution& d) {
  std::string text;
  for (std::size_t a = 0; a < table.axes.size(); ++a)
    text += fmt::format("{}/{} ", table.axes[a].name, d.sharding.degrees[a]);
  text += fmt::format("copies {} passing {}", d.sharding.copies, d.sharding.passing);
  for (std::size_t i = 0; i < d.partial.size(); ++i)
    if (d.partial[i]) text += fmt::format(" operand {} partial", i);
  return text;
}

std::vector<Distribution> distributions(const AxisTable& table, int max_tasks) {
  std::vector<std::vector<bool>> partials = {std::vector<bool>(table.inputs.size(), false)};
  if (table.linearity == Linearity::joint) {
    partials.emplace_back(table.inputs.size(), false);
    for (std::size_t i = 0; i < table.inputs.size(); ++i) partials.back()[i] = table.inputs[i].linear;
  } else if (table.linearity == Linearity::multilinear) {
    for (std::size_t i = 0; i < table.inputs.size(); ++i) {
      if (!table.inputs[i].linear) continue;
      partials.emplace_back(table.inputs.size(), false);
      partials.back()[i] = true;
    }
  }
  std::vector<int> ones(table.axes.size(), 1);
  std::vector<Sharding> shardings = {Sharding{ones, ones, 1, 1}};
  for (std::size_t a = 0; a < table.axes.size(); ++a) {
    if (!can_split(table, static_cast<int>(a))) continue;
    bool uneven = table.axes[a].role == AxisRole::window;
    for (std::size_t i = 0, n = shardings.size(); i < n; ++i)
      for (int degree : {2, 3}) {
        Sharding s = shardings[i];
        s.degrees[a] = degree;
        std::int64_t size = table.axes[a].size;
        if ((uneven ? size >= degree : size % degree == 0) && s.tasks() <= max_tasks) shardings.push_back(s);
      }
  }
  std::vector<Distribution> result;
  for (const Sharding& s : shardings)
    for (const std::vector<bool>& partial : partials)
      for (int copies : {1, 2}) {
        Distribution d{s, partial};
        d.sharding.copies = copies;
        d.sharding.passing = std::find(partial.begin(), partial.end(), true) == partial.end() ? 1 : 2;
        if (d.sharding.tasks() <= max_tasks && !(copies > 1 && table.inputs.empty())) result.push_back(d);
      }
  return result;
}

DistributedInputs distribute(const std::vector<Block>& whole, const Distribution& d, RandomKey key) {
  DistributedInputs inputs{whole, {}};
  for (std::size_t i = 0; i < whole.size(); ++i)
    inputs.summands.push_back(summands_of(whole[i], d.partial[i] ? d.sharding.passing : 1, key.with(i)));
  return inputs;
}

std::vector<Block> task_inputs(const AxisTable& table, const Distribution& d, const DistributedInputs& inputs,
                               const TaskGrid& grid, int task) {
  std::vector<int> at = grid_coordinates(grid, task);
  std::vector<Range> ranges = task_ranges(table, d.sharding, grid, at);
  std::vector<Block> blocks;
  for (std::size_t i = 0; i < table.inputs.size(); ++i) {
    std::size_t summand = d.partial[i] ? static_cast<std::size_t>(passing_partial(grid, at)) : 0;
    blocks.push_back(cut(inputs.summands[i][summand], operand_box(table, table.inputs[i], ranges)));
  }
  return blocks;
}

std::vector<Box> output_boxes(const AxisTable& table, const std::vector<Range>& ranges) {
  std::vector<Box> boxes;
  for (const OperandAxes& output : table.outputs) boxes.push_back(operand_box(table, output, ranges));
  return boxes;
}

std::vector<Block> run_sharded(const Evaluator& evaluate, const Operator& op, const Attributes& attributes,
                               const AxisTable& table, const Distribution& d, const DistributedInputs& inputs,
                               DType real_type, RandomKey random) {
  TaskGrid grid = task_grid(table, d.sharding);
  // Per output, copy and summand.
  std::vector<std::vector<std::vector<Block>>> parts;
  std::vector<std::vector<std::vector<Coverage>>> covered;
  for (std::size_t o = 0; o < table.outputs.size(); ++o) {
    ParallelShape shape = output_parallel_shape(table, d.sharding, o);
    Dims dims = shape.shape().dims;
    auto copies = static_cast<std::size_t>(shape.copies), partials = static_cast<std::size_t>(shape.partials);
    parts.emplace_back(copies, std::vector<Block>(partials, empty_block(held_as(shape.dtype, real_type), dims)));
    covered.emplace_back(copies, std::vector<Coverage>(partials, Coverage(dims)));
  }
  for (int task = 0; task < task_count(grid); ++task) {
    std::vector<int> at = grid_coordinates(grid, task);
    std::vector<Block> in = task_inputs(table, d, inputs, grid, task);
    std::vector<Box> boxes = output_boxes(table, task_ranges(table, d.sharding, grid, at));
    std::vector<Block> out = call_operator(evaluate, op, attributes, table, in, boxes, real_type, random);
    for (std::size_t o = 0; o < out.size(); ++o) {
      auto copy = static_cast<std::size_t>(output_copy(grid, at));
      auto partial = static_cast<std::size_t>(output_partial(table, grid, at, o));
      add_into(parts.at(o).at(copy).at(partial), out[o]);
      covered.at(o).at(copy).at(partial).add(boxes[o]);
    }
  }
  std::vector<Block> results;
  for (std::size_t o = 0; o < parts.size(); ++o) {
    std::vector<Block> sums;
    for (std::size_t c = 0; c < parts[o].size(); ++c) {
      sums.push_back(parts[o][c][0]);
      for (std::size_t p = 0; p < parts[o][c].size(); ++p) {
        if (p > 0) fold_into(sums.back(), parts[o][c][p], output_parallel_shape(table, d.sharding, o).monoid);
        if (!covered[o][c][p].once())
          throw std::runtime_error(fmt::format("{}: the tasks leave gaps in, or overlap on, result {}", op.name(), o));
      }
      if (difference(sums[0], sums.back()) != 0) throw std::runtime_error(op.name() + ": copies of a result differ");
    }
    results.push_back(sums[0]);
  }
  return results;
}

GradientProgram full_gradient(const Operator& op, const Attributes& attributes, const std::vector<Shape>& inputs) {
  auto outputs = infer_shapes(op, attributes, inputs);
  std::vector<bool> wanted;
  for (const Shape& s : inputs) wanted.push_back(s.dtype != DType::i32);
  GradientBuilder builder(inputs, *outputs, wanted);
  op.gradient(attributes, builder);
  return std::move(builder).take();
}

std::vector<std::optional<Block>> run_gradient(const Evaluator& evaluate, const GradientProgram& program,
                                               std::vector<Block> inputs, std::vector<Block> outputs,
                                               std::vector<Block> output_gradients, DType real_type) {
  std::vector<std::vector<Block>> steps;
  auto value = [&](GradientValue v) -> Block& {
    auto i = static_cast<std::size_t>(v.index);
    switch (v.kind) {
      case GradientValue::Kind::input:
        return inputs.at(i);
      case GradientValue::Kind::output:
        return outputs.at(i);
      case GradientValue::Kind::output_gradient:
        return output_gradients.at(i);
      case GradientValue::Kind::step:
        break;
    }
    return steps.at(i).at(static_cast<std::size_t>(v.result));
  };
  for (const GradientStep& step : program.steps) {
    std::vector<Shape> shapes;
    std::vector<const Box*> boxes;
    std::vector<Block> operands;
    for (GradientValue v : step.inputs) {
      Block& b = value(v);
      shapes.push_back({b.global, b.dtype == DType::i32 ? DType::i32 : DType::f32});
      boxes.push_back(&b.box);
      operands.push_back(b);
    }
    AxisTable table = *step.op->axes(step.attributes, shapes);
    std::vector<Range> ranges = *axis_ranges(table, boxes);
    steps.push_back(
        call_operator(evaluate, *step.op, step.attributes, table, operands, output_boxes(table, ranges), real_type));
  }
  std::vector<std::optional<Block>> gradients;
  for (std::size_t i = 0; i < program.input_gradients.size(); ++i) {
    gradients.emplace_back();
    if (!program.input_gradients[i]) continue;
    gradients.back() = value(*program.input_gradients[i]);
    if (!(gradients.back()->box == inputs[i].box))
      throw std::runtime_error(fmt::format("the gradient of operand {} covers {}, expected {}", i,
                                           unity::to_string(gradients.back()->box), unity::to_string(inputs[i].box)));
  }
  return gradients;
}

std::vector<std::optional<Block>> run_sharded_gradient(const Evaluator& evaluate, const Operator& op,
                                                       const Attributes& attributes, const AxisTable& table,
                                                       const Distribution& d, const DistributedInputs& inputs,
                                                       const GradientProgram& program,
                                                       const std::vector<Block>& output_gradients, DType real_type,
                                                       RandomKey key) {
  TaskGrid grid = task_grid(table, d.sharding);
  std::vector<std::vector<Block>> seeds;
  for (std::size_t o = 0; o < output_gradients.size(); ++o)
    seeds.push_back(summands_of(output_gradients[o], d.sharding.copies, key.with(o)));
  // Per operand and summand of it: the sum over the tasks.
  std::vector<std::vector<Block>> sums;
  for (std::size_t i = 0; i < inputs.whole.size(); ++i)
    sums.emplace_back(d.partial[i] ? static_cast<std::size_t>(d.sharding.passing) : 1,
                      empty_block(real_type, inputs.whole[i].global));
  for (int task = 0; task < task_count(grid); ++task) {
    std::vector<int> at = grid_coordinates(grid, task);
    std::vector<Block> in = task_inputs(table, d, inputs, grid, task);
    std::vector<Box> boxes = output_boxes(table, task_ranges(table, d.sharding, grid, at));
    std::vector<Block> out = call_operator(evaluate, op, attributes, table, in, boxes, real_type), dy;
    for (std::size_t o = 0; o < out.size(); ++o)
      dy.push_back(cut(seeds[o][static_cast<std::size_t>(output_copy(grid, at))], boxes[o]));
    auto gradients = run_gradient(evaluate, program, in, out, dy, real_type);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (gradients[i])
        add_into(sums[i][d.partial[i] ? static_cast<std::size_t>(passing_partial(grid, at)) : 0], *gradients[i]);
  }
  std::vector<std::optional<Block>> result;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    result.emplace_back();
    if (!program.input_gradients[i]) continue;
    for (const Block& s : sums[i])
      if (difference(s, sums[i][0]) > 1e-12)
        throw std::runtime_error(fmt::format("{}: the gradients of operand {}'s summands differ", op.name(), i));
    result.back() = sums[i][0];
  }
  return result;
}

}  // namespace unity::testing
