// Random plans under the names that tests use.
#pragma once

#include "core/search/random_plan.h"

namespace unity::test {

using unity::random_mappings;
using unity::random_state;

}  // namespace unity::test
