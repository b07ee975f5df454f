// The kernels of the CUDA backend, compiled for the host, against the reference evaluator: every operator, example and
// sharding, in every combination of held types.
#include <map>
#include <memory>

#include <catch2/catch.hpp>

#include "core/ops/reference.h"
#include "runtime/cpu/kernels.h"
#include "tests/support/cuda_evaluator.h"

using namespace unity;
using namespace unity::testing;

namespace {

constexpr std::uint64_t kSeed = 20220711;
constexpr int kMaxTasks = 12;

template <class Body>
void for_each_example(Body&& body) {
  for (const Operator* op : all_operators()) {
    if (!cuda::find_kernel(*op)) continue;
    std::vector<Example> examples = op->examples();
    for (std::size_t i = 0; i < examples.size(); ++i) {
      INFO(op->name() << " example " << i << ", seed " << kSeed);
      Attributes attributes = complete_attributes(op->name(), op->attributes(), examples[i].attributes).value();
      AxisTable table = op->axes(attributes, examples[i].inputs).value();
      body(*op, attributes, examples[i], table, RandomKey(kSeed).with(hash_text(op->name())));
    }
  }
}

double largest(const Block& b) {
  double m = 1;
  for (std::int64_t i = 0; i < b.box.elements(); ++i) m = std::max(m, std::abs(b.real(i)));
  return m;
}

}  // namespace

TEST_CASE("every operator that runs has a CUDA kernel") {
  for (const Operator* op : all_operators()) {
    INFO(op->name());
    CHECK((cuda::find_kernel(*op) != nullptr) == (cpu::find_kernel(*op) != nullptr));
  }
}

TEST_CASE("every CUDA kernel equals the reference on every block of every sharding") {
  for_each_example([](const Operator& op, const Attributes& attributes, const Example& example, const AxisTable& table,
                      RandomKey key) {
    for (DType type : {DType::f64, DType::f32}) {
      auto whole = random_operands(example, type, key);
      auto exact = random_operands(example, DType::f64, key);
      for (std::size_t i = 0; i < exact.size(); ++i) exact[i] = converted(whole[i], DType::f64);
      auto expected = call_operator(reference_evaluator(), op, attributes, table, exact,
                                    output_boxes(table, full_ranges(table)), DType::f64, key.with(0));  // of step 0
      for (const Distribution& d : distributions(table, kMaxTasks)) {
        INFO(to_string(table, d) << " in " << to_string(type));
        auto found = run_sharded(kernel_evaluator(), op, attributes, table, d, distribute(whole, d, key), type, key);
        for (std::size_t o = 0; o < expected.size(); ++o) {
          INFO("result " << o);
          bool real = expected[o].dtype == DType::f64;
          double off = difference(real ? converted(found[o], DType::f64) : found[o], expected[o]);
          double allowed = !real ? 0 : (type == DType::f64 ? 1e-12 : 1e-5) * largest(expected[o]);
          if (!(off <= allowed)) FAIL("differs by " << off);
        }
      }
    }
  });
}

TEST_CASE("CUDA kernels take blocks held in bf16 beside such in f32") {
  for_each_example([](const Operator& op, const Attributes& attributes, const Example& example, const AxisTable& table,
                      RandomKey key) {
    auto whole = random_operands(example, DType::f32, key);
    for (Block& b : whole)  // values that bf16 holds exactly
      for (std::int64_t i = 0; b.dtype == DType::f32 && i < b.box.elements(); ++i)
        b.set_real(i, static_cast<double>(cuda::to_float(cuda::to_bfloat16(static_cast<float>(b.real(i))))));
    auto boxes = output_boxes(table, full_ranges(table));
    auto expected = call_operator(kernel_evaluator(), op, attributes, table, whole, boxes, DType::f32, key);
    for (std::uint64_t which : {~std::uint64_t{0}, std::uint64_t{0x5555}, std::uint64_t{0xaaaa}}) {
      INFO("held in bf16: bits " << which);
      auto found = call_operator(mixed_evaluator(which), op, attributes, table, whole, boxes, DType::f32, key);
      for (std::size_t o = 0; o < expected.size(); ++o) {
        double allowed = expected[o].dtype == DType::f32 ? 0.005 * largest(expected[o]) : 0;
        INFO("result " << o);
        CHECK(difference(found[o], expected[o]) <= allowed);
      }
    }
  });
}

TEST_CASE("bf16 rounds to nearest even and keeps infinity and NaN") {
  auto round = [](float x) { return cuda::to_float(cuda::to_bfloat16(x)); };
  CHECK(round(1.0F) == 1.0F);
  CHECK(round(1.00390625F) == 1.0F);       // 1 + 2^-8, half way: to even
  CHECK(round(1.01171875F) == 1.015625F);  // 1 + 3 * 2^-8, half way: to even
  CHECK(round(std::numeric_limits<float>::infinity()) == std::numeric_limits<float>::infinity());
  CHECK(std::isnan(round(std::numeric_limits<float>::quiet_NaN())));
}
