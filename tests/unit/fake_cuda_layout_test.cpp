// Which tensors of a Program lie with channels last on a GPU, and what becomes of it.
#include <algorithm>

#include <catch2/catch.hpp>

#include "core/models/models.h"
#include "core/plan/lower.h"
#include "runtime/cuda/image_layout.h"
#include "tests/support/fake_plugin.h"

using namespace unity;
using namespace unity::test;
using namespace unity::cuda;

namespace {

Program lowered(const ModelSpec& spec, int devices = 1) {
  State state{build_model(spec), {}, {}};
  if (devices > 1) state = std::move(apply_move(state, {Move::Kind::replicate_all, 0, 0, devices}).value());
  return lower(state.pcg, test::natural_mappings(state.pcg), uniform_topology(devices),
               {true, parse_optimizer("sgd 0.05")})
      .value();
}

// Operands of tasks.
struct Counts {
  int images = 0, last = 0;
};
Counts counts_of(const Program& program) {
  ImageLayout layout = image_layout(program, true);
  Counts c;
  for (const Task& task : program.tasks)
    for (BufferId b : program.operands_of(task)) {
      const auto t = static_cast<std::size_t>(program.buffer(b).tensor);
      c.images += program.tensors[t].dims.size() == 4;
      c.last += layout.channels_last[t];
    }
  return c;
}

}  // namespace

TEST_CASE("all images of models for images lie with channels last, none of transformers") {
  for (const ModelSpec& spec :
       {ModelSpec{"resnext-50", {{"batch", 2}, {"image", 48}, {"blocks", 1}, {"divisor", 32}, {"groups", 2}}},
        ModelSpec{"inception-v3", {{"batch", 2}}}, ModelSpec{"resnext-50@artifact", {{"batch", 2}}},
        ModelSpec{"vgg-16", {{"batch", 2}, {"image", 32}, {"divisor", 32}}}}) {
    INFO(spec.name);
    for (int devices : {1, 2}) {
      Counts c = counts_of(lowered(spec, devices));
      CHECK(c.images > 20);
      CHECK(c.last == c.images);
    }
  }
  Counts bert = counts_of(lowered({"bert-tiny", {{"batch", 2}}}));
  CHECK(bert.images > 0);
  CHECK(bert.last == 0);
}

TEST_CASE(
    "a Program with channels last has the same buffers, with dimensions in that order, and the given one is kept") {
  const Program program = lowered({"vgg-16", {{"batch", 2}, {"image", 32}, {"divisor", 32}}}, 2);
  const Program before = program;
  ImageLayout layout = image_layout(program, true);
  REQUIRE(layout.program);
  for (std::size_t b = 0; b < program.buffers.size(); ++b) {
    const Box &box = program.buffers[b].box, &turned = layout.program->buffers[b].box;
    const auto t = static_cast<std::size_t>(program.buffers[b].tensor);
    CHECK(turned.elements() == box.elements());
    if (layout.channels_last[t]) {
      CHECK(from_channels_last(turned.extent) == box.extent);
      CHECK(from_channels_last(turned.offset) == box.offset);
      CHECK(layout.program->tensors[t].dims == to_channels_last(program.tensors[t].dims));
    } else {
      CHECK(turned == box);
    }
    CHECK(program.buffers[b].box == before.buffers[b].box);
  }
  ImageLayout none = image_layout(program, false);
  CHECK(std::count(none.channels_last.begin(), none.channels_last.end(), true) == 0);
  CHECK(!none.program);
}

TEST_CASE(
    "an operator that needs rows keeps the images beside it in rows, and so does a sum that leaves channels and more") {
  using Tail = std::function<ValueRef(Builder&, ValueRef)>;
  auto last = [](const Tail& tail) {
    Builder b("image");
    ValueRef x = b.input("x", {2, 8, 4, 4}), w = b.weight("w", {8, 8, 3, 3});
    ValueRef y = tail(b, b.apply("conv2d", {Dims{1, 1}, Dims{1, 1, 1, 1}}, {x, w}));
    Pcg pcg = std::move(b).finish({y});
    return counts_of(lower(pcg, test::natural_mappings(pcg), uniform_topology(1)).value()).last;
  };
  auto sum = [](Dims dims) { return [dims](Builder& b, ValueRef y) { return b.apply("reduce_sum", {dims}, {y}); }; };
  const Tail norm = [&](Builder& b, ValueRef y) { return sum({0, 1, 2, 3})(b, b.apply("softmax", {}, {y})); };
  CHECK(last(sum({0, 1, 2, 3})) > 0);
  CHECK(last(norm) == 0);
  const Tail channels = [&](Builder& b, ValueRef y) { return sum({0})(b, sum({0, 2, 3})(b, y)); };
  CHECK(last(channels) > 0);
  const Tail planes = [&](Builder& b, ValueRef y) { return sum({0, 1, 2})(b, sum({0})(b, y)); };
  CHECK(last(planes) == 0);
}

TEST_CASE("images are moved from one order to the other and back") {
  const Dims dims = {2, 3, 4, 5};
  std::vector<std::int32_t> rows(120), turned(120), back(120);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int32_t>(i);
  to_channels_last(dims, 4, rows.data(), turned.data());
  for (std::int64_t n = 0; n < 2; ++n)
    for (std::int64_t c = 0; c < 3; ++c)
      for (std::int64_t h = 0; h < 4; ++h)
        for (std::int64_t w = 0; w < 5; ++w)
          CHECK(turned[static_cast<std::size_t>(((n * 4 + h) * 5 + w) * 3 + c)] == ((n * 3 + c) * 4 + h) * 5 + w);
  from_channels_last(dims, 4, turned.data(), back.data());
  CHECK(back == rows);
}
