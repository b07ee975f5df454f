#include "cli/profile_collectives.h"

#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "cli/table.h"
#include "core/base/text.h"
#include "core/plan/collective_key.h"
#include "runtime/profile/collectives.h"
#include "simulator/collectives/choice.h"

namespace unity::cli {
namespace {

const Communication& communication_of(const WantedCollective& w) {
  return w.program->communications[static_cast<std::size_t>(w.program->tasks[w.task.index()].op)];
}

Topology without_profiles(Topology machine) {
  for (DeviceSpec& spec : machine.specs) spec.profile = nullptr;
  return machine;
}

}  // namespace

void WantedCollectives::add(const Program& program, const Topology& machine, const std::vector<DType>* held) {
  struct Found {
    CollectiveKey key;
    TaskId task;
  };
  std::vector<Found> all;
  for (std::size_t t = 0; t < program.tasks.size(); ++t)
    if (const Task& task = program.tasks[t]; task.kind == TaskKind::communicate)
      all.push_back({collective_key(program.communications[static_cast<std::size_t>(task.op)], machine),
                     TaskId(static_cast<std::int64_t>(t))});
  std::stable_sort(all.begin(), all.end(), [](const Found& a, const Found& b) { return a.key.bytes < b.key.bytes; });
  for (const Found& f : all) {
    auto near = std::find_if(list_.begin(), list_.end(), [&](const WantedCollective& w) {
      return w.name == f.key.name && w.bytes <= 2 * f.key.bytes && f.key.bytes <= 2 * w.bytes;
    });
    if (near != list_.end())
      ++near->count;
    else
      list_.push_back({f.key.name, f.key.bytes, 1, &program, &machine, f.task, held});
  }
}

void WantedCollectives::add_all(const Topology& machine, Bytes largest) {
  for (const std::vector<DeviceId>& group : groups_to_measure(machine))
    for (CollectiveKind kind : kinds_to_measure(group.size()))
      for (Bytes bytes : sizes_to_measure(largest)) {
        const Program& p = own_.emplace_back(collective_of(kind, group, bytes, machine));
        CollectiveKey key = collective_key(p.communications[0], machine);
        list_.push_back({key.name, key.bytes, 0, &p, &machine, TaskId(0), nullptr});
      }
}

std::string WantedCollectives::text() const {
  std::vector<std::string> texts;
  for (const WantedCollective& w : list_) texts.push_back(fmt::format("{} {:.0f} B", w.name, w.bytes));
  return fmt::format("{} ({:016x})", texts.size(), hash_text(join(texts)));
}

namespace {

struct Row {
  const WantedCollective* wanted;
  const ProfilePoint* point;
  double modelled;
};

// Of a machine as if nothing had been measured.
struct Model {
  explicit Model(const Topology& machine) : bare(without_profiles(machine)), cache(bare) {}
  Topology bare;
  CollectiveCache cache;
};

// Those that were measured, in the order of the list.
std::vector<Row> rows(const WantedCollectives& wanted, const MeasuredCollectives& measured) {
  std::map<const Topology*, Model> models;
  auto model = [&](const WantedCollective& w) {
    return models.try_emplace(w.machine, *w.machine).first->second.cache.choose(communication_of(w))->predicted();
  };
  std::vector<Row> rows;
  for (const WantedCollective& w : wanted.list())
    if (const std::vector<ProfilePoint>* points = measured.find(w.name))
      for (const ProfilePoint& p : *points)
        if (p.amount == w.bytes) rows.push_back({&w, &p, model(w).seconds()});
  return rows;
}

}  // namespace

void print_measured(const WantedCollectives& wanted, const MeasuredCollectives& measured) {
  std::vector<std::string> names;
  std::map<std::string, std::vector<Row>> by_name;
  for (const Row& row : rows(wanted, measured)) {
    if (!by_name.contains(row.wanted->name)) names.push_back(row.wanted->name);
    by_name[row.wanted->name].push_back(row);
  }
  if (names.empty()) return;
  Table table({"collective", "sizes", "smallest", "takes", "largest", "takes", "rate", "worst spread", "over model"});
  for (const std::string& name : names) {
    const std::vector<Row>& all = by_name[name];
    auto [low, high] = std::minmax_element(
        all.begin(), all.end(), [](const Row& a, const Row& b) { return a.point->amount < b.point->amount; });
    double worst = 0, least = 1e300, most = 0;
    for (const Row& row : all) {
      worst = std::max(worst, spread(*row.point));
      if (row.modelled > 0) {
        least = std::min(least, row.point->warm / row.modelled);
        most = std::max(most, row.point->warm / row.modelled);
      }
    }
    auto bytes = [](const Row& row) { return to_string(Bytes{static_cast<std::int64_t>(row.point->amount)}); };
    table.add({name, std::to_string(all.size()), bytes(*low), to_string(from_seconds(low->point->warm)), bytes(*high),
               to_string(from_seconds(high->point->warm)),
               to_string(BytesPerSecond{high->point->amount / high->point->warm}), fmt::format("{:.0f}%", 100 * worst),
               most > 0 ? fmt::format("{:.2f} to {:.2f}", least, most) : "-"});
  }
  table.print();
  fmt::print("\n");
}

nlohmann::ordered_json measured_json(const WantedCollectives& wanted, const MeasuredCollectives& measured) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Row& row : rows(wanted, measured)) {
    const Communication& c = communication_of(*row.wanted);
    list.push_back({{"collective", row.wanted->name},
                    {"kind", to_string(c.kind)},
                    {"devices", c.participants.size()},
                    {"bytes", static_cast<std::int64_t>(row.point->amount)},
                    {"seconds", row.point->warm},
                    {"low_seconds", row.point->low},
                    {"high_seconds", row.point->high},
                    {"modelled_seconds", row.modelled}});
  }
  return list;
}

}  // namespace unity::cli
