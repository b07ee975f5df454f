// Every operator, on every example: what design, section 4, demands of it. Data are random with a fixed seed, printed
// with each failure.
#include <catch2/catch.hpp>

#include "core/ops/reference.h"
#include "runtime/cpu/kernels.h"
#include "tests/support/ops_sharded.h"

using namespace unity;
using namespace unity::testing;

namespace {

constexpr std::uint64_t kSeed = 20220711;
constexpr int kMaxTasks = 24;
const std::vector<DType> kEvaluationTypes = {DType::mod, DType::i64, DType::f64};

// Calls body(op, attributes, example, table) for every example of every operator that computes.
template <class Body>
void for_each_example(Body&& body) {
  for (const Operator* op : all_operators()) {
    std::vector<Example> examples = op->examples();
    for (std::size_t i = 0; i < examples.size(); ++i) {
      INFO(op->name() << " example " << i << ", seed " << kSeed);
      auto attributes = complete_attributes(op->name(), op->attributes(), examples[i].attributes);
      REQUIRE(attributes.ok());
      auto table = op->axes(*attributes, examples[i].inputs);
      if (!table.ok()) FAIL(table.error().message);
      body(*op, *attributes, examples[i], *table);
    }
  }
}

bool has_kernel(const Operator& op) { return cpu::find_kernel(op) != nullptr; }

RandomKey key_of(const Operator& op) { return RandomKey(kSeed).with(hash_text(op.name())); }

bool close(const Block& a, const Block& b, double tolerance) {
  return difference(a, b) <= (a.dtype == DType::f64 || a.dtype == DType::f32 ? tolerance : 0);
}

double largest(const Block& b) {
  double m = 0;
  for (std::int64_t i = 0; i < b.box.elements(); ++i) m = std::max(m, std::abs(b.real(i)));
  return m;
}

// The gradient of the unsharded operator.
std::vector<std::optional<Block>> whole_gradient(const Operator& op, const Attributes& attributes,
                                                 const AxisTable& table, std::vector<Block> inputs,
                                                 const GradientProgram& program, const std::vector<Block>& dy,
                                                 DType type) {
  auto out = call_operator(reference_evaluator(), op, attributes, table, inputs,
                           output_boxes(table, full_ranges(table)), type, key_of(op));
  return run_gradient(reference_evaluator(), program, inputs, out, dy, type);
}

std::vector<Block> random_output_gradients(const Operator& op, const Attributes& attributes, const AxisTable& table,
                                           DType type, RandomKey key) {
  std::vector<Block> dy;
  for (std::size_t o = 0; o < table.outputs.size(); ++o) {
    Shape shape = operand_shape(table, table.outputs[o]);
    // No gradient flows through indices, states and detached results.
    bool zero = shape.dtype == DType::i32 || op.detached(attributes) || op.new_state(static_cast<int>(o));
    dy.push_back(zero ? empty_block(shape.dtype == DType::i32 ? shape.dtype : type, shape.dims)
                      : random_block(shape, type, 0, key.with(1000 + o)));
  }
  return dy;
}

}  // namespace

TEST_CASE("every operator that runs has at least two examples, and its table gives back their shapes") {
  for (const Operator* op : all_operators())
    if (has_kernel(*op)) {
      INFO(op->name());
      CHECK(op->examples().size() >= 2);
    }
  for_each_example(
      [](const Operator& op, const Attributes& attributes, const Example& example, const AxisTable& table) {
        REQUIRE(table.inputs.size() == example.inputs.size());
        for (std::size_t i = 0; i < example.inputs.size(); ++i)
          CHECK(operand_shape(table, table.inputs[i]) == example.inputs[i]);
        auto shapes = infer_shapes(op, attributes, example.inputs);
        REQUIRE(shapes.ok());
        // call_operator throws when the evaluator leaves elements of these shapes unwritten or writes past them.
        for (DType type : kEvaluationTypes) {
          auto in = random_operands(example, type, key_of(op));
          auto out = call_operator(reference_evaluator(), op, attributes, table, in,
                                   output_boxes(table, full_ranges(table)), type, key_of(op));
          REQUIRE(out.size() == shapes->size());
          for (std::size_t o = 0; o < out.size(); ++o) CHECK(out[o].global == (*shapes)[o].dims);
        }
      });
}

