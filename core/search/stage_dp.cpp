#include "core/search/stage_dp.h"

#include <algorithm>
#include <limits>

#include "core/search/stage_memory.h"

namespace unity {
namespace {

constexpr std::size_t kBounds = 48;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

class StageDp {
 public:
  explicit StageDp(const StageProblem& problem)
      : p_(problem), layers_(index(problem.layers)), devices_(index(problem.devices)) {
    most_ = std::min(layers_, devices_);
    options_.resize(layers_ * (layers_ + 1) * p_.submeshes.size());
    for (std::size_t first = 0; first < layers_; ++first)
      for (std::size_t last = first + 1; last <= layers_; ++last)
        for (std::size_t w = 0; w < p_.submeshes.size(); ++w)
          options_[place(first, last, w)] =
              p_.options(static_cast<int>(first), static_cast<int>(last), static_cast<int>(w));
    behind_.assign(p_.submeshes.size(), std::vector<char>(devices_ + 1, false));
    for (std::size_t w = 0; w < p_.submeshes.size(); ++w)
      for (std::size_t behind = 0, width = index(p_.submeshes[w].width); behind + width <= devices_; ++behind)
        behind_[w][behind] = p_.submeshes[w].starts[devices_ - behind - width];
    reached_.resize(layers_ + 1);
    handover_.assign((layers_ + 1) * (devices_ + 1), 0);
    for (std::size_t cut = 1; cut < layers_; ++cut)
      for (std::size_t d = 1; d < devices_; ++d)
        handover_[cut * (devices_ + 1) + d] = p_.handover(static_cast<int>(cut), static_cast<int>(d));
  }

  std::vector<ChosenStages> run() {
    fit_options();
    const std::vector<std::int64_t> all = bounds();
    std::vector<ChosenStages> best(most_ + 1);
    if (all.empty()) return {};
    const std::vector<std::int64_t> least = least_sums(all.back());
    for (std::size_t i = 0; i < all.size(); ++i) {
      // What is new has a stage that takes longer than the bound before.
      auto may_gain = [&](std::size_t stages) {
        if (least[stages] == kNever) return false;
        return best[stages].stages.empty() || least[stages] + (p_.micro_batches - 1) * all[i - 1] < best[stages].time;
      };
      std::size_t most = most_;
      while (most > 0 && !may_gain(most)) --most;
      if (most == 0) break;
      begin_sums();
      for (std::size_t stages = 1; stages <= most; ++stages) {
        if (!add_stage(stages, all[i])) break;
        ChosenStages found = read_off(stages);
        if (found.stages.empty()) continue;
        if (best[stages].stages.empty() || found.time < best[stages].time) best[stages] = std::move(found);
      }
    }
    std::erase_if(best, [](const ChosenStages& c) { return c.stages.empty(); });
    return best;
  }

 private:
  // The stage in front, where the layers from `first` on are on the last `devices` devices.
  struct Front {
    std::int16_t last = 0, submesh = 0;
  };

  template <class T>
  static std::size_t index(T i) {
    return static_cast<std::size_t>(i);
  }
  std::size_t place(std::size_t first, std::size_t last, std::size_t width) const {
    return (first * (layers_ + 1) + last) * p_.submeshes.size() + width;
  }
  std::int64_t in_flight(std::size_t stages) const {
    return p_.all_in_flight ? p_.micro_batches : std::min<std::int64_t>(p_.micro_batches, static_cast<int>(stages));
  }
  double needed(const StageOption& o, std::int64_t held) const {
    auto bytes = [](std::int64_t n) { return static_cast<double>(n); };
    return StageNeeds{bytes(o.persistent), bytes(o.gradients), bytes(o.in_flight), bytes(o.turn), bytes(o.first_turn)}
        .peak(held, p_.micro_batches);
  }
  std::size_t sum_at(std::size_t first, std::size_t devices) const { return first * (devices_ + 1) + devices; }
  Front& front(std::size_t stages, std::size_t first, std::size_t devices) {
    return fronts_[(stages - 1) * sums_.size() + sum_at(first, devices)];
  }

  // fitting_[stages][range]: the first option that fits where so many stages begin with the range; -1: none.
  void fit_options() {
    fitting_.assign(most_ + 1, std::vector<int>(options_.size(), -1));
    for (std::size_t stages = 1; stages <= most_; ++stages) {
      std::int64_t held = in_flight(stages);
      for (std::size_t i = 0; i < options_.size(); ++i)
        for (std::size_t o = options_[i].size(); o-- > 0;)
          if (needed(options_[i][o], held) <= static_cast<double>(p_.memory[i % p_.submeshes.size()]))
            fitting_[stages][i] = static_cast<int>(o);
    }
  }
  std::int64_t time_of(std::size_t stages, std::size_t range) const {
    int option = fitting_[stages][range];
    return option < 0 ? kNever : options_[range][index(option)].time;
  }

  std::int64_t awaited(std::size_t stages, std::size_t range) const {
    const StageOption& o = options_[range][index(fitting_[stages][range])];
    return o.time - o.unawaited;
  }

