#include "simulator/incremental/resimulate.h"

#include <algorithm>

#include "simulator/incremental/alignment.h"

namespace unity {
namespace {

constexpr std::uint32_t kNone = Alignment::kNone;
constexpr Picoseconds kNever{INT64_MAX};
constexpr Picoseconds kNotYet{-1};

// Of a start or an end, as in Recording::log.
Hash hash_of(std::uint32_t entry) { return mix(entry); }

class Recorder final : public SimulationObserver {
 public:
  Recorder(Recording& recording, std::size_t interval) : recording_(recording), interval_(interval) {
    recording_.tasks.resize(recording_.prepared->program->tasks.size());
    recording_.log.reserve(2 * recording_.tasks.size());
  }

  void started(std::uint32_t task, Picoseconds now) override {
    recording_.tasks[task].start = now;
    note(2 * task);
  }
  void ended(std::uint32_t task, Picoseconds now) override {
    recording_.tasks[task].end = now;
    note(2 * task + 1);
  }
  void settled(Simulation& simulation) override {
    std::size_t size = recording_.log.size(), all = 2 * recording_.tasks.size();
    bool at_end = size == all && (recording_.moments.empty() || recording_.moments.back().log_end < all);
    if (size >= next_ || at_end) keep(simulation);
  }

 private:
  void note(std::uint32_t entry) {
    recording_.log.push_back(entry);
    happened_ += hash_of(entry);
  }
  void keep(const Simulation& simulation) {
    next_ = recording_.log.size() + interval_;
    recording_.moments.push_back({simulation.now(), recording_.log.size(), happened_, simulation.state()});
  }

  Recording& recording_;
  std::size_t interval_, next_ = 0;  // of entries of the log
  Hash happened_ = 0;
};

class Resimulator final : public SimulationObserver {
 public:
  Resimulator(const PreparedProgram& changed, const Recording& recording)
      : recording_(recording), alignment_(*recording.prepared, recording.keys, changed) {
    done_.tasks.resize(changed.program->tasks.size(), {kNotYet, kNotYet});
    find_common_moments();
  }

  void started(std::uint32_t task, Picoseconds now) override {
    note(task, 0);
    set(done_.tasks[task].start, now);
  }
  void ended(std::uint32_t task, Picoseconds now) override {
    note(task, 1);
    set(done_.tasks[task].end, now);
    ++done_.simulated;
  }
  void settled(Simulation& simulation) override {
    auto [first, last] =
        std::equal_range(moments_.begin(), moments_.end(), CommonMoment{happened_, 0},
                         [](const CommonMoment& a, const CommonMoment& b) { return a.happened < b.happened; });
    for (; first != last; ++first)
      if (jump(simulation, first->moment)) return;
  }

  Resimulation take(SimulationResult result) {
    done_.result = std::move(result);
    return std::move(done_);
  }

 private:
  struct CommonMoment {
    Hash happened;  // of aligned tasks
    std::size_t moment;
  };

  void note(std::uint32_t task, std::uint32_t end) {
    if (std::uint32_t before = alignment_.to_before()[task]; before != kNone) happened_ += hash_of(2 * before + end);
  }
  static void set(Picoseconds& time, Picoseconds now) {
    UNITY_CHECK(time == kNotYet, "a task starts or ends twice, at {} and {} ps", time.count, now.count);
    time = now;
  }

  // Takes what only the old Program has out of what has happened at each moment.
  void find_common_moments() {
    std::vector<Hash> gone(recording_.moments.size() + 1);  // since the moment before
    auto first_at = [&](Picoseconds time) {
      auto at = std::partition_point(recording_.moments.begin(), recording_.moments.end(),
                                     [&](const Recording::Moment& m) { return m.now < time; });
      return static_cast<std::size_t>(at - recording_.moments.begin());
    };
    const Alignment::Changed& changed = alignment_.changed_before();
    for (std::size_t i = 0; i < changed.count(); ++i) {
      std::uint32_t task = changed.task(i);
      if (alignment_.to_after()[task] != kNone) continue;
      gone[first_at(recording_.tasks[task].start)] += hash_of(2 * task);
      gone[first_at(recording_.tasks[task].end)] += hash_of(2 * task + 1);
    }
    Hash sum = 0;
    for (std::size_t m = 0; m < recording_.moments.size(); ++m) {
      sum += gone[m];
      common_.push_back(recording_.moments[m].happened - sum);
      moments_.push_back({common_.back(), m});
    }
    std::sort(moments_.begin(), moments_.end(), [](const CommonMoment& a, const CommonMoment& b) {
      return std::pair(a.happened, a.moment) < std::pair(b.happened, b.moment);
    });
  }

  // A state of the old Program as one of the new; false when a task of the old alone is part of it.
  bool translate(Simulation::State& state) const {
    auto to_after = [&](std::uint32_t& task) { return (task = alignment_.to_after()[task]) != kNone; };
    return std::all_of(state.pending.begin(), state.pending.end(), [&](auto& p) { return to_after(p.task); }) &&
           std::all_of(state.collectives.begin(), state.collectives.end(), [&](auto& c) { return to_after(c.task); }) &&
           std::all_of(state.units.waiting.begin(), state.units.waiting.end(),
                       [&](auto& waiting) {
                         return std::all_of(waiting.begin(), waiting.end(), [&](auto& w) { return to_after(w.task); });
                       }) &&
           std::all_of(state.units.held.begin(), state.units.held.end(), [&](auto& h) { return to_after(h.task); });
  }