TEST_CASE("every legal sharding is read off its operands' parallel shapes") {
  for_each_example([](const Operator& op, const Attributes&, const Example& example, const AxisTable& table) {
    if (example.inputs.empty()) return;
    for (const Distribution& d : distributions(table, kMaxTasks)) {
      INFO(to_string(table, d));
      std::vector<ParallelShape> shapes;
      for (std::size_t i = 0; i < table.inputs.size(); ++i)
        shapes.push_back(required_input_shape(table, d.sharding, i, d.partial[i]));
      auto sharding = infer_sharding(op.name(), table, shapes);
      if (!sharding.ok()) FAIL(sharding.error().message);
      CHECK(*sharding == d.sharding);
    }
  });
}

TEST_CASE("no operands split an axis that cannot be split, nor take micro-batches of it") {
  int refused = 0;
  for_each_example([&](const Operator& op, const Attributes&, const Example&, const AxisTable& table) {
    for (int axis = 0; axis < static_cast<int>(table.axes.size()); ++axis) {
      if (can_split(table, axis) || table.axes[static_cast<std::size_t>(axis)].size < 2) continue;
      for (int micro : {1, 2}) {
        std::vector<ParallelShape> shapes;
        bool any = false;
        for (const OperandAxes& operand : table.inputs) {
          ParallelShape& shape = shapes.emplace_back(serial(operand_shape(table, operand)));
          bool splits = false;
          for (std::size_t j = 0; j < operand.dims.size(); ++j) {
            if (split_axis(table, operand.dims[j]) != axis) continue;
            shape.dims[j].degree = 3 - micro, shape.dims[j].micro = micro;
            splits = true;
          }
          if (!splits && micro == 1) shape.copies = 2;
          any = any || splits;
        }
        if (!any) continue;
        INFO(op.name() << ", axis " << table.axes[static_cast<std::size_t>(axis)].name);
        CHECK(!infer_sharding(op.name(), table, shapes).ok());
        ++refused;
      }
    }
  });
  CHECK(refused > 40);
}

TEST_CASE("every legal sharding, put together, equals the unsharded result") {
  for_each_example(
      [](const Operator& op, const Attributes& attributes, const Example& example, const AxisTable& table) {
        std::size_t count = 0;
        for (DType type : kEvaluationTypes) {
          auto whole = random_operands(example, type, key_of(op));
          auto expected = call_operator(reference_evaluator(), op, attributes, table, whole,
                                        output_boxes(table, full_ranges(table)), type, key_of(op));
          for (const Distribution& d : distributions(table, kMaxTasks)) {
            INFO(to_string(table, d) << " in " << to_string(type));
            auto found = run_sharded(reference_evaluator(), op, attributes, table, d, distribute(whole, d, key_of(op)),
                                     type, key_of(op));
            for (std::size_t o = 0; o < expected.size(); ++o) {
              INFO("result " << o);
              if (!close(found[o], expected[o], 1e-12)) FAIL("differs by " << difference(found[o], expected[o]));
            }
            ++count;
          }
        }
        CHECK(count > kEvaluationTypes.size());  // more than the trivial one
      });
}

TEST_CASE("the gradient of every legal sharding, put together, equals the unsharded gradient") {
  for_each_example(
      [](const Operator& op, const Attributes& attributes, const Example& example, const AxisTable& table) {
        GradientProgram program = full_gradient(op, attributes, example.inputs);
        if (program.steps.empty() &&
            program.input_gradients == std::vector<std::optional<GradientValue>>(example.inputs.size()))
          return;
        for (DType type : kEvaluationTypes) {
          auto whole = random_operands(example, type, key_of(op));
          auto dy = random_output_gradients(op, attributes, table, type, key_of(op));
          auto expected = whole_gradient(op, attributes, table, whole, program, dy, type);
          for (const Distribution& d : distributions(table, kMaxTasks)) {
            INFO(to_string(table, d) << " in " << to_string(type));
            auto found = run_sharded_gradient(reference_evaluator(), op, attributes, table, d,
                                              distribute(whole, d, key_of(op)), program, dy, type, key_of(op));
            for (std::size_t i = 0; i < expected.size(); ++i) {
              REQUIRE(found[i].has_value() == expected[i].has_value());
              INFO("operand " << i);
              if (expected[i] && !close(*found[i], *expected[i], 1e-12))
                FAIL("differs by " << difference(*found[i], *expected[i]));
            }
          }
        }
      });
}

