// Every operator on a GPU: each example and each block of each sharding, forward and (as operators of their own)
// gradients, against the CPU in double precision. The same comparison runs with the CPU in single precision, so that
// it is itself tested where there is no GPU.
#include <bit>
#include <cstdlib>

#include <catch2/catch.hpp>

#include "runtime/executor.h"
#include "tests/device/gpu.h"
#include "tests/support/ops_sharded.h"
#include "tests/support/runtime_program.h"

using namespace unity;
using namespace unity::test;

namespace {

constexpr std::uint64_t kSeed = 20220711;
constexpr int kMaxTasks = 12;

// One program of independent tasks: every block of every sharding of every example of one operator.
struct Cases {
  ProgramByHand program;
  std::map<std::string, HostTensor> inputs;
  std::vector<std::string> names;  // by output of the program
};

// x as bf16 holds it: rounded to nearest, ties to even.
double rounded_to_bf16(double x) {
  auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));
  bits += 0x7fff + (bits >> 16 & 1);
  return std::bit_cast<float>(bits & 0xffff0000);
}

// Values that both backends hold exactly. Where only one rounds its operands, results differ by what the operator makes
// of that: the gradient of group norm over two nearly equal elements by a tenth, for two operands off by 2^-9.
HostTensor to_host(const testing::Block& block, Precision precision) {
  HostTensor t = block.dtype == DType::i32 ? index_tensor(block.global) : real_tensor(block.global);
  for (std::int64_t i = 0; i < block.box.elements(); ++i) {
    if (block.dtype == DType::i32)
      t.indices[static_cast<std::size_t>(i)] = reinterpret_cast<const std::int32_t*>(block.words.data())[i];
    else
      t.reals[static_cast<std::size_t>(i)] =
          precision == Precision::bf16 ? rounded_to_bf16(block.real(i)) : block.real(i);
  }
  return t;
}

void add_example(Cases& cases, const Operator& op, const Example& example, std::size_t number, Precision precision) {
  ProgramByHand& h = cases.program;
  Attributes attributes = complete_attributes(op.name(), op.attributes(), example.attributes).value();
  AxisTable table = op.axes(attributes, example.inputs).value();
  std::vector<testing::Block> whole =
      testing::random_operands(example, DType::f32, RandomKey(kSeed).with(hash_text(op.name())));
  std::vector<std::int32_t> tensors;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string name = fmt::format("{}.{}.operand{}", op.name(), number, i);
    std::string dtype(to_string(whole[i].dtype == DType::i32 ? DType::i32 : DType::f32));
    tensors.push_back(h.leaf(name, "input", {whole[i].global, dtype}, OriginId(static_cast<std::int64_t>(i))));
    h.program.tensors.back().dtype = whole[i].dtype == DType::i32 ? DType::i32 : DType::f32;
    cases.inputs.emplace(name, to_host(whole[i], precision));
  }
  std::vector<bool> shape_only;
  for (const OperandAxes& operand : table.inputs) shape_only.push_back(operand.shape_only);
  auto op_index = static_cast<std::int32_t>(h.program.ops.size());
  h.program.ops.push_back(
      {&op, attributes, OriginId(7), op.name(), static_cast<std::uint32_t>(whole.size()), shape_only});
  for (const testing::Distribution& d : testing::distributions(table, kMaxTasks)) {
    if (d.sharding.copies > 1 || d.sharding.passing > 1) continue;  // the same blocks again
    testing::DistributedInputs inputs = testing::distribute(whole, d, RandomKey(kSeed));
    TaskGrid grid = task_grid(table, d.sharding);
    for (int task = 0; task < task_count(grid); ++task) {
      std::vector<BufferId> operands;
      auto blocks = testing::task_inputs(table, d, inputs, grid, task);
      for (std::size_t i = 0; i < blocks.size(); ++i)
        operands.push_back(h.buffer(tensors[i], 0, blocks[i].box, BufferCategory::input));
      auto boxes = testing::output_boxes(table, task_ranges(table, d.sharding, grid, grid_coordinates(grid, task)));
      for (std::size_t o = 0; o < boxes.size(); ++o) {
        Shape shape = operand_shape(table, table.outputs[o]);
        std::string name = fmt::format("{} example {}, {} task {}, result {}", op.name(), number,
                                       testing::to_string(table, d), task, o);
        std::int32_t tensor = h.tensor(name, shape.dims);
        h.program.tensors.back().dtype = shape.dtype == DType::i32 ? DType::i32 : DType::f32;
        operands.push_back(h.buffer(tensor, 0, boxes[o]));
        h.program.outputs.push_back({name, shape.dims, {operands.back()}});
      }
      h.run(op_index, operands);
    }
  }
}

