// docs/howto/operator.md: what the conformance test checks of every operator, of an example that is not in
// operators.def.

#include <cmath>

#include <catch2/catch.hpp>

#include "docs/examples/operator/softplus.h"
#include "tests/support/ops_sharded.h"

namespace unity::cpu {
void softplus_kernel(const OpCall& call);
}

using namespace unity;
using namespace unity::testing;

namespace {

struct Instance {
  Example example;
  AxisTable table;
  std::vector<Block> inputs;
};

std::vector<Instance> instances(DType type) {
  std::vector<Instance> list;
  for (const Example& example : softplus_operator().examples())
    list.push_back({example, *softplus_operator().axes(example.attributes, example.inputs),
                    random_operands(example, type, RandomKey(1))});
  return list;
}

std::vector<Block> whole(Instance& i, const Evaluator& evaluate, DType type) {
  return call_operator(evaluate, softplus_operator(), i.example.attributes, i.table, i.inputs,
                       output_boxes(i.table, full_ranges(i.table)), type);
}

}  // namespace

TEST_CASE("softplus is log(1 + exp(x)): log 2 at 0, x far to the right") {
  Example example{{}, {{{3}, DType::f32}}};
  AxisTable table = *softplus_operator().axes({}, example.inputs);
  std::vector<Block> x = {empty_block(DType::f64, Dims{3})};
  x[0].set_real(1, 1.0);
  x[0].set_real(2, 30.0);
  Block y = call_operator(reference_evaluator(), softplus_operator(), {}, table, x, {x[0].box}, DType::f64)[0];
  CHECK(y.real(0) == Approx(std::log(2.0)));
  CHECK(y.real(1) == Approx(std::log(1 + std::exp(1.0))));
  CHECK(y.real(2) == Approx(30.0));
}

TEST_CASE("every sharding of softplus, put together, is the unsharded result, exactly") {
  std::size_t checked = 0;
  for (Instance& i : instances(DType::mod)) {
    std::vector<Block> expected = whole(i, reference_evaluator(), DType::mod);
    for (const Distribution& d : distributions(i.table, 24)) {
      INFO(to_string(i.table, d));
      DistributedInputs inputs = distribute(i.inputs, d, RandomKey(2));
      std::vector<Block> found =
          run_sharded(reference_evaluator(), softplus_operator(), i.example.attributes, i.table, d, inputs, DType::mod);
      CHECK(difference(found[0], expected[0]) == 0);
      ++checked;
    }
  }
  CHECK(checked > 4);
}

TEST_CASE("the gradient of softplus is its finite difference") {
  for (Instance& i : instances(DType::f64)) {
    std::vector<Block> y = whole(i, reference_evaluator(), DType::f64), dy = y;
    for (std::int64_t e = 0; e < dy[0].box.elements(); ++e) dy[0].set_real(e, 1);
    auto program = full_gradient(softplus_operator(), i.example.attributes, i.example.inputs);
    auto dx = run_gradient(reference_evaluator(), program, i.inputs, y, dy, DType::f64);
    constexpr double kStep = 1e-6;
    Instance moved = i;
    for (std::int64_t e = 0; e < y[0].box.elements(); ++e) moved.inputs[0].set_real(e, i.inputs[0].real(e) + kStep);
    std::vector<Block> next = whole(moved, reference_evaluator(), DType::f64);
    for (std::int64_t e = 0; e < y[0].box.elements(); ++e)
      CHECK((next[0].real(e) - y[0].real(e)) / kStep == Approx(dx[0]->real(e)).epsilon(1e-5));
  }
}

TEST_CASE("the kernel of softplus gives what its reference gives") {
  Evaluator kernel = [](const Operator&, const OpCall& call) { cpu::softplus_kernel(call); };
  for (Instance& i : instances(DType::f64))
    CHECK(difference(whole(i, kernel, DType::f64)[0], whole(i, reference_evaluator(), DType::f64)[0]) < 1e-12);
}