TEST_CASE("every forward operator's gradient equals central differences, where there is none they are zero") {
  for_each_example(
      [](const Operator& op, const Attributes& attributes, const Example& example, const AxisTable& table) {
        // Forms that add to a sum are for backward passes.
        if (op.name().find("_gradient") != std::string::npos || op.accumulates() || example.inputs.empty()) return;
        GradientProgram program = full_gradient(op, attributes, example.inputs);
        auto whole = random_operands(example, DType::f64, key_of(op));
        auto dy = random_output_gradients(op, attributes, table, DType::f64, key_of(op));
        auto found = whole_gradient(op, attributes, table, whole, program, dy, DType::f64);
        auto loss = [&](std::vector<Block> in) {  // sum of dy y, over the results that have gradients
          auto y = call_operator(reference_evaluator(), op, attributes, table, in,
                                 output_boxes(table, full_ranges(table)), DType::f64, key_of(op));
          double sum = 0;
          for (std::size_t o = 0; o < y.size(); ++o)
            for (std::int64_t i = 0; y[o].dtype == DType::f64 && i < y[o].box.elements(); ++i)
              sum += y[o].real(i) * dy[o].real(i);
          return sum;
        };
        for (std::size_t i = 0; i < whole.size(); ++i) {
          INFO("operand " << i);
          if (found[i]) CHECK((example.inputs[i].dtype != DType::i32 && !table.inputs[i].shape_only));
          if (example.inputs[i].dtype == DType::i32 || table.inputs[i].shape_only) continue;
          constexpr double kStep = 1e-5;
          for (std::int64_t e = 0; e < whole[i].box.elements(); ++e) {
            auto shifted = whole;
            shifted[i].set_real(e, whole[i].real(e) + kStep);
            double above = loss(shifted);
            shifted[i].set_real(e, whole[i].real(e) - kStep);
            double slope = (above - loss(shifted)) / (2 * kStep), gradient = found[i] ? found[i]->real(e) : 0;
            if (std::abs(slope - gradient) > 1e-6 * std::max(1.0, std::abs(gradient)))
              FAIL("element " << e << ": gradient " << gradient << ", difference quotient " << slope);
          }
        }
      });
}

TEST_CASE("a gradient goes through a choice once, whatever number its condition is") {
  const Operator& where = get_operator("where");
  std::vector<Block> in = {empty_block(DType::i32, Dims{3}), empty_block(DType::f64, Dims{3}),
                           empty_block(DType::f64, Dims{3})};
  for (int i = 0; i < 3; ++i) in[0].operand().as<std::int32_t>()[i] = 5 * i - 5;  // -5, 0, 5
  std::vector<Block> dy = {empty_block(DType::f64, Dims{3})};
  for (int i = 0; i < 3; ++i) dy[0].set_real(i, 7);
  auto found = run_gradient(reference_evaluator(),
                            full_gradient(where, {}, {{{3}, DType::i32}, {{3}, DType::f32}, {{3}, DType::f32}}), in,
                            {dy[0]}, dy, DType::f64);
  for (int i = 0; i < 3; ++i) {
    CHECK(found[1]->real(i) == (i == 1 ? 0 : 7));
    CHECK(found[2]->real(i) == (i == 1 ? 7 : 0));
  }
}

TEST_CASE("the gradient of the power 0 is 0, at 0 too") {
  std::vector<Block> x = {empty_block(DType::f64, Dims{2})}, dy = {empty_block(DType::f64, Dims{2})};
  for (int i = 0; i < 2; ++i) x[0].set_real(i, i), dy[0].set_real(i, 3);
  auto found = run_gradient(reference_evaluator(), full_gradient(get_operator("power"), {0.0}, {{{2}, DType::f32}}), x,
                            {dy[0]}, dy, DType::f64);
  for (int i = 0; i < 2; ++i) CHECK(found[0]->real(i) == 0);
}

