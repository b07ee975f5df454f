#include "core/plan/schedule.h"

#include <array>

#include "core/base/text.h"
#include "core/plan/accumulation.h"
#include "core/plan/buckets.h"
#include "core/plan/collective_algorithms.h"
#include "core/plan/delayed_weights.h"
#include "core/plan/fuse_chains.h"
#include "core/plan/give_way.h"
#include "core/plan/join_sends.h"
#include "core/plan/join_small.h"
#include "core/plan/offload.h"
#include "core/plan/pipeline_order.h"
#include "core/plan/program.h"
#include "core/plan/receive_in_place.h"
#include "core/plan/rematerialise.h"
#include "core/plan/zero_stages.h"

namespace unity {
namespace {

constexpr std::array<std::string_view, 4> kOrders = {"gpipe", "1f1b", "interleaved", "zb-h1"};
constexpr std::array<std::string_view, 4> kOffloads = {"none", "activations", "optimizer", "activations,optimizer"};
constexpr std::array<std::string_view, 2> kWeightVersions = {"newest", "2bw"};
constexpr std::array<std::string_view, 2> kFuses = {"none", "chains"};

}  // namespace

std::string_view to_string(PipelineOrder order) { return kOrders[static_cast<std::size_t>(order)]; }

std::vector<std::string> pipeline_orders() { return {kOrders.begin(), kOrders.end()}; }

PipelineOrder parse_pipeline_order(std::string_view text, std::string_view subject) {
  auto found = std::find(kOrders.begin(), kOrders.end(), text);
  if (found == kOrders.end()) throw_input_error("{}: found '{}', expected {}", subject, text, fmt::join(kOrders, ", "));
  return static_cast<PipelineOrder>(found - kOrders.begin());
}

std::string_view to_string(WeightVersions weights) { return kWeightVersions[static_cast<std::size_t>(weights)]; }

WeightVersions parse_weight_versions(std::string_view text, std::string_view subject) {
  auto found = std::find(kWeightVersions.begin(), kWeightVersions.end(), text);
  if (found == kWeightVersions.end())
    throw_input_error("{}: found '{}', expected {}", subject, text, fmt::join(kWeightVersions, " or "));
  return static_cast<WeightVersions>(found - kWeightVersions.begin());
}

std::string_view to_string(Fuse fuse) { return kFuses[static_cast<std::size_t>(fuse)]; }

Fuse parse_fuse(std::string_view text, std::string_view subject) {
  auto found = std::find(kFuses.begin(), kFuses.end(), text);
  if (found == kFuses.end()) throw_input_error("{}: found '{}', expected {}", subject, text, fmt::join(kFuses, " or "));
  return static_cast<Fuse>(found - kFuses.begin());
}

std::string_view to_string(Offload offload) { return kOffloads[static_cast<std::size_t>(offload)]; }

Offload parse_offload(std::string_view text, std::string_view subject) {
  auto found = std::find(kOffloads.begin(), kOffloads.end(), text);
  if (found == kOffloads.end())
    throw_input_error("{}: found '{}', expected {}", subject, text, fmt::join(kOffloads, " or "));
  return static_cast<Offload>(found - kOffloads.begin());
}

std::string in_words(const Schedule& s) {
  std::string text(to_string(s.order));
  if (s.overlap == 1) text += ", gradients of weights while others are communicated";
  if (s.overlap > 1)
    text += fmt::format(", {} micro-batches at once, one computed while another is communicated", s.overlap);
  text += s.bucket.count > 0 ? fmt::format(", gradients in buckets of {}", to_string(s.bucket))
                             : ", a collective for each gradient";
  if (!s.remat.empty()) text += fmt::format(", computed again: {}", fmt::join(s.remat, ", "));
  if (contains(s.offload, Offload::activations)) text += ", activations wait on the host";
  if (contains(s.offload, Offload::optimizer)) text += ", optimizer states wait on the host";
  if (s.zero_stage > 0) text += fmt::format(", ZeRO stage {} of what is stored in parts", s.zero_stage);
  if (s.weights == WeightVersions::delayed) text += ", weights of one update before (2bw)";
  if (s.fuse == Fuse::chains) text += ", element-wise operators in chains";
  return text;
}

std::vector<std::string> parse_remat(std::string_view text, std::string_view subject) {
  if (text.empty() || text == "none") return {};
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= text.size();) {
    std::size_t end = std::min(text.find(',', begin), text.size());
    names.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  for (const std::string& name : names) {
    bool keyword = name == "none" || name == "blocks" || name == "all";
    if (name.empty() || (keyword && names.size() > 1))
      throw_input_error("{}: found '{}', expected none, blocks, all, or labels of operators separated by commas",
                        subject, text);
  }
  return names;
}

int parse_zero_stage(std::string_view text, std::string_view subject) {
  if (text.empty()) return 0;
  if (text.size() != 1 || text[0] < '1' || text[0] > '3')
    throw_input_error("{}: found '{}', expected 1, 2 or 3", subject, text);
  return text[0] - '0';
}

namespace {

bool join_transfers(Program& program, std::vector<PooledTask>& pool) {
  bool changed = receive_in_place(program, pool);
  changed = join_small_communications(program, pool) || changed;
  return join_sends(program, pool) || changed;
}

}  // namespace

void join_transfers(Program& program) {
  if (std::vector<PooledTask> pool = take_tasks(program); join_transfers(program, pool)) put_tasks(program, pool);
}

Result<void> schedule_tasks(Program& program, const Schedule& schedule, const Topology& topology, bool joined) {
  return schedule_tasks(program, schedule, CollectiveAlgorithms(topology), joined);
}

Result<void> schedule_tasks(Program& program, const Schedule& schedule, const CollectiveAlgorithms& algorithms,
                            bool joined) {
  UNITY_CHECK(!joined || schedule.remat.empty(), "transfers are joined before {} is computed again", schedule.remat[0]);
  UNITY_TRY_VOID(rematerialise(program, schedule.remat));
  std::vector<PooledTask> pool = take_tasks(program);
  bool changed = !joined && join_transfers(program, pool);
  changed = UNITY_TRY(order_micro_batches(program, pool, schedule)) || changed;
  if (schedule.zero_stage >= 2) changed = scatter_each_gradient(program, pool) || changed;
  if (schedule.zero_stage >= 3) changed = gather_again(program, pool) || changed;
  changed = accumulate_in_place(program, pool) || changed;
  changed = join_gradients(program, pool, schedule.bucket) || changed;
  if (schedule.overlap > 0) changed = give_way(program, pool) || changed;
  if (schedule.zero_stage >= 2) changed = limit_whole_gradients(program, pool) || changed;
  if (changed) put_tasks(program, pool);
  UNITY_TRY_VOID(delay_weights(program, schedule.weights));
  offload(program, schedule.offload);
  if (schedule.fuse == Fuse::chains)
    if (std::vector<PooledTask> all = take_tasks(program); fuse_chains(program, all)) put_tasks(program, all);
  choose_algorithms(program, algorithms);
  return check_program(program);
}

}  // namespace unity