  bool jump(Simulation& simulation, std::size_t from) {
    const Recording::Moment& here = recording_.moments[from];
    Simulation::State state = here.state;
    if (!translate(state) || state != simulation.state()) return false;
    if (from + 1 == recording_.moments.size()) return false;
    Picoseconds stop = next_influence(here.now, recording_.moments[from + 1].now);
    auto after =
        std::partition_point(recording_.moments.begin() + static_cast<std::ptrdiff_t>(from), recording_.moments.end(),
                             [&](const Recording::Moment& m) { return m.now < stop; });
    std::size_t to = static_cast<std::size_t>(after - recording_.moments.begin()) - 1;
    if (after == recording_.moments.begin() || to <= from) return false;
    const Recording::Moment& there = recording_.moments[to];
    copy(simulation, here.log_end, there.log_end, simulation.now() - here.now);
    state = there.state;
    UNITY_CHECK(translate(state), "a task of one program alone within what both have in common");
    simulation.resume(state, simulation.now() + (there.now - here.now));
    happened_ = common_[to];
    ++done_.jumps;
    return true;
  }

  void copy(Simulation& simulation, std::size_t begin, std::size_t end, Picoseconds shift) {
    for (std::size_t i = begin; i < end; ++i) {
      std::uint32_t before = recording_.log[i] / 2, task = alignment_.to_after()[before];
      UNITY_CHECK(task != kNone, "task {} of one program alone within what both have in common", before);
      if (recording_.log[i] % 2 == 0) {
        set(done_.tasks[task].start, recording_.tasks[before].start + shift);
        simulation.replay_start(task);
      } else {
        set(done_.tasks[task].end, recording_.tasks[before].end + shift);
        simulation.replay_end(task, done_.tasks[task].end);
        ++done_.reused;
      }
    }
  }

  // When something may become ready that is not common to both runs, at the earliest: where all that it waits for has
  // ended. What waits for another such thing comes later than that. In the old run's time; both are at `now`. Any time
  // up to `enough` says as much as another.
  Picoseconds next_influence(Picoseconds now, Picoseconds enough) {
    Picoseconds next = kNever;
    const Alignment::Changed &before = alignment_.changed_before(), &after = alignment_.changed_after();
    // What a task still waits for, by tasks of the new Program.
    auto left_before = [&](std::size_t i) -> const std::vector<std::uint32_t>& {
      left_before_.clear();
      for (std::uint32_t t : before.waits_for(i))
        if (recording_.tasks[t].end > now) left_before_.push_back(alignment_.to_after()[t]);
      return left_before_;
    };
    auto left_after = [&](std::size_t j) -> const std::vector<std::uint32_t>& {
      left_after_.clear();
      for (std::uint32_t t : after.waits_for(j))
        if (done_.tasks[t].end == kNotYet) left_after_.push_back(t);
      return left_after_;
    };
    auto consider = [&](const std::vector<std::uint32_t>& left) {
      Picoseconds ready = now;
      for (std::uint32_t t : left) {
        std::uint32_t then = t == kNone ? kNone : alignment_.to_before()[t];
        if (then == kNone) return;
        ready = std::max(ready, recording_.tasks[then].end);
      }
      next = std::min(next, ready);
    };
    auto is_open = [&](std::size_t j) { return done_.tasks[after.task(j)].start == kNotYet; };
    // Both lists have the aligned tasks in the same order.
    std::size_t j = 0;
    for (std::size_t i = 0; i < before.count() && next > enough; ++i) {
      std::uint32_t partner = alignment_.to_after()[before.task(i)];
      if (partner == kNone) {
        if (recording_.tasks[before.task(i)].start > now) consider(left_before(i));
        continue;
      }
      for (; after.task(j) != partner; ++j)
        if (is_open(j)) consider(left_after(j));
      if (is_open(j)) {
        left_before(i), left_after(j);
        std::sort(left_before_.begin(), left_before_.end());
        std::sort(left_after_.begin(), left_after_.end());
        if (left_before_ != left_after_) consider(left_before_), consider(left_after_);
      }
      ++j;
    }
    for (; j < after.count() && next > enough; ++j)
      if (is_open(j)) consider(left_after(j));
    return next;
  }

  const Recording& recording_;
  Alignment alignment_;
  std::vector<Hash> common_;           // by moment: what has happened of aligned tasks
  std::vector<CommonMoment> moments_;  // by that
  Hash happened_ = 0;                  // in the new run, of aligned tasks
  std::vector<std::uint32_t> left_before_, left_after_;
  Resimulation done_;
};

}  // namespace

Recording record(const PreparedProgram& prepared, const Topology& topology, const SimulationOptions& options,
                 std::size_t moments) {
  UNITY_CHECK(!options.steps && moments > 0, "nothing can be reused of a simulation by steps");
  Recording recording{&prepared, options, {}, {}, {}, {}, task_keys(*prepared.program)};
  recording.options.trace = false;
  Recorder recorder(recording, std::max<std::size_t>(1, 2 * prepared.program->tasks.size() / moments));
  recording.result = Simulation(prepared, topology, recording.options).run(&recorder);
  return recording;
}

Resimulation resimulate(const PreparedProgram& changed, const Recording& recording, const Topology& topology) {
  Resimulator resimulator(changed, recording);
  SimulationResult result = Simulation(changed, topology, recording.options).run(&resimulator);
  return resimulator.take(std::move(result));
}

}  // namespace unity
