#include "core/plan/fuse_chains.h"

#include <algorithm>
#include <map>

#include "core/ops/chain.h"

namespace unity {
namespace {

// How many tasks may stand between the first and the last of a chain on their stream, and how many steps are followed
// to see what a task waits for.
constexpr std::size_t kMostBetween = 8;

struct Use {
  std::size_t task;
  bool written;
};

class Fusion {
 public:
  Fusion(Program& program, std::vector<PooledTask>& pool)
      : p_(program),
        pool_(pool),
        persistent_(persistent_buffers(program)),
        uses_(program.buffers.size()),
        dependents_(pool.size()),
        next_(pool.size(), kNone),
        taken_(pool.size(), false) {
    std::map<std::pair<DeviceId, Stream>, std::size_t> last;  // of a stream
    for (std::size_t i = 0; i < pool.size(); ++i) {
      const PooledTask& t = pool[i];
      for_each_use(p_, t.task, t.operands, [&](BufferId b, bool written) { uses_[b.index()].push_back({i, written}); });
      for (std::size_t d : t.after) dependents_[d].push_back(i);
      if (t.task.kind == TaskKind::communicate) continue;
      auto [before, fresh] = last.try_emplace({t.task.device, t.task.stream}, i);
      if (!fresh) next_[std::exchange(before->second, i)] = i;
    }
  }

  bool run() {
    std::vector<std::vector<std::size_t>> chains;
    for (std::size_t i = 0; i < pool_.size(); ++i) {
      if (taken_[i] || !may_lead(i)) continue;
      std::vector<std::size_t> chain = {i};
      while (chain.size() < Chain::kMostSteps && grow(chain)) {
      }
      if (chain.size() == 1) continue;
      for (std::size_t m : chain) taken_[m] = true;
      chains.push_back(std::move(chain));
    }
    if (chains.empty()) return false;
    std::vector<std::size_t> becomes(pool_.size());
    for (std::size_t i = 0; i < pool_.size(); ++i) becomes[i] = i;
    for (const std::vector<std::size_t>& chain : chains) {
      join(chain);
      for (std::size_t m : chain) becomes[m] = chain.back();
    }
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < pool_.size(); ++i) {
      if (becomes[i] != i) continue;
      order.push_back(i);
      for (std::size_t& d : pool_[i].after) d = becomes[d];
      pool_[i].after.erase(std::remove(pool_[i].after.begin(), pool_[i].after.end(), i), pool_[i].after.end());
    }
    reorder(pool_, order);
    return true;
  }

 private:
  static constexpr std::size_t kNone = SIZE_MAX;

  const ProgramOp& op_of(std::size_t task) const { return p_.ops[static_cast<std::size_t>(pool_[task].task.op)]; }
  BufferId result_of(std::size_t task) const { return pool_[task].operands.back(); }
  DType type_of(BufferId b) const { return p_.tensor_of(b).dtype; }

  // One result, which nobody else writes.
  bool makes_one(std::size_t task) const {
    const PooledTask& t = pool_[task];
    if (t.task.kind != TaskKind::compute || t.operands.size() != op_of(task).inputs + 1) return false;
    const std::vector<Use>& uses = uses_[result_of(task).index()];
    return std::count_if(uses.begin(), uses.end(), [](const Use& u) { return u.written; }) == 1;
  }
  bool elementwise(std::size_t task) const {
    if (!makes_one(task) || !is_elementwise(*op_of(task).op)) return false;
    // What works on whole numbers alone is left as it is: backends compute chains in reals.
    return std::any_of(pool_[task].operands.begin(), pool_[task].operands.end(),
                       [&](BufferId b) { return type_of(b) != DType::i32; });
  }
  bool may_lead(std::size_t task) const {
    return makes_one(task) && (leads_chains(*op_of(task).op) || elementwise(task));
  }

  // Adds the first reader of what the chain's last task writes, if it may join.
  bool grow(std::vector<std::size_t>& chain) const {
    BufferId read = result_of(chain.back());
    std::size_t reader = kNone;
    for (const Use& u : uses_[read.index()])
      if (!u.written && u.task > chain.back()) reader = std::min(reader, u.task);
    if (reader == kNone || taken_[reader] || !elementwise(reader) || !alike(chain, reader) || !in_time(chain, reader))
      return false;
    chain.push_back(reader);
    if (operands_of(chain).size() <= Chain::kMostOperands) return true;
    chain.pop_back();
    return false;
  }

  bool alike(const std::vector<std::size_t>& chain, std::size_t task) const {
    const Task &a = pool_[chain[0]].task, &b = pool_[task].task;
    BufferId first = result_of(chain[0]), result = result_of(task);
    return a.device == b.device && a.stream == b.stream && a.phase == b.phase && a.micro == b.micro &&
           a.iteration == b.iteration && p_.buffer(first).box == p_.buffer(result).box &&
           p_.tensor_of(first).dims == p_.tensor_of(result).dims &&
           // A product may be computed where the chain's result goes.
           (type_of(first) == type_of(result) || !leads_chains(*op_of(chain[0]).op));
  }

