// Tables of nccl-tests (all_reduce_perf and the like), and links fitted to them.
#pragma once

#include <string>
#include <vector>

#include "core/machine/topology.h"

namespace unity {

// One measurement, out of place or in place.
struct NcclTime {
  double bytes = 0, seconds = 0;
};

// One run. Ranks and hosts come from the lines "#  Rank 0 ... on HOST device 0", and are 0 without such lines.
struct NcclTable {
  std::string file, collective;  // "all_reduce", "all_gather or alike", "broadcast or alike", "sendrecv"
  int ranks = 0, hosts = 0;
  double bytes_factor = 1;  // bytes over each edge of a ring, as a fraction of the size: busbw / algbw
  int steps = 1;            // edges of a ring that a byte goes along one after the other
  std::vector<NcclTime> times;
};

// Reads the columns that the head of the table names, among them size, time, algbw and busbw. The collective follows
// from busbw / algbw (2(n-1)/n, (n-1)/n or 1; PERFORMANCE.md of nccl-tests), redop and root; `devices` stands for
// missing lines of ranks. InputError with file and line: no table, a row that is cut short, values that are no numbers
// or not positive.
NcclTable read_nccl_tests(const std::string& text, const std::string& file, int devices = 0);

struct LinkFit {
  Link before;  // one of the fitted links
  BytesPerSecond bandwidth;
  Picoseconds latency;
  std::vector<double> ratios;                  // predicted / measured, by table and time
  double median_error = 0, largest_error = 0;  // of |ratio - 1|
};

// Fits bandwidth b and latency l of the links that bound a ring over the devices in their order, which are all links of
// one kind, bandwidth and latency. Of a collective on S bytes
//   t = L + k l + f S m / b,
// where f is bytes_factor, m how often the ring passes the bottleneck, k how many such links and L the sum of other
// latencies along the slowest `steps` edges. Least squares of relative errors, weighted by Huber's function so that
// outliers count little (iteratively reweighted; Holland, Welsch 1977); neither parameter is negative. The tables'
// ranks are the first devices. InputError: fewer than two sizes, times that do not grow, tables with different
// bottlenecks.
LinkFit fit_links(const std::vector<NcclTable>& tables, const Topology& topology);

// The text of a topology file (a name, or a path), with the fitted figures in place of those of such links; all else
// stays as it is.
std::string with_fitted_links(const std::string& name_or_path, const LinkFit& fit);

}  // namespace unity
