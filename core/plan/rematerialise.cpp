#include "core/plan/rematerialise.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "core/base/text.h"
#include "core/plan/task_pool.h"

namespace unity {

std::string repeated_block(const std::string& label) {
  for (std::size_t begin = 0; begin < label.size();) {
    std::size_t end = std::min(label.find('.', begin), label.size());
    bool number = end > begin && std::all_of(label.begin() + static_cast<std::ptrdiff_t>(begin),
                                             label.begin() + static_cast<std::ptrdiff_t>(end),
                                             [](char c) { return c >= '0' && c <= '9'; });
    if (number) return label.substr(0, end);
    begin = end + 1;
  }
  return {};
}

namespace {

constexpr int kNone = -1;

bool is_under(const std::string& label, const std::string& name) {
  return label == name || (label.size() > name.size() && label.starts_with(name) && label[name.size()] == '.');
}

// By op of the program: its segment. Only operators of the forward pass have one.
Result<std::vector<int>> segments_of(const Program& program, const std::vector<std::string>& names) {
  std::vector<int> segment(program.ops.size(), kNone);
  std::vector<std::size_t> forward;
  std::vector<bool> seen(program.ops.size(), false);
  for (const Task& t : program.tasks)
    if (t.kind == TaskKind::compute && t.phase == Phase::forward && !seen[static_cast<std::size_t>(t.op)]) {
      forward.push_back(static_cast<std::size_t>(t.op));
      seen[forward.back()] = true;
    }
  if (names[0] == "all") {
    auto length = static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(forward.size()))));
    for (std::size_t i = 0; i < forward.size(); ++i)
      if (i / length < (forward.size() - 1) / length) segment[forward[i]] = static_cast<int>(i / length);
    return segment;
  }
  if (names[0] == "blocks") {
    std::map<std::string, int> blocks;
    for (std::size_t op : forward) {
      std::string block = repeated_block(program.ops[op].name);
      if (block.empty()) continue;
      segment[op] = blocks.try_emplace(block, static_cast<int>(blocks.size())).first->second;
    }
    if (blocks.empty())
      return fail("rematerialise: no operator of {} stands in a repeated block; expected all, or labels", program.name);
    return segment;
  }
  for (std::size_t n = 0; n < names.size(); ++n) {
    bool found = false;
    for (std::size_t op : forward)
      if (is_under(program.ops[op].name, names[n])) segment[op] = static_cast<int>(n), found = true;
    if (found) continue;
    std::vector<std::string> known;
    for (std::size_t op : forward) known.push_back(program.ops[op].name);
    return fail("rematerialise: '{}' names no operator of {}{}", names[n], program.name, suggestion(names[n], known));
  }
  return segment;
}

// What is computed again together: a segment on a device, for a micro-batch.
struct Place {
  int segment = kNone;
  DeviceId device;
  std::int32_t micro = 0;
  auto operator<=>(const Place&) const = default;
};

class Rematerialisation {
 public:
  Rematerialisation(Program& program, std::vector<int> segment)
      : program_(program), pool_(take_tasks(program)), maker_(program.buffers.size()), place_(pool_.size()) {
    find_makers(segment);
    find_kept();
  }

