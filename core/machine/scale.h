// "What if this were faster": a factor on a part of a machine, or on the times of an operator.
//
//   KIND[:NAME][.PROPERTY]=FACTOR
//   link=2, link:infiniband=2          bandwidth of all links, or of those of a kind, times 2
//   link:infiniband.latency=0.5        their latency; where a library runs the collectives (collectives.h), which has
//                                      latencies of its own, those of the hops of that class (link.latency: of all)
//   device=1.5, device:V100-SXM2-16GB=1.5   all rates of all devices, or of those of a device file: peaks, memory
//                                      bandwidth, measured times
//   device.memory-bandwidth=2, device.compute=2, device.launch=0   one rate; the overhead of a launch
//   task:matmul=0.5                    times of the tasks of an operator (or update, copy, ..)
//
// Rate limits of a library of collectives, its base costs, and where the routes go for a given order of bandwidths stay
// as they are. Factors are positive; those of latencies and launches may be 0.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/machine/topology.h"

namespace unity {

struct Scale {
  enum class Kind : std::uint8_t { link, device, task };
  enum class Property : std::uint8_t { rate, latency, compute, memory_bandwidth, launch };
  Kind kind = Kind::link;
  std::string name;                    // of a kind of link, a device file, an operator; empty: all
  Property property = Property::rate;  // of links the bandwidth; of devices all rates; of tasks the time
  double factor = 1;

  std::string text() const;  // "link:infiniband.latency=0.5"
};

// InputError says what was found and what could be meant.
Scale parse_scale(std::string_view text);

// Changes what the scales of links and devices name, in order, and finds the routes anew. InputError where the machine
// has no such link or device, or where a rate of a device is to change alone whose times are measured, or that of
// links over which collectives are. Scales of tasks change nothing here.
void apply_scales(const std::vector<Scale>& scales, Topology& topology);

// Kinds of the machine's links, names of its device files.
std::vector<std::string> link_kinds(const Topology& topology);
std::vector<std::string> device_specs(const Topology& topology);

}  // namespace unity
