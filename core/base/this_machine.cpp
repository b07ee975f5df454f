#include "core/base/this_machine.h"

#include <unistd.h>

namespace unity {

Bytes memory_of_this_machine() { return {sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE)}; }

}  // namespace unity