  void run() {
    std::size_t tasks = pool_.size();
    // Copies of tasks go before the first reader of any of their place; in the order of the originals.
    std::vector<std::set<std::size_t>> before(tasks);
    std::map<Place, std::size_t> first_reader;
    std::map<Place, std::set<std::size_t>> again;
    for (std::size_t i = 0; i < tasks; ++i) {
      if (pool_[i].task.phase != Phase::backward) continue;
      for_each_use(program_, pool_[i].task, pool_[i].operands, [&](BufferId b, bool) {
        if (!is_dropped(b)) return;
        std::size_t maker = *maker_[b.index()];
        first_reader.try_emplace(place_[maker], i);
        need(maker, again[place_[maker]]);
      });
    }
    for (const auto& [place, makers] : again) {
      std::size_t reader = first_reader.at(place);
      for (std::size_t maker : makers) repeat(maker, reader, before);
    }
    for (std::size_t i = 0; i < tasks; ++i)
      if (pool_[i].task.phase == Phase::backward) redirect(pool_[i]);
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < tasks; ++i) {
      order.insert(order.end(), before[i].begin(), before[i].end());
      order.push_back(i);
    }
    put_tasks(program_, pool_, order);
  }

 private:
  // Computations and local copies of a segment that alone write what they write.
  void find_makers(const std::vector<int>& segment) {
    std::vector<int> writers(program_.buffers.size(), 0);
    for (std::size_t i = 0; i < pool_.size(); ++i)
      for_each_use(program_, pool_[i].task, pool_[i].operands, [&](BufferId b, bool written) {
        if (!written) return;
        ++writers[b.index()];
        maker_[b.index()] = i;
      });
    for (std::size_t b = 0; b < maker_.size(); ++b)
      if (writers[b] != 1) maker_[b].reset();
    for (std::size_t i = 0; i < pool_.size(); ++i) {
      const Task& t = pool_[i].task;
      if (t.phase != Phase::forward) break;
      if (t.kind == TaskKind::compute) {
        place_[i] = {segment[static_cast<std::size_t>(t.op)], t.device, t.micro};
        // Random masks have no micro-batch of their own: they serve that of their user.
        for (std::size_t k = 0; k < op_of(t)->inputs; ++k)
          if (auto from = maker_[pool_[i].operands[k].index()])
            if (const ProgramOp* op = op_of(pool_[*from].task); op && op->inputs == 0) place_[*from].micro = t.micro;
      } else if (t.kind == TaskKind::copy) {
        auto from = maker_[pool_[i].operands[0].index()];
        if (from && program_.buffer(pool_[i].operands[1]).box == program_.boxes[static_cast<std::size_t>(t.op)])
          place_[i] = place_[*from];
      }
    }
  }

  // A result is kept when something outside its place uses it in the forward pass, or an output of the graph is it.
  void find_kept() {
    kept_.assign(program_.buffers.size(), false);
    for (std::size_t b = 0; b < maker_.size(); ++b) kept_[b] = !maker_[b] || place_[*maker_[b]].segment == kNone;
    for (std::size_t i = 0; i < pool_.size(); ++i)
      for_each_use(program_, pool_[i].task, pool_[i].operands, [&](BufferId b, bool) {
        bool inside = maker_[b.index()] && place_[i] == place_[*maker_[b.index()]];
        if (pool_[i].task.phase != Phase::backward && !inside) kept_[b.index()] = true;
      });
    for (const ProgramOutput& out : program_.outputs)
      for (BufferId b : out.buffers) kept_[b.index()] = true;
  }

  bool is_dropped(BufferId b) const { return !kept_[b.index()]; }

  // The task, and those that make what it reads.
  void need(std::size_t maker, std::set<std::size_t>& makers) {
    if (!makers.insert(maker).second) return;
    for_each_use(program_, pool_[maker].task, pool_[maker].operands, [&](BufferId b, bool written) {
      if (!written && is_dropped(b)) need(*maker_[b.index()], makers);
    });
  }

  void repeat(std::size_t maker, std::size_t reader, std::vector<std::set<std::size_t>>& before) {
    PooledTask copy = pool_[maker];
    copy.task.phase = Phase::backward;
    redirect(copy);
    const ProgramOp* op = op_of(copy.task);
    for (std::size_t k = op ? op->inputs : 1; k < copy.operands.size(); ++k) {
      BufferId& result = copy.operands[k];
      program_.buffers.push_back(Buffer(program_.buffer(result)));
      kept_.push_back(true);
      BufferId fresh(static_cast<std::int64_t>(program_.buffers.size()) - 1);
      if (is_dropped(result)) again_[result] = {fresh, pool_.size()};
      result = fresh;
    }
    before[reader].insert(pool_.size());
    pool_.push_back(std::move(copy));
  }

  // What is computed again takes the place of what was dropped, and is waited for.
  void redirect(PooledTask& t) {
    auto change = [&](BufferId& b) {
      auto found = b.valid() ? again_.find(b) : again_.end();
      if (found == again_.end()) return;
      b = found->second.buffer;
      t.after.push_back(found->second.task);
    };
    if (t.task.kind == TaskKind::communicate) {
      for (Participant& p : program_.communications[static_cast<std::size_t>(t.task.op)].participants) change(p.send);
      return;
    }
    const ProgramOp* op = op_of(t.task);
    for (std::size_t k = 0; k < t.operands.size(); ++k)
      if (!(op && k < op->inputs && op->shape_only[k])) change(t.operands[k]);
  }

  const ProgramOp* op_of(const Task& t) const {
    return t.kind == TaskKind::compute ? &program_.ops[static_cast<std::size_t>(t.op)] : nullptr;
  }

  struct Again {
    BufferId buffer;
    std::size_t task = 0;
  };
  Program& program_;
  std::vector<PooledTask> pool_;
  std::vector<std::optional<std::size_t>> maker_;  // by buffer: the only task that writes it
  std::vector<Place> place_;                       // by task of the forward pass
  std::vector<bool> kept_;                         // by buffer
  std::map<BufferId, Again> again_;
};

}  // namespace

Result<void> rematerialise(Program& program, const std::vector<std::string>& segments) {
  if (segments.empty()) return {};
  Rematerialisation(program, UNITY_TRY(segments_of(program, segments))).run();
  return {};
}

}  // namespace unity
