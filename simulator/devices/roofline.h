// Kernel times where no measured profile is at hand: the roofline (Williams, Waterman, Patterson, CACM 2009) with
// efficiencies that depend on the amount of work.
#pragma once

#include "core/machine/topology.h"

namespace unity {

// launch_overhead + max(flops / (peak(dtype) * eff(flops)), bytes / (memory_bandwidth * eff(bytes))).
// The efficiency of FLOPs is that of matrix products; operators of low intensity are bound by the second term anyway.
// Element types without a peak rate of their own run at that of f32.
Picoseconds roofline_time(const DeviceSpec& device, double flops, double bytes, DType dtype = DType::f32);

}  // namespace unity
