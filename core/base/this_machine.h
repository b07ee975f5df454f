// The machine that this program runs on.
#pragma once

#include "core/base/units.h"

namespace unity {

Bytes memory_of_this_machine();  // physical memory

}  // namespace unity
