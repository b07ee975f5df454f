// Vocabulary parallelism (Shoeybi et al., 2019, section 3) as moves: each device has the logits of its own words, and
// of every row only a maximum, a sum and one logit are put together.
#pragma once

#include "core/search/substitution.h"

namespace unity {

// The cross-entropy over the largest number of classes, taken apart by the library's definition of it. Error when there
// is none.
Result<State> unfuse_cross_entropy(const State& state);

// Shards the classes of that loss by `degree`, from the matmul that computes the logits on, and where the same table
// looks words up, there too. Parts differ by an element where the degree does not divide (GPT-2's 50257 words). Error
// when the logits are not the columns of a matmul.
Result<State> split_vocabulary(const State& state, int degree);

}  // namespace unity
