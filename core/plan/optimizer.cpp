#include "core/plan/optimizer.h"

#include <cmath>

#include "core/base/settings.h"
#include "core/base/text.h"

namespace unity {

OptimizerSpec parse_optimizer(std::string_view text) {
  Settings s = parse_settings("optimizer", text,
                              {{"sgd", {"momentum", "weight_decay", "nesterov"}},
                               {"adam", {"beta1", "beta2", "epsilon", "weight_decay"}},
                               {"adamw", {"beta1", "beta2", "epsilon", "weight_decay"}}});
  if (s.numbers.size() > 1)
    throw_input_error("optimizer: found {} numbers in '{}', expected one, the learning rate", s.numbers.size(), text);
  OptimizerSpec o;
  o.name = s.kind;
  o.learning_rate = s.numbers.empty() ? (o.name == "sgd" ? 1e-2 : 1e-3) : s.numbers[0];
  o.momentum = s.value("momentum", 0);
  o.nesterov = s.value("nesterov", 0) != 0;
  o.beta1 = s.value("beta1", o.beta1);
  o.beta2 = s.value("beta2", o.beta2);
  o.epsilon = s.value("epsilon", o.epsilon);
  o.weight_decay = s.value("weight_decay", o.name == "adamw" ? 0.01 : 0);
  check_optimizer(o, "optimizer");
  return o;
}

std::string to_text(const OptimizerSpec& o) {
  std::string text = fmt::format("{} {}", o.name, number_text(o.learning_rate));
  auto add = [&](const char* key, double value, double otherwise) {
    if (value != otherwise) text += fmt::format(" {}={}", key, number_text(value));
  };
  OptimizerSpec plain;
  if (o.name == "sgd") {
    add("momentum", o.momentum, 0);
    if (o.nesterov) text += " nesterov";
  } else {
    add("beta1", o.beta1, plain.beta1), add("beta2", o.beta2, plain.beta2), add("epsilon", o.epsilon, plain.epsilon);
  }
  add("weight_decay", o.weight_decay, o.name == "adamw" ? 0.01 : 0);
  return text;
}

void check_optimizer(const OptimizerSpec& o, std::string_view subject) {
  if (o.name != "sgd" && o.name != "adam" && o.name != "adamw")
    throw_input_error(
        "{}: found '{}', expected sgd, adam or adamw{}", subject, o.name,
        nearest_name(o.name, {"sgd", "adam", "adamw"}).empty() ? "" : suggestion(o.name, {"sgd", "adam", "adamw"}));
  auto check = [&](const char* what, double value, bool good, const char* expected) {
    if (!good || !std::isfinite(value))
      throw_input_error("{}: {}: found {}, expected {}", subject, what, number_text(value), expected);
  };
  check("learning rate", o.learning_rate, o.learning_rate > 0, "a positive number, as in 'adam 1e-3'");
  check("momentum", o.momentum, o.momentum >= 0 && o.momentum < 1, "a number in [0, 1)");
  check("beta1", o.beta1, o.beta1 >= 0 && o.beta1 < 1, "a number in [0, 1)");
  check("beta2", o.beta2, o.beta2 >= 0 && o.beta2 < 1, "a number in [0, 1)");
  check("epsilon", o.epsilon, o.epsilon >= 0, "a number of at least 0");
  check("weight_decay", o.weight_decay, o.weight_decay >= 0, "a number of at least 0");
  if (o.nesterov && o.momentum == 0) throw_input_error("{}: nesterov: expected a momentum above 0 with it", subject);
}

}  // namespace unity
