// What is no number stays none: the reference, kernels of the CPU, and those of the CUDA backend compiled for the host.
#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

#include "runtime/cpu/kernels.h"
#include "tests/support/cuda_evaluator.h"

using namespace unity;
using namespace unity::testing;

namespace {

const double kNaN = std::numeric_limits<double>::quiet_NaN();

Evaluator cpu_evaluator() {
  return [](const Operator& op, const OpCall& call) { cpu::find_kernel(op)(call); };
}

// The first result, of operands of one dimension each or of `dims`.
std::vector<double> result_of(const Evaluator& evaluate, const std::string& name, const Attributes& given, DType type,
                              const std::vector<std::vector<double>>& operands, std::vector<Dims> dims = {}) {
  const Operator& op = get_operator(name);
  std::vector<Block> blocks;
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (dims.size() <= i) dims.push_back({static_cast<std::int64_t>(operands[i].size())});
    blocks.push_back(empty_block(type, dims[i]));
    for (std::size_t k = 0; k < operands[i].size(); ++k)
      blocks.back().set_real(static_cast<std::int64_t>(k), operands[i][k]);
    shapes.push_back({dims[i], DType::f32});
  }
  const Attributes attributes = complete_attributes(name, op.attributes(), given).value();
  const AxisTable table = op.axes(attributes, shapes).value();
  std::vector<Block> found =
      call_operator(evaluate, op, attributes, table, blocks, output_boxes(table, full_ranges(table)), type);
  std::vector<double> values;
  for (std::int64_t i = 0; i < found[0].box.elements(); ++i)
    values.push_back(found[0].dtype == DType::i32 ? found[0].operand().as<std::int32_t>()[i] : found[0].real(i));
  return values;
}

bool same(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

}  // namespace

TEST_CASE("ReLU, maxima, minima and normalised exponentials of NaN are NaN") {
  const std::vector<double> x = {kNaN, -2, 3, kNaN, -1}, y = {1, kNaN, kNaN, -4, -5};
  const Attributes along = {Dims{1}}, across = {Dims{0}};
  for (const char* who : {"reference", "cpu", "cuda"})
    for (DType type : {DType::f32, DType::f64}) {
      const bool reference = who[0] == 'r', cuda = who[1] == 'u';
      if (reference && type != DType::f64) continue;
      INFO(who << " " << to_string(type));
      auto of = [&](const std::string& name, const Attributes& attributes,
                    const std::vector<std::vector<double>>& operands, const std::vector<Dims>& dims = {}) {
        return result_of(reference ? reference_evaluator()
                         : cuda    ? kernel_evaluator()
                                   : cpu_evaluator(),
                         name, attributes, type, operands, dims);
      };
      CHECK(same(of("relu", {}, {x}), {kNaN, 0, 3, kNaN, 0}));
      CHECK(same(of("relu_gradient", {}, {x, {1, 2, 3, 4, 5}}), {1, 0, 3, 4, 0}));
      CHECK(same(of("maximum", {}, {x, y}), {kNaN, kNaN, kNaN, kNaN, -1}));
      CHECK(same(of("minimum", {}, {x, y}), {kNaN, kNaN, kNaN, kNaN, -5}));
      CHECK(same(of("matmul", {std::string("relu")}, {{kNaN, 1, -1, -2}, {1, 1}}, {{2, 2}, {2, 1}}), {kNaN, 0}));
      // Rows 1, NaN, 3 and -1, -2, -3; columns 1 and -1, NaN and -2, 3 and -3.
      const std::vector<std::vector<double>> matrix = {{1, kNaN, 3, -1, -2, -3}};
      const std::vector<Dims> dims = {{2, 3}};
      CHECK(same(of("reduce_max", along, matrix, dims), {kNaN, -1}));
      CHECK(same(of("reduce_max", across, matrix, dims), {1, kNaN, 3}));
      CHECK(same(of("reduce_max_gradient", along, {matrix[0], {kNaN, -1}, {6, 7}}, {dims[0], {2}, {2}}),
                 {0, 6, 0, 7, 0, 0}));
      CHECK(same(of("argmax", {std::int64_t{1}}, matrix, dims), {1, 0}));
      CHECK(same(of("argmax", {std::int64_t{0}}, matrix, dims), {0, 0, 0}));
      CHECK(same(of("masked_softmax", {}, {{1, kNaN, 3}, {1, 1, 0}}, {{1, 3}, {1, 3}}), {kNaN, kNaN, kNaN}));
      const std::vector<std::vector<double>> normed = {{kNaN, -2}, {1, 1}, {1, 1}, {1, 1}, {0, 0}};
      CHECK(same(of("batch_norm", {0.0, std::string("relu")}, normed, {{1, 2}, {2}, {2}, {2}, {2}}), {kNaN, 0}));
    }
}

TEST_CASE("NaN in an operand comes to the same results on the GPU as on the CPU") {
  for (const Operator* op : all_operators()) {
    if (!cpu::find_kernel(*op)) continue;
    // On the CPU these multiply by the zeros of padding and of masks, which the GPU leaves out.
    if (op->name() == "attention_gradient" || op->name().starts_with("conv2d_weight_gradient")) continue;
    for (const Example& example : op->examples()) {
      const Attributes attributes = complete_attributes(op->name(), op->attributes(), example.attributes).value();
      const AxisTable table = op->axes(attributes, example.inputs).value();
      const auto boxes = output_boxes(table, full_ranges(table));
      for (std::size_t i = 0; i < example.inputs.size(); ++i) {
        if (table.inputs[i].shape_only || example.inputs[i].dtype == DType::i32) continue;
        const std::int64_t n = element_count(example.inputs[i].dims);
        for (std::int64_t at : {std::int64_t{0}, n / 2}) {
          INFO(op->name() << " of " << to_string(example.inputs[0]) << ", element " << at << " of operand " << i);
          std::vector<Block> operands = random_operands(example, DType::f32, RandomKey(3));
          operands[i].set_real(at, kNaN);
          std::vector<Block> of_cpu =
              call_operator(cpu_evaluator(), *op, attributes, table, operands, boxes, DType::f32);
          std::vector<Block> of_gpu =
              call_operator(kernel_evaluator(), *op, attributes, table, operands, boxes, DType::f32);
          for (std::size_t o = 0; o < of_cpu.size(); ++o) {
            if (of_cpu[o].dtype == DType::i32) continue;
            std::string cpu, gpu;
            for (std::int64_t k = 0; k < of_cpu[o].box.elements(); ++k) {
              cpu += std::isnan(of_cpu[o].real(k)) ? 'N' : '.';
              gpu += std::isnan(of_gpu[o].real(k)) ? 'N' : '.';
            }
            CHECK(gpu == cpu);
          }
        }
      }
    }
  }
}
