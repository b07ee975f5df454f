// Training the same model under different plans: random inputs, one step, and the distance of what two plans compute.
#pragma once

#include <map>
#include <string>

#include "core/graph/pcg.h"
#include "runtime/executor.h"
#include "tests/support/seed.h"

namespace unity::test {

// Standard normal reals, indices below what their users accept.
std::map<std::string, HostTensor> random_inputs(const Pcg& pcg, std::uint64_t seed);

// One training step from the same initial weights: the loss and the gradient of every weight.
struct Run {
  double loss = 0;
  std::map<std::string, HostTensor> gradients;
  std::map<std::string, HostTensor> states;  // weights, optimizer and running states after the step
};
Run run(const Program& program, const std::map<std::string, HostTensor>& inputs, Precision precision,
        const std::string& backend = "cpu");

double norm(const HostTensor& t);

// What a difference of each gradient is measured against: its own norm; that of all gradients together where its own is
// zero but for rounding (a bias of the keys of attention, which softmax cancels).
std::map<std::string, double> scales(const Run& exact);

// The largest of |a - b| / scale over the loss and all gradients. Notes each that is beyond `tolerance`.
double distance(const Run& a, const Run& b, const std::map<std::string, double>& scale, double tolerance = 1e-5);

// The larger of |loss difference| / loss and the norm of all gradients' differences over that of all gradients.
double overall_distance(const Run& a, const Run& b);

}  // namespace unity::test
