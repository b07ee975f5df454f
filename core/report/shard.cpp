#include "core/report/shard.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

#include "core/base/text.h"

namespace unity::report {
namespace {

constexpr int kMostShards = 100'000;

std::optional<int> whole_number(std::string_view text) {
  int value = 0;
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || rest != text.data() + text.size()) return {};
  return value;
}

// The task of an array of jobs, each of which may be several tasks of srun.
Shard slurm_shard(const Variables& variable) {
  auto number = [&](const char* name) -> std::optional<int> {
    const char* text = variable(name);
    if (!text || !*text) return {};
    std::optional<int> value = whole_number(text);
    if (!value || *value < 0)
      throw_input_error("--shard slurm: found {} = '{}', expected a number, as Slurm sets it", name, text);
    return value;
  };
  std::optional<int> id = number("SLURM_ARRAY_TASK_ID"), least = number("SLURM_ARRAY_TASK_MIN"),
                     most = number("SLURM_ARRAY_TASK_MAX"), count = number("SLURM_ARRAY_TASK_COUNT"),
                     step = number("SLURM_ARRAY_TASK_STEP"), rank = number("SLURM_PROCID"),
                     tasks = number("SLURM_STEP_NUM_TASKS");
  if (!tasks) tasks = number("SLURM_NTASKS");
  if (!rank || !tasks) rank = 0, tasks = 1;
  if (!id && *tasks == 1 && !variable("SLURM_PROCID"))
    throw_input_error(
        "--shard slurm: found neither SLURM_ARRAY_TASK_ID nor SLURM_PROCID, expected a task of sbatch --array or srun");
  std::int64_t place = 0, places = 1;
  if (id) {
    if (!least || !most)
      throw_input_error(
          "--shard slurm: found SLURM_ARRAY_TASK_ID without SLURM_ARRAY_TASK_MIN and SLURM_ARRAY_TASK_MAX, expected "
          "the variables of a job array; or say --shard I/N");
    std::int64_t by = std::max(1, step.value_or(1));
    place = (*id - *least) / by;
    places = (std::int64_t{*most} - *least) / by + 1;
    if ((count && *count != places) || (*id - *least) % by != 0 || place < 0 || place >= places)
      throw_input_error(
          "--shard slurm: found an array of {} tasks from {} to {}, expected one without gaps; say --shard I/N instead",
          count.value_or(0), *least, *most);
  }
  if (*tasks < 1 || *rank >= *tasks)
    throw_input_error("--shard slurm: found task {} of {}, expected one of 0 to N - 1", *rank, *tasks);
  places *= *tasks;
  if (places > kMostShards)
    throw_input_error("--shard slurm: found {} tasks, expected at most {}", places, kMostShards);
  return {static_cast<int>(place * *tasks + *rank) + 1, static_cast<int>(places)};
}

}  // namespace

std::string to_string(const Shard& shard) { return fmt::format("{}/{}", shard.index, shard.count); }

Shard parse_shard(const std::string& text, const Variables& variable) {
  if (text == "slurm") return slurm_shard(variable);
  std::size_t slash = std::min(text.find('/'), text.size());
  std::optional<int> index = whole_number(std::string_view(text).substr(0, slash)),
                     count = whole_number(std::string_view(text).substr(std::min(slash + 1, text.size())));
  if (!index || !count || *count < 1 || *count > kMostShards || *index < 1 || *index > *count)
    throw_input_error("--shard: found '{}', expected I/N with I from 1 to N (at most {}), as in 2/8, or slurm", text,
                      kMostShards);
  return {*index, *count};
}

double estimated_work(const GridPoint& point) {
  const std::string& s = point.variant.strategy;
  bool fixed = s == "data-parallel" || s == "deepspeed-zero" || s == "expert" || s == "random";
  constexpr int kDevicesOfNode = 8, kDefault = 8;  // what the topology says is not known here
  int devices = point.devices ? point.devices : point.nodes ? kDevicesOfNode * point.nodes : kDefault;
  return (fixed ? 1 : 100) * static_cast<double>(devices);
}

// Dealt like cards to players who sit in a row, there and back again, those with most work first: after each round the
// players differ by less than the largest card of that round, so at the end by the largest of all. Points of equal
// work stay in the order of the grid, so that each shard gets its share of each model.
std::vector<int> shards_of(const std::vector<GridPoint>& grid, int count) {
  std::vector<std::size_t> order(grid.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<double> work;
  for (const GridPoint& p : grid) work.push_back(estimated_work(p));
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return work[a] > work[b]; });
  std::vector<int> shards(grid.size());
  auto players = static_cast<std::size_t>(count);
  for (std::size_t k = 0; k < order.size(); ++k) {
    std::size_t seat = k % players;
    if (k / players % 2 == 1) seat = players - 1 - seat;
    shards[order[k]] = static_cast<int>(seat) + 1;
  }
  return shards;
}

}  // namespace unity::report
