#include "core/plan/receive_in_place.h"

#include <algorithm>
#include <utility>

namespace unity {
namespace {

constexpr std::uint32_t kNone = UINT32_MAX, kSeveral = UINT32_MAX - 1;
constexpr std::size_t kFewBoxes = 32;

// Of a buffer, the task that sets it to zero before all others use it, and those that add to it.
struct Sum {
  std::uint32_t zero = kNone;
  std::vector<std::uint32_t> additions;
  bool other_writers = false;
};

// False also where many of them would have to be compared with each other.
bool apart(std::vector<const Box*> boxes) {
  for (std::size_t d = 0; d < boxes[0]->rank(); ++d) {
    std::ranges::sort(boxes, {}, [d](const Box* b) { return b->offset[d]; });
    auto touches = [d](const Box* a, const Box* b) { return a->offset[d] + a->extent[d] > b->offset[d]; };
    if (std::ranges::adjacent_find(boxes, touches) == boxes.end()) return true;
  }
  if (boxes.size() > kFewBoxes) return false;
  for (std::size_t i = 1; i < boxes.size(); ++i)
    if (std::any_of(boxes.begin(), boxes.begin() + static_cast<std::ptrdiff_t>(i),
                    [&](const Box* other) { return intersect(*other, *boxes[i]).elements() > 0; }))
      return false;
  return true;
}

class Receiver {
 public:
  Receiver(Program& program, std::vector<PooledTask>& pool) : p_(program), pool_(pool) {}

  bool run() {
    if (std::ranges::none_of(pool_, [](const PooledTask& t) { return t.task.kind == TaskKind::accumulate; }))
      return false;
    find_uses();
    becomes_.resize(pool_.size());
    for (std::size_t i = 0; i < pool_.size(); ++i) becomes_[i] = i;
    bool any = false;
    for (const Sum& s : sums_)
      if (s.zero != kNone && !s.other_writers && !s.additions.empty()) any = put_together(s) || any;
    if (any) finish();
    return any;
  }

 private:
  void find_uses() {
    writer_.assign(p_.buffers.size(), kNone), reader_.assign(p_.buffers.size(), kNone);
    std::vector<std::uint32_t> sum_of(p_.buffers.size(), kNone);
    for (std::uint32_t i = 0; i < pool_.size(); ++i) {
      const TaskKind kind = pool_[i].task.kind;
      for_each_use(p_, pool_[i].task, pool_[i].operands, [&](BufferId b, bool written) {
        const std::size_t at = b.index();
        if (written && kind == TaskKind::zero && writer_[at] == kNone && reader_[at] == kNone) {
          sum_of[at] = static_cast<std::uint32_t>(sums_.size());
          sums_.push_back({i, {}, false});
        } else if (written && sum_of[at] != kNone) {
          Sum& sum = sums_[sum_of[at]];
          if (kind == TaskKind::accumulate && reader_[at] == kNone)
            sum.additions.push_back(i);
          else
            sum.other_writers = true;
        }
        std::uint32_t& use = written ? writer_[at] : reader_[at];
        use = use == kNone ? i : kSeveral;
      });
    }
    for (const ProgramOutput& out : p_.outputs)
      for (BufferId b : out.buffers) reader_[b.index()] = kSeveral;
  }

  Communication& communication_of(std::size_t task) {
    return p_.communications[static_cast<std::size_t>(pool_[task].task.op)];
  }
  const Box& box_of(std::size_t addition) const { return p_.boxes[static_cast<std::size_t>(pool_[addition].task.op)]; }

  // Of what the task adds, the communication by which alone it came, if it is so.
  Participant* received_by(std::size_t addition) {
    const BufferId from = pool_[addition].operands[0];
    const std::uint32_t by = writer_[from.index()];
    if (reader_[from.index()] != addition || by >= kSeveral || pool_[by].task.kind != TaskKind::communicate)
      return nullptr;
    Communication& c = communication_of(by);
    if ((c.kind != CollectiveKind::send && c.kind != CollectiveKind::all_to_all) || c.part_count() > 1) return nullptr;
    if (box_of(addition) != p_.buffer(from).box) return nullptr;
    auto found = std::ranges::find(c.participants, from, &Participant::receive);
    if (c.kind == CollectiveKind::send && found->piece != box_of(addition)) return nullptr;
    return &*found;
  }

  bool put_together(const Sum& sum) {
    std::vector<const Box*> boxes;
    std::int64_t filled = 0;
    bool receives = false;
    for (std::uint32_t a : sum.additions) {
      boxes.push_back(&box_of(a));
      filled += boxes.back()->elements();
      receives = receives || received_by(a);
    }
    const BufferId whole = pool_[sum.zero].operands[0];
    if (!receives || !apart(std::move(boxes))) return false;
    const bool no_gaps = filled == p_.buffer(whole).box.elements();
    for (std::uint32_t a : sum.additions) {
      if (Participant* participant = received_by(a)) {
        const std::uint32_t by = writer_[pool_[a].operands[0].index()];
        participant->receive = whole;
        becomes_[a] = by;
        if (!no_gaps) pool_[by].after.push_back(sum.zero);
      } else if (no_gaps) {  // nothing is there that it would add to
        Task& t = pool_[a].task;
        t.kind = TaskKind::copy;
        t.bytes *= 2.0 / 3, t.flops = 0;  // read and written once
      }
    }
    if (no_gaps) becomes_[sum.zero] = kGone;
    return true;
  }

  // What comes after a task that goes comes after all that this came after.
  void finish() {
    std::vector<std::size_t> seen(pool_.size(), SIZE_MAX);  // by task, for which one
    for (std::size_t i = 0; i < pool_.size(); ++i) {
      auto& after = pool_[i].after;
      if (becomes_[i] != i) continue;
      if (std::ranges::all_of(after, [this](std::size_t d) { return becomes_[d] == d; })) continue;
      std::vector<std::size_t> open(after.begin(), after.end());
      after.clear();
      while (!open.empty()) {
        const std::size_t d = open.back();
        open.pop_back();
        if (std::exchange(seen[d], i) == i) continue;
        if (becomes_[d] == d) {
          after.push_back(d);
          continue;
        }
        if (becomes_[d] != kGone) open.push_back(becomes_[d]);
        open.insert(open.end(), pool_[d].after.begin(), pool_[d].after.end());
      }
    }
    reorder(pool_, in_order(pool_, [this](std::size_t i) { return becomes_[i] == i; }));
  }

  static constexpr std::size_t kGone = SIZE_MAX;

  Program& p_;
  std::vector<PooledTask>& pool_;
  std::vector<std::uint32_t> writer_, reader_;  // by buffer: the only one, or kSeveral
  std::vector<Sum> sums_;
  std::vector<std::size_t> becomes_;  // by task
};

}  // namespace

bool receive_in_place(Program& program, std::vector<PooledTask>& pool) { return Receiver(program, pool).run(); }

}  // namespace unity
