// For model sources only: the feed-forward layer of a Switch transformer.
#pragma once

#include "core/models/family.h"

namespace unity {

// Every token goes to the one of `experts` two-layer networks (without biases, gelu_tanh between) whose gate is the
// largest; its result is multiplied with that gate. An expert takes `capacity` tokens of each sequence, in order; the
// others get zeros, so a residual connection around the layer passes them on.
//   gates = softmax(x W_router) [b, t, e], dispatch = top1_dispatch(gates) [b, t, e, c],
//   tokens [e, b c, d] = dispatch^T x, y = (dispatch gates) (gelu(tokens W_in[e]) W_out[e])
// Weights: "<name>.router.weight" [d, e], "<name>.experts.wi" [e, d, f], "<name>.experts.wo" [e, f, d].
// Source: Fedus, Zoph, Shazeer, "Switch Transformers", JMLR 2022, section 2.
struct SwitchLayer {
  std::int64_t experts = 1, capacity = 1;    // tokens of a sequence that an expert takes
  std::int64_t hidden = 1;                   // f
  double scale = 0.02, output_scale = 0.02;  // standard deviations of the initial weights
};
struct SwitchResult {
  ValueRef y;
  // e sum_i f_i p_i with the share f_i of the tokens whose best expert is i, also beyond its capacity, and the mean
  // p_i of its gate (equation 4, without its factor): about 1 when experts are equally used. Built when asked for.
  ValueRef balance;
};
SwitchResult switch_layer(Builder& b, const std::string& name, const SwitchLayer& layer, ValueRef x, bool balance);

}  // namespace unity
