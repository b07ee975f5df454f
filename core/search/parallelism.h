// The kinds of parallelism (paper, section 2), and which of them sharding an axis class would use.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/rewrite/axis_classes.h"

namespace unity {

// data, model, reduction, head, spatial, pipeline.
const std::vector<std::string>& parallelism_kinds();

// data: the class holds dimension 0 of an input or boundary. Else, by its members: head (a batch of products), spatial
// (rows of a matmul beside the batch, windows), reduction (an axis that is summed away), model (any other).
std::set<std::string> kinds_of_class(const Pcg& pcg, const std::vector<AxisClass>& classes, std::size_t index);

// Empty `allowed` allows all.
bool is_allowed(const std::set<std::string>& kinds, const std::vector<std::string>& allowed);

}  // namespace unity
