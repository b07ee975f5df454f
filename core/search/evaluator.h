// Scores candidates: mapping DP, lowering, cost model. The one way from a PCG to its cost.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "core/base/parallel.h"
#include "core/plan/collective_algorithms.h"
#include "core/plan/device_blocks.h"
#include "core/plan/lower.h"
#include "core/search/cost_model.h"
#include "core/search/lowered_programs.h"
#include "core/search/mapping_search.h"
#include "core/search/search_recorder.h"

namespace unity {

constexpr int kManyDevices = 48;       // what more of them do takes long to lower and to simulate
constexpr int kVeryManyDevices = 512;  // and of more than these, very long
constexpr int kOneAtOnce = 2048;  // of more than these a Program takes gigabytes: there is one at a time, none is kept
constexpr double kMostTasksOfOneAtOnce = 1.6e6;  // so that a search takes 4 GiB at most
constexpr double kMostTasksOfPlan = 1e6;         // that are simulated to report a plan's time exactly
constexpr double kMostTasksAfterStop = 1e5;      // when the search was cut short

// Bytes on the fullest device: `persistent` lives through the turn from forward to backward (weights, gradients that
// wait for the update, optimizer states, saved activations) and adds up over the parts of a split; `transient` is what
// the peak has beyond it, of which only the largest part counts.
struct MemoryUse {
  Bytes persistent;
  Bytes transient;
};
MemoryUse memory_use(const Program& program);

struct Candidate {
  Pcg pcg;
  std::vector<MachineMapping> mappings;
  Schedule schedule;
  Score score;
  MemoryUse memory;        // (of the first micro-batches, where these tell of all)
  std::int64_t tasks = 0;  // of the program that was scored
  bool exact = true;       // the score is that of all devices
  Picoseconds estimate{};  // of the mapping search, if it was asked: a sum of pieces
  Hash program = 0;        // the same for those of which the same program was scored
};

// What can be left out of the evaluation, to see what it is worth.
struct EvaluatorOptions {
  bool mapping_dp = true;  // else every operator starts at device 0
  bool blocks = true;      // where a block of devices stands for all, that alone is lowered
  bool cache = true;       // costs of edges are kept from graph to graph, Programs and scores from schedule to schedule
  const std::atomic<bool>* stop = nullptr;  // once set, no further candidate is scored
  double time_limit = 0;                    // seconds; 0: none
  int jobs = 0;                             // threads of all that is scored; 0: one for each core
};

class Evaluator {
 public:
  Evaluator(const CostModel& cost, const LowerOptions& lower, Bytes memory_limit, const EvaluatorOptions& options = {});
  // One that counts and logs by itself, but works on the threads of `other`, and stops with it.
  struct Beside {
    Evaluator& other;
  };
  explicit Evaluator(Beside beside);

  // Error when a mapping or lowering does not exist (more tasks than devices), or the search has to stop.
  Result<Candidate> evaluate(Pcg pcg);
  Result<Candidate> evaluate(Pcg pcg, std::vector<MachineMapping> mappings);  // with mappings given
  Result<Candidate> evaluate(Pcg pcg, const Schedule& schedule);              // another schedule than the search's
  Result<Candidate> evaluate(Pcg pcg, std::vector<MachineMapping> mappings, const Schedule& schedule);
  // Of a part of a graph, of which there are many candidates: on many devices, an error where a few do not tell what
  // all do (device_blocks.h). `bucket`: as of the schedule, where that has none.
  Result<Candidate> evaluate_part(Pcg pcg, MappingResult mapping, Bytes bucket);
  Result<Candidate> evaluate_part(Pcg pcg, Bytes bucket);
  // What the mapping search finds, or where that is left out, the natural mapping (and no estimate).
  Result<MappingResult> map(const Pcg& pcg, Shares shares = Shares::halves);
  // Of stages, where that takes no more than some `most_tasks`: if need be of the first micro-batches only, from where
  // on each takes as long as the one before it (of very many tasks, nearly). In a few devices that tell what all do,
  // what all devices of a stage do together is delayed less by what stages send to one another than it is in all: by
  // some 1e-4 of the iteration.
  Result<Candidate> evaluate_stages(Pcg pcg, std::vector<MachineMapping> mappings, const Schedule& schedule,
                                    double most_tasks);
  // The same plan, scored as it was, with its gradients in buckets of another size.
  Result<Candidate> evaluate_bucket(const Candidate& candidate, Bytes bucket);
  // Of one stage, which is mapped here.
  Result<Candidate> evaluate_stages(Pcg pcg, const Schedule& schedule, double most_tasks);
  // The same plan, scored from all devices, where that takes no more than some `most_tasks`.
  Result<Candidate> evaluate_all(const Candidate& candidate,
                                 double most_tasks = std::numeric_limits<double>::infinity());
  const MappingSearch& mapping_search() const { return mapping_; }