  std::vector<std::int64_t> bounds() const {
    std::vector<std::int64_t> all;
    for (std::size_t stages = 1; stages <= most_; ++stages)
      for (std::size_t i = 0; i < options_.size(); ++i)
        if (time_of(stages, i) != kNever) all.push_back(time_of(stages, i));
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    bool counts = p_.micro_batches > 1;  // the maximum, or what of it is unawaited
    for (const std::vector<StageOption>& options : options_)
      for (const StageOption& o : options) counts = counts || o.unawaited > 0;
    if (!counts && !all.empty()) return {all.back()};
    if (all.size() <= kBounds) return all;
    std::vector<std::int64_t> some;
    for (std::size_t i = 1; i <= kBounds; ++i) some.push_back(all[i * (all.size() - 1) / kBounds]);
    return some;
  }

  void begin_sums() {
    sums_.assign((layers_ + 1) * (devices_ + 1), kNever);
    sums_[sum_at(layers_, 0)] = 0;
  }

  // Of all layers, by number of stages; kNever: they can not be cut so.
  std::vector<std::int64_t> least_sums(std::int64_t bound) {
    std::vector<std::int64_t> least(most_ + 1, kNever);
    begin_sums();
    for (std::size_t stages = 1; stages <= most_ && add_stage(stages, bound); ++stages)
      for (std::size_t d = 1; d <= devices_; ++d) least[stages] = std::min(least[stages], sums_[sum_at(0, d)]);
    return least;
  }

  // From the sums of so many stages less one to those of so many. False: there are none.
  bool add_stage(std::size_t stages, std::int64_t bound) {
    fronts_.resize(most_ * sums_.size());
    sums_.swap(rest_);
    sums_.assign(rest_.size(), kNever);
    for (std::size_t last = 1; last <= layers_; ++last) {
      reached_[last].clear();
      for (std::size_t behind = 0; behind < devices_; ++behind)
        if (rest_[sum_at(last, behind)] != kNever) reached_[last].push_back(behind);
    }
    bool any = false;
    for (std::size_t first = 0; first < layers_; ++first)
      for (std::size_t last = first + 1; last <= layers_; ++last)
        for (std::size_t w = 0; w < p_.submeshes.size() && !reached_[last].empty(); ++w) {
          const std::size_t range = place(first, last, w);
          if (time_of(stages, range) > bound) continue;
          const std::size_t width = index(p_.submeshes[w].width);
          const std::int64_t own = awaited(stages, range);
          for (std::size_t behind : reached_[last]) {
            if (!behind_[w][behind]) continue;
            std::int64_t sum = rest_[sum_at(last, behind)] + own + handover_[last * (devices_ + 1) + devices_ - behind];
            std::int64_t& here = sums_[sum_at(first, behind + width)];
            if (sum >= here) continue;
            here = sum, any = true;
            front(stages, first, behind + width) = {static_cast<std::int16_t>(last), static_cast<std::int16_t>(w)};
          }
        }
    return any;
  }

  ChosenStages read_off(std::size_t stages) {
    std::size_t devices = 0;
    for (std::size_t d = 1; d <= devices_; ++d)
      if (sums_[sum_at(0, d)] < sums_[sum_at(0, devices)]) devices = d;
    ChosenStages result;
    if (sums_[sum_at(0, devices)] == kNever) return result;
    result.time = sums_[sum_at(0, devices)];
    std::int64_t slowest = 0, unawaited = 0;  // of the slowest
    for (std::size_t first = 0; first < layers_;) {
      const Front& c = front(stages, first, devices);
      std::size_t last = index(c.last), w = index(c.submesh), range = place(first, last, w);
      result.stages.push_back({static_cast<int>(first), static_cast<int>(last), static_cast<int>(devices_ - devices),
                               static_cast<int>(w), fitting_[stages][range]});
      if (std::int64_t time = time_of(stages, range); time > slowest)
        slowest = time, unawaited = time - awaited(stages, range);
      devices -= index(p_.submeshes[w].width), first = last, --stages;
    }
    result.time += (p_.micro_batches - 1) * slowest + unawaited;
    return result;
  }

  const StageProblem& p_;
  std::size_t layers_, devices_, most_;
  std::vector<std::vector<StageOption>> options_;  // by range and width
  std::vector<std::vector<char>> behind_;          // by submesh: whether so many devices may follow one
  std::vector<std::vector<int>> fitting_;
  std::vector<std::int64_t> handover_;
  // Of one number of stages, and of one less: the least sum of the layers from one on, on so many of the last devices.
  std::vector<std::int64_t> sums_, rest_;
  std::vector<std::vector<std::size_t>> reached_;  // of the sums of one less: the numbers of devices, by layer
  std::vector<Front> fronts_;                      // of all numbers
};

}  // namespace

std::vector<ChosenStages> choose_stages(const StageProblem& problem) { return StageDp(problem).run(); }

}  // namespace unity
