// The parts of unity bench, a file each: bench_simulator.cpp, bench_rules.cpp, bench_search.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace unity::cli {

struct BenchFigure {
  std::string key;   // of the JSON document
  std::string unit;  // "s", "ms", "B"; empty: a number
  double value;
};

// Median seconds of a run, in processor time of this process: at least five runs and half a second in all, after one
// that does not count; of runs longer than ten seconds only that one counts.
double median_seconds(const std::function<void()>& run);

// Events and transfers per second; BERT-Large on 192 GPUs, with `large_too` on 4,096.
std::vector<BenchFigure> bench_simulator(bool large_too);

// Of the library: its proofs; of the generator: all its graphs; of the matcher: all rules on BERT-Large.
std::vector<BenchFigure> bench_rules();

// What is searched for, and how.
struct SearchBench {
  std::vector<std::string> models;
  std::vector<int> nodes;  // of Summit, six GPUs each
  int budget = 4000, jobs = 0;
  double time_limit = 0;
};

// One search by strategy unity.
struct SearchFigures {
  std::string model;
  int devices = 0;
  double iteration = 0, seconds = 0, processors = 0;  // seconds: of the plan, on the clock, of processor time
  std::int64_t candidates = 0;
  std::string stopped_because;
  std::vector<std::pair<std::string, double>> levels;  // seconds of processor time by level of the search
  double peak_bytes = 0;                               // of this process so far

  double candidates_per_second() const { return static_cast<double>(candidates) / seconds; }
  double per_candidate(double total) const { return total / static_cast<double>(candidates); }
};

// Each model on each number of nodes, the smallest first. InputError: an unknown model, or no plan.
std::vector<SearchFigures> bench_search(const SearchBench& bench);
// MODEL_GPUS_.., and the peak of this process' memory.
std::vector<BenchFigure> search_figures(const std::vector<SearchFigures>& searches);
void print_searches(const std::vector<SearchFigures>& searches);

}  // namespace unity::cli
