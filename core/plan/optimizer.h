// Which optimizer a program's update tasks apply, and with what numbers. The meaning of each is that of PyTorch:
//   sgd    g += weight_decay w; v = momentum v + g; w -= rate v (nesterov: w -= rate (g + momentum v))
//   adam   g += weight_decay w; then Kingma and Ba 2015, with bias correction
//   adamw  w -= rate weight_decay w; then Adam's step with the plain gradient (Loshchilov and Hutter 2019)
#pragma once

#include <string>
#include <string_view>

namespace unity {

struct OptimizerSpec {
  std::string name = "sgd";  // sgd, adam, adamw
  double learning_rate = 0.01;
  double momentum = 0;                                // sgd
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // adam, adamw
  double weight_decay = 0;
  bool nesterov = false;  // sgd with momentum

  bool operator==(const OptimizerSpec&) const = default;
  // Tensors of the weight's shape that it keeps.
  int states() const { return name == "sgd" ? (momentum != 0 ? 1 : 0) : 2; }
};

// "sgd 0.01 momentum=0.9 nesterov weight_decay=1e-4", "adamw 1e-3 beta1=0.9 beta2=0.999 epsilon=1e-8". Without a
// learning rate: sgd 0.01, adam and adamw 0.001; without weight_decay: adamw 0.01. InputError names what was found.
OptimizerSpec parse_optimizer(std::string_view text);
// Reads back as the same spec.
std::string to_text(const OptimizerSpec& optimizer);

// The name of a tensor that an optimizer keeps for a weight, from 0 on.
inline std::string optimizer_state(const std::string& weight, int number) {
  return weight + ".state" + std::to_string(number);
}

// InputError (begins with `subject`) on an unknown name or numbers out of range.
void check_optimizer(const OptimizerSpec& optimizer, std::string_view subject);

}  // namespace unity
