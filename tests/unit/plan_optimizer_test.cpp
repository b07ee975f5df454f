#include <catch2/catch.hpp>

#include "core/base/error.h"
#include "core/plan/optimizer.h"

using namespace unity;

TEST_CASE("an optimizer's text gives kind, learning rate and settings; what is left out is as in PyTorch") {
  OptimizerSpec sgd = parse_optimizer("sgd 0.1 momentum=0.9 nesterov weight_decay=1e-4");
  CHECK(sgd.learning_rate == 0.1);
  CHECK(sgd.momentum == 0.9);
  CHECK(sgd.nesterov);
  CHECK(sgd.weight_decay == 1e-4);
  CHECK(parse_optimizer("sgd").learning_rate == 0.01);
  OptimizerSpec adam = parse_optimizer("adamw beta1=0.8 3e-4");
  CHECK(adam.learning_rate == 3e-4);
  CHECK(adam.beta1 == 0.8);
  CHECK(adam.beta2 == 0.999);
  CHECK(adam.weight_decay == 0.01);
  CHECK(parse_optimizer("adam").weight_decay == 0);
}

TEST_CASE("an optimizer keeps one tensor for momentum, two for Adam, none for plain SGD") {
  CHECK(parse_optimizer("sgd 0.1").states() == 0);
  CHECK(parse_optimizer("sgd 0.1 momentum=0.5").states() == 1);
  CHECK(parse_optimizer("adam").states() == 2);
  CHECK(parse_optimizer("adamw").states() == 2);
}

TEST_CASE("the text of an optimizer reads back as the same") {
  for (const char* text : {"sgd 0.1", "sgd 0.01 momentum=0.9 nesterov weight_decay=0.1", "adam 1e-3 beta2=0.99",
                           "adamw 1e-4 weight_decay=0", "adamw 3e-4 epsilon=1e-6 weight_decay=0.1"})
    CHECK(parse_optimizer(to_text(parse_optimizer(text))) == parse_optimizer(text));
  CHECK(to_text(parse_optimizer("adamw 1e-3")) == "adamw 0.001");
}

TEST_CASE("optimizers that are unknown or out of range are refused, saying what was found") {
  auto refuses = [](const char* text, const char* why) {
    INFO(text);
    CHECK_THROWS_AS(parse_optimizer(text), InputError);
    CHECK_THROWS_WITH(parse_optimizer(text), Catch::StartsWith("optimizer: ") && Catch::Contains(why));
  };
  refuses("adm 0.1", "did you mean 'adam'?");
  refuses("lion 0.1", "expected one of adam, adamw, sgd");
  refuses("", "found ''");
  refuses("sgd fast", "found 'fast'");
  refuses("sgd 0", "found 0, expected a positive number");
  refuses("sgd -1", "expected a number of at least 0");
  refuses("sgd nan", "found 'nan'");
  refuses("sgd 0.1 0.2", "found 2 numbers");
  refuses("sgd 0.1 beta1=0.9", "sgd has no 'beta1'");
  refuses("sgd 0.1 momentum=1", "expected a number in [0, 1)");
  refuses("sgd 0.1 momentum=0.5 momentum=0.6", "twice");
  refuses("sgd 0.1 nesterov", "expected a momentum above 0");
}