Cases cases_of(const Operator& op, const std::vector<Example>& examples, Precision precision) {
  Cases cases;
  cases.program.program.name = op.name();
  for (std::size_t i = 0; i < examples.size(); ++i) add_example(cases, op, examples[i], i, precision);
  return cases;
}

std::vector<HostTensor> results(const Cases& cases, const ExecutorOptions& options) {
  Executor executor(cases.program.program, options);
  for (const auto& [name, value] : cases.inputs) executor.set_input(name, value);
  executor.step();
  std::vector<HostTensor> all;
  for (std::size_t o = 0; o < cases.program.program.outputs.size(); ++o) all.push_back(executor.output(o));
  return all;
}

// The largest difference, relative to the largest value (at least 1).
void check_operator(const Operator& op, const std::vector<Example>& examples, const std::string& backend,
                    Precision precision, double tolerance) {
  Cases cases = cases_of(op, examples, precision);
  if (cases.program.program.tasks.empty()) return;
  std::vector<HostTensor> expected = results(cases, {"cpu", Precision::f64, kSeed});
  std::vector<HostTensor> found = results(cases, {backend, precision, kSeed});
  for (std::size_t o = 0; o < expected.size(); ++o) {
    double largest = 1, off = 0;
    for (std::size_t i = 0; i < expected[o].reals.size(); ++i) {
      largest = std::max(largest, std::abs(expected[o].reals[i]));
      double d = std::abs(found[o].reals[i] - expected[o].reals[i]);
      off = std::isnan(d) ? INFINITY : std::max(off, d);
    }
    INFO(cases.program.program.outputs[o].name << " in " << to_string(precision));
    CHECK(off <= tolerance * largest);
  }
}

// Each operator is a section of its own: one that throws leaves the others to be checked, and `-c NAME` picks one.
// UNITY_TEST_OPERATORS picks several, as in "matmul,softmax".
void check_backend(const std::string& backend, Precision precision, double tolerance) {
  const char* given = std::getenv("UNITY_TEST_OPERATORS");
  std::string chosen = given ? fmt::format(",{},", given) : std::string();
  for (const Operator* op : all_operators()) {
    if (op->category() != OpCategory::compute) continue;
    if (given && chosen.find(fmt::format(",{},", op->name())) == std::string::npos) continue;
    DYNAMIC_SECTION(op->name()) { check_operator(*op, op->examples(), backend, precision, tolerance); }
  }
}

}  // namespace

TEST_CASE("operators on the CPU in single precision agree with double precision, block by block") {
  check_backend("cpu", Precision::f32, 1e-5);
}

TEST_CASE("operators on the GPU agree with the CPU in double precision, block by block") {
  if (!gpu_or_skip()) return;
  check_backend("cuda", Precision::f64, 1e-11);
}

TEST_CASE("operators on the GPU agree with the CPU in single precision, block by block") {
  if (!gpu_or_skip()) return;
  check_backend("cuda", Precision::f32, 1e-5);
}

TEST_CASE("operators on the GPU agree with the CPU within the rounding of TF32, block by block") {
  if (!gpu_or_skip()) return;
  check_backend("cuda", Precision::tf32, 5e-3);
}

// Results are rounded once, by up to 2^-8 of their size; libraries also round what lies between two products.
TEST_CASE("operators on the GPU agree with the CPU within the rounding of bf16, block by block") {
  if (!gpu_or_skip()) return;
  check_backend("cuda", Precision::bf16, 1e-2);
}

TEST_CASE("norms on the GPU of rows as long as those of our models agree with the CPU") {
  if (!gpu_or_skip()) return;
  for (std::int64_t columns : {768, 1600}) {
    Shape rows{{70, columns}, DType::f32}, vector{{columns}, DType::f32};
    const std::vector<std::pair<const char*, std::vector<Shape>>> calls = {
        {"layer_norm", {rows, vector, vector}},
        {"layer_norm_gradient", {rows, vector, rows}},
        {"rms_norm", {rows, vector}},
        {"rms_norm_gradient", {rows, vector, rows}}};
    for (const auto& [name, shapes] : calls)
      for (auto [precision, tolerance] :
           {std::pair{Precision::f64, 1e-11}, {Precision::f32, 1e-5}, {Precision::bf16, 1e-2}})
        check_operator(get_operator(name), {{{1e-5}, shapes}}, "cuda", precision, tolerance);
  }
}
