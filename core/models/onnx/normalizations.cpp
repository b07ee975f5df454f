// Normalizations.
#include <algorithm>
#include <numeric>

#include "core/models/onnx/fold.h"
#include "core/models/onnx/translations.h"

namespace unity {
namespace {

constexpr double kEpsilon = 1e-5;

// A vector of one number for each group, repeated to one for each channel.
ValueRef for_each_channel(OnnxContext& c, std::size_t operand, std::int64_t channels) {
  Dims found = c.dims(operand);
  std::int64_t n = element_count(found);
  if (n == channels) return c.leaf(operand, "weight", {channels});
  if (n < 1 || channels % n != 0) c.wrong("found {} numbers for {} channels", n, channels);
  ValueRef spread = c.expand(c.leaf(operand, "weight", {n, 1}), {n, channels / n});
  return c.reshape(spread, {channels});
}

void group_norm(OnnxContext& c, std::int64_t groups) {
  Dims x = c.dims(0);
  if (x.size() < 2 || groups < 1 || x[1] % groups != 0)
    c.wrong("found input [{}], expected channels that {} divides", fmt::join(x, ", "), groups);
  ValueRef gamma = for_each_channel(c, 1, x[1]), beta = for_each_channel(c, 2, x[1]);
  c.result(0, c.emit("group_norm", {{"groups", groups}, {"epsilon", c.real("epsilon", kEpsilon)}},
                     {c.tensor(0), gamma, beta}));
}

}  // namespace

void onnx_LayerNormalization(OnnxContext& c) {
  if (c.wanted(1) || c.wanted(2)) c.unsupported("mean or deviation as a result");
  Dims x = c.dims(0);
  std::size_t axis = normal_axis(c.integer("axis", -1), x.size());
  Dims rows(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(axis));
  std::int64_t size = element_count({x.begin() + static_cast<std::ptrdiff_t>(axis), x.end()});
  rows.push_back(size);
  if (element_count(c.dims(1)) != size || (c.given(2) && element_count(c.dims(2)) != size))
    c.unsupported("a scale or bias that is repeated");
  ValueRef gamma = c.leaf(1, "weight", {size});
  ValueRef beta = c.given(2) ? c.leaf(2, "weight", {size}) : c.state(filled_tensor({size}, 0));
  ValueRef y =
      c.emit("layer_norm", {{"epsilon", c.real("epsilon", kEpsilon)}}, {c.reshape(c.tensor(0), rows), gamma, beta});
  c.result(0, c.reshape(y, x));
}

// In inference by the stored statistics; in training by those of the batch, which also move the stored ones.
void onnx_BatchNormalization(OnnxContext& c) {
  Dims x = c.dims(0);
  if (x.size() < 2) c.wrong("found input [{}], expected at least 2 dimensions", fmt::join(x, ", "));
  const Dims channels = {x[1]};
  const double epsilon = c.real("epsilon", kEpsilon);
  const std::vector<std::string>& names = c.node().outputs;
  bool statistics = std::any_of(names.begin() + 1, names.end(), [](const std::string& name) { return !name.empty(); });
  bool training = c.integer("training_mode", 0) != 0 || (c.opset() < 14 && statistics);
  ValueRef input = c.tensor(0), gamma = c.leaf(1, "weight", channels), beta = c.leaf(2, "weight", channels);
  ValueRef mean = c.leaf(3, "state", channels), variance = c.leaf(4, "state", channels);
  std::vector<ValueRef> results;
  if (training) {
    std::vector<ValueRef> moments = c.emit_all("moments", {}, {input});
    // ONNX keeps a share of the old statistics; Unity's momentum is the share of the new. The stored variance is that
    // of the batch itself, not an estimate for all data: with a count of 1 it is not enlarged.
    results = c.emit_all("combine_moments", {{"momentum", 1 - c.real("momentum", 0.9)}, {"count", std::int64_t{1}}},
                         {moments[0], moments[1], mean, variance});
    mean = results[0], variance = results[1];
  }
  c.result(0, c.emit("batch_norm", {{"epsilon", epsilon}}, {input, mean, variance, gamma, beta}));
  for (std::size_t i = 2; i < results.size(); ++i) c.result(i - 1, results[i]);
}

// In opsets to 20 scale and bias have one number for each group.
void onnx_GroupNormalization(OnnxContext& c) { group_norm(c, c.integer("num_groups", 1)); }

void onnx_InstanceNormalization(OnnxContext& c) {
  Dims x = c.dims(0);
  group_norm(c, x.size() < 2 ? 1 : x[1]);
}

}  // namespace unity
