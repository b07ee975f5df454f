// The rules that come with Unity.
#pragma once

#include <vector>

#include "core/rewrite/rule.h"

namespace unity {

// The hand-written rules of rules/*.rules, as they were when Unity was built: by file name, then in text order.
const std::vector<Rule>& rule_library();

}  // namespace unity
