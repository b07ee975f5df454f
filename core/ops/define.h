// For operator sources only: registration, and the tools to write reference evaluators.
#pragma once

#include "core/ops/operator.h"
#include "core/ops/reference.h"

// Defines the function that operators.def promises.
#define UNITY_DEFINE_OPERATOR(op_name, Class) \
  const Operator& op_name##_operator() {      \
    static const Class op(#op_name);          \
    return op;                                \
  }
