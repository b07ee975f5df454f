// The rules that come with Unity.
#pragma once

#include <vector>

#include "core/rewrite/rule.h"

namespace unity {

// The hand-written rules of rules/*.rules, as they were when Unity was built: by file name, then in text order. Without
// import.rules.
const std::vector<Rule>& rule_library();

// rules/import.rules: they join what exporters take apart. For `unity import`; searches have no use for them.
const std::vector<Rule>& import_rules();

}  // namespace unity