  // Every device holds its peak. The limit is the device's memory, or the option where that is smaller.
  bool fits(const Score& score) const;
  Bytes memory_of(DeviceId device) const;
  bool is_limited(DeviceId device) const;   // by the option, to less than the device has
  double excess(const Score& score) const;  // of the memory that a plan needs over what its devices have, the most
  // Whether this is the first candidate of its program that is asked about here: others cost nothing. From one thread
  // at a time, in an order that repeats.
  bool is_first(const Candidate& candidate) { return programs_seen_.insert(candidate.program).second; }
  const CostModel& cost() const { return cost_; }
  std::int64_t scored() const { return scored_; }
  void count(const Evaluator& beside);  // once what it has done is to count here, and to be in the log

  // A complete plan, scored as the `candidates`-th (0: the last): for the log. From one thread at a time, in an order
  // that repeats.
  void found(const Score& score, std::int64_t candidates = 0);
  // The same of one of several searches at once, from any thread: the log has only what does not fit.
  void found_beside(const Score& score);
  // Of the complete plans that do not fit, the one that exceeds the memory of its devices least.
  const std::optional<Score>& smallest() const { return smallest_; }
  SearchRecorder& record() { return record_; }
  Threads& threads() { return threads_; }
  bool stopping() { return record_.stopping(); }
  // So many more candidates are scored all the same, of given mappings. By one thread, when all others have ended.
  void score_after_stop(int candidates) { after_stop_ = candidates; }

 private:
  struct Limits {
    bool few_must_tell = false;
    double most_tasks = std::numeric_limits<double>::infinity();
    bool all = false;   // devices are lowered
    bool keep = false;  // the Program: other schedules may be asked for
  };
  struct Scored {
    Score score;
    MemoryUse memory;
    std::vector<Bytes> behind_turn;  // by device: where all forward passes come first, the most it holds behind them
    std::vector<Bytes> kept;         // by device: what it holds all the time; where there are micro-batches
    std::int64_t tasks = 0;
    Hash program = 0;
  };
  bool one_at_once() const { return static_cast<int>(cost_.topology().device_count()) > kOneAtOnce; }
  Result<Scored> score(const Pcg& pcg, const std::vector<MachineMapping>& mappings, const LowerOptions& options,
                       bool keep);
  Result<Scored> score(Program program, const LowerOptions& options, bool piece);
  Result<Scored> score_from_first(const Pcg& pcg, const std::vector<MachineMapping>& mappings,
                                  const LowerOptions& options, double most_tasks);
  Result<Candidate> evaluate(Pcg pcg, const LowerOptions& lower, const Limits& limits);
  Result<Candidate> evaluate(Pcg pcg, MappingResult mapping, const LowerOptions& lower, const Limits& limits);
  Result<Candidate> evaluate(Pcg pcg, std::vector<MachineMapping> mappings, const LowerOptions& lower,
                             const Limits& limits);

  const CostModel& cost_;
  LowerOptions lower_;
  Bytes memory_limit_;
  EvaluatorOptions options_;
  MappingSearch mapping_;
  CollectiveAlgorithms algorithms_;
  DeviceBlocks blocks_;
  std::optional<SearchRecorder> own_record_;
  SearchRecorder& record_;
  std::optional<Threads> own_threads_;
  Threads& threads_;
  LoweredPrograms programs_;
  std::mutex smallest_mutex_;
  std::optional<Score> smallest_;
  std::mutex scores_mutex_;
  // What is asked for again is not simulated again, nor a Program that does the same as another one.
  std::unordered_map<Hash, Scored> scores_;      // by plan and schedule
  std::unordered_map<Hash, Hash> plan_of_work_;  // a key of these
  std::unordered_set<Hash> programs_seen_;
  std::atomic<std::int64_t> scored_{0};
  std::atomic<int> after_stop_{0};
};

}  // namespace unity
