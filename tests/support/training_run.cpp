#include "tests/support/training_run.h"

#include <cmath>

#include <catch2/catch.hpp>

#include "core/graph/evaluate.h"

namespace unity::test {

std::map<std::string, HostTensor> random_inputs(const Pcg& pcg, std::uint64_t seed) {
  std::map<std::string, HostTensor> inputs;
  for (std::size_t i = 0; i < pcg.size(); ++i) {
    const Node& n = pcg.nodes()[i];
    if (n.op->name() != "input") continue;
    RandomKey key = RandomKey(seed).with(i);
    Shape shape = n.outputs[0].shape();
    HostTensor t = shape.dtype == DType::i32 ? index_tensor(shape.dims) : real_tensor(shape.dims);
    if (shape.dtype == DType::i32) {
      auto bound = static_cast<std::uint64_t>(index_bound(pcg, NodeId(static_cast<std::int64_t>(i))));
      for (std::size_t k = 0; k < t.indices.size(); ++k)
        t.indices[k] = static_cast<std::int32_t>(random_below(key, k, bound));
    } else {
      for (std::size_t k = 0; k < t.reals.size(); ++k) t.reals[k] = random_normal(key, k);
    }
    inputs.emplace(n.name, std::move(t));
  }
  return inputs;
}

Run run(const Program& program, const std::map<std::string, HostTensor>& inputs, Precision precision,
        const std::string& backend) {
  Executor executor(program, {backend, precision, 7});
  for (const ProgramLeaf& leaf : executor.inputs()) executor.set_input(leaf.name, inputs.at(leaf.name));
  Run r;
  r.loss = executor.step().loss;
  for (const std::string& name : executor.weight_names()) r.gradients.emplace(name, executor.gradient(name));
  for (const StateTensor& s : executor.state()) r.states.emplace(s.name, executor.state(s.name));
  return r;
}

double norm(const HostTensor& t) {
  double sum = 0;
  for (double x : t.reals) sum += x * x;
  return std::sqrt(sum);
}

std::map<std::string, double> scales(const Run& exact) {
  double all = 0;
  for (const auto& [name, g] : exact.gradients) all += norm(g) * norm(g);
  all = std::sqrt(all);
  std::map<std::string, double> result;
  for (const auto& [name, g] : exact.gradients) result[name] = norm(g) < 1e-9 * all ? all : norm(g);
  return result;
}

double distance(const Run& a, const Run& b, const std::map<std::string, double>& scale, double tolerance) {
  double worst = std::abs(a.loss - b.loss) / std::abs(b.loss);
  if (!(worst <= tolerance)) UNSCOPED_INFO("loss is " << a.loss << ", expected " << b.loss);
  REQUIRE(a.gradients.size() == b.gradients.size());
  for (const auto& [name, expected] : b.gradients) {
    HostTensor difference = a.gradients.at(name);
    for (std::size_t i = 0; i < expected.reals.size(); ++i) difference.reals[i] -= expected.reals[i];
    double relative = norm(difference) / scale.at(name);
    if (!(relative <= tolerance)) UNSCOPED_INFO("gradient of " << name << " is off by " << relative << " of its norm");
    worst = std::isnan(relative) ? relative : std::max(worst, relative);
  }
  return worst;
}

double overall_distance(const Run& a, const Run& b) {
  double difference = 0, whole = 0;
  for (const auto& [name, expected] : b.gradients) {
    HostTensor d = a.gradients.at(name);
    for (std::size_t i = 0; i < expected.reals.size(); ++i) d.reals[i] -= expected.reals[i];
    difference += norm(d) * norm(d), whole += norm(expected) * norm(expected);
  }
  return std::max(std::abs(a.loss - b.loss) / std::abs(b.loss), std::sqrt(difference / whole));
}

}  // namespace unity::test
