// Kernel times where no measured profile is at hand: the roofline (Williams, Waterman, Patterson, CACM 2009) with
// efficiencies that depend on the amount of work.
#pragma once

#include "core/machine/topology.h"

namespace unity {

// launch_overhead + max(flops / (peak(dtype) * eff(flops)), bytes / (memory_bandwidth * eff(bytes))).
// Between half a FLOP and two FLOPs for each byte an operator is taken as element-wise with exponentials (gelu,
// softmax): flops / elementwise_peak, where the device has one, such as a CPU; with fewer, memory bounds it. Element
// types without a peak rate of their own run at f32's.
// `added`: of the bytes, those of a sum to which the result is added, which do not tell what kind of operator it is.
Picoseconds roofline_time(const DeviceSpec& device, double flops, double bytes, DType dtype = DType::f32,
                          double added = 0);

}  // namespace unity