TEST_CASE("FLOPs are additive over the shards, but for declared redundancy") {
  for_each_example([](const Operator&, const Attributes&, const Example&, const AxisTable& table) {
    double all = flops(table, full_ranges(table));
    for (const Distribution& d : distributions(table, kMaxTasks)) {
      INFO(to_string(table, d));
      TaskGrid grid = task_grid(table, d.sharding);
      double sum = 0;
      for (int task = 0; task < task_count(grid); ++task)
        sum += flops(table, task_ranges(table, d.sharding, grid, grid_coordinates(grid, task)));
      CHECK(sum == Approx(all * d.sharding.passing * d.sharding.copies).epsilon(1e-12));
    }
  });
}

TEST_CASE("CPU kernels agree with the reference on every shard") {
  for_each_example([](const Operator& op, const Attributes& attributes, const Example& example,
                      const AxisTable& table) {
    cpu::Kernel kernel = cpu::find_kernel(op);
    REQUIRE(kernel != nullptr);
    Evaluator run = [kernel](const Operator&, const OpCall& call) { kernel(call); };
    // Single-precision data held in f64, so that both see the same operands.
    auto whole = random_operands(example, DType::f32, key_of(op));
    for (Block& b : whole) b = converted(b, DType::f64);
    for (const Distribution& d : distributions(table, kMaxTasks)) {
      if (d.sharding.copies > 1 || d.sharding.passing > 1) continue;  // the same blocks again
      INFO(to_string(table, d));
      DistributedInputs inputs = distribute(whole, d, key_of(op));
      TaskGrid grid = task_grid(table, d.sharding);
      for (int task = 0; task < task_count(grid); ++task) {
        auto in = task_inputs(table, d, inputs, grid, task), single = in;
        for (Block& b : single) b = converted(b, DType::f32);
        auto boxes = output_boxes(table, task_ranges(table, d.sharding, grid, grid_coordinates(grid, task)));
        auto expected = call_operator(reference_evaluator(), op, attributes, table, in, boxes, DType::f64, key_of(op));
        auto f64 = call_operator(run, op, attributes, table, in, boxes, DType::f64, key_of(op));
        auto f32 = call_operator(run, op, attributes, table, single, boxes, DType::f32, key_of(op));
        for (std::size_t o = 0; o < expected.size(); ++o) {
          double size = std::max(1.0, largest(expected[o]));
          if (!close(f64[o], expected[o], 1e-12 * size)) FAIL("f64 differs by " << difference(f64[o], expected[o]));
          double error = difference(converted(f32[o], DType::f64), expected[o]);
          if (!(error <= 1e-5 * size)) FAIL("f32 differs by " << error);
        }
      }
    }
  });
}

TEST_CASE(
    "gradients by CPU kernels on the blocks of every legal sharding, put together, equal the unsharded gradient") {
  for_each_example(
      [](const Operator& op, const Attributes& attributes, const Example& example, const AxisTable& table) {
        GradientProgram program = full_gradient(op, attributes, example.inputs);
        if (program.steps.empty()) return;
        Evaluator run = [](const Operator& step, const OpCall& call) { cpu::find_kernel(step)(call); };
        auto whole = random_operands(example, DType::f64, key_of(op));
        auto dy = random_output_gradients(op, attributes, table, DType::f64, key_of(op));
        auto expected = whole_gradient(op, attributes, table, whole, program, dy, DType::f64);
        for (const Distribution& d : distributions(table, kMaxTasks)) {
          if (d.sharding.copies > 1 || d.sharding.passing > 1) continue;  // the same blocks again
          INFO(to_string(table, d));
          auto found = run_sharded_gradient(run, op, attributes, table, d, distribute(whole, d, key_of(op)), program,
                                            dy, DType::f64, key_of(op));
          for (std::size_t i = 0; i < expected.size(); ++i) {
            INFO("operand " << i);
            if (expected[i] && !close(*found[i], *expected[i], 1e-11 * std::max(1.0, largest(*expected[i]))))
              FAIL("differs by " << difference(*found[i], *expected[i]));
          }
        }
      });
}