  bool in_time(const std::vector<std::size_t>& chain, std::size_t task) const {
    auto member = [&](std::size_t t) { return t == task || std::find(chain.begin(), chain.end(), t) != chain.end(); };
    for (std::size_t m : chain)
      for (std::size_t d : dependents_[m])
        if (!member(d) && (d < task || pool_[d].task.kind == TaskKind::communicate)) return false;
    std::vector<std::size_t> between;
    for (std::size_t t = next_[chain[0]]; t != task; t = next_[t])
      if (!member(t)) {
        between.push_back(t);
        if (between.size() > kMostBetween) return false;
      }
    auto elsewhere = [&](std::size_t d) {
      const Task &a = pool_[d].task, &b = pool_[task].task;
      return a.kind == TaskKind::communicate || a.device != b.device || a.stream != b.stream;
    };
    auto held_up = [&](std::size_t t) {
      return std::any_of(pool_[t].after.begin(), pool_[t].after.end(),
                         [&](std::size_t d) { return elsewhere(d) && !waits_for(pool_, chain[0], d); });
    };
    if (held_up(task) || std::any_of(between.begin(), between.end(), held_up)) return false;
    for (std::size_t m : chain) {
      bool apart = true;
      for_each_use(p_, pool_[m].task, pool_[m].operands, [&](BufferId b, bool written) {
        for (const Use& u : uses_[b.index()])
          if (u.task > m && (written || u.written) &&
              std::find(between.begin(), between.end(), u.task) != between.end())
            apart = false;
      });
      if (!apart) return false;
    }
    return true;
  }

  // The results of a chain that others than the next step read, in order.
  std::vector<BufferId> kept(const std::vector<std::size_t>& chain) const {
    std::vector<BufferId> kept;
    for (std::size_t k = 0; k < chain.size(); ++k) {
      BufferId b = result_of(chain[k]);
      bool passing = k + 1 < chain.size() && !persistent_[b.index()] &&
                     std::all_of(uses_[b.index()].begin(), uses_[b.index()].end(),
                                 [&](const Use& u) { return u.written || u.task == chain[k + 1]; });
      if (!passing) kept.push_back(b);
    }
    return kept;
  }

  // From outside, each once, then what is kept.
  std::vector<BufferId> operands_of(const std::vector<std::size_t>& chain) const {
    std::vector<BufferId> operands;
    for (std::size_t m : chain)
      for (std::size_t i = 0; i < op_of(m).inputs; ++i) {
        BufferId b = pool_[m].operands[i];
        bool inside = std::any_of(chain.begin(), chain.end(), [&](std::size_t c) { return result_of(c) == b; });
        if (!inside && std::find(operands.begin(), operands.end(), b) == operands.end()) operands.push_back(b);
      }
    std::vector<BufferId> results = kept(chain);
    operands.insert(operands.end(), results.begin(), results.end());
    return operands;
  }

  // Makes the last task of the chain all of it.
  void join(const std::vector<std::size_t>& chain) {
    std::vector<BufferId> operands = operands_of(chain);
    const std::size_t inputs = operands.size() - kept(chain).size();
    auto place = [&](BufferId b) {
      auto at = std::find(operands.begin(), operands.end(), b);
      return at == operands.end() ? ChainStep::kNotKept : static_cast<int>(at - operands.begin());
    };
    std::vector<ChainStep> steps;
    std::vector<std::int32_t> key;
    for (std::size_t k = 0; k < chain.size(); ++k) {
      const ProgramOp& op = op_of(chain[k]);
      BufferId result = result_of(chain[k]);
      ChainStep step{op.op,          op.attributes, op.origin, op.name, {}, place(result), p_.buffer(result).tensor,
                     type_of(result)};
      key.insert(key.end(), {pool_[chain[k]].task.op, step.tensor, step.kept});
      for (std::size_t i = 0; i < op.inputs; ++i) {
        BufferId b = pool_[chain[k]].operands[i];
        step.operands.push_back(k > 0 && b == result_of(chain[k - 1]) ? ChainStep::kBefore : place(b));
        key.push_back(step.operands.back());
      }
      steps.push_back(std::move(step));
    }
    auto [found, fresh] = ops_.try_emplace(std::move(key), static_cast<std::int32_t>(p_.ops.size()));
    if (fresh) {
      auto fused = std::make_shared<const Chain>(std::move(steps), inputs);
      const ProgramOp& first = op_of(chain[0]);
      ProgramOp op{fused.get(), {}, first.origin, first.name, static_cast<std::uint32_t>(inputs), {}, fused};
      op.shape_only.assign(inputs, false);
      p_.ops.push_back(std::move(op));
    }
    PooledTask& last = pool_[chain.back()];
    for (std::size_t m : chain) {
      if (m == chain.back()) continue;
      last.task.flops += pool_[m].task.flops;
      last.after.insert(last.after.end(), pool_[m].after.begin(), pool_[m].after.end());
    }
    last.task.op = found->second;
    last.task.bytes = 0;
    for (BufferId b : operands) last.task.bytes += static_cast<double>(p_.bytes_of(b).count);
    last.operands.assign(operands.begin(), operands.end());
  }

  Program& p_;
  std::vector<PooledTask>& pool_;
  std::vector<bool> persistent_;                           // by buffer
  std::vector<std::vector<Use>> uses_;                     // by buffer, in order
  std::vector<std::vector<std::size_t>> dependents_;       // by task
  std::vector<std::size_t> next_;                          // on its stream
  std::vector<bool> taken_;                                // is of a chain
  std::map<std::vector<std::int32_t>, std::int32_t> ops_;  // of chains, by their steps
};

}  // namespace

bool fuse_chains(Program& program, std::vector<PooledTask>& pool) { return Fusion(program, pool).run(); }

}  // namespace unity
