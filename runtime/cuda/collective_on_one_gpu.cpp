#include "runtime/cuda/collective_on_one_gpu.h"

#include "runtime/cuda/blocks.h"
#include "runtime/cuda/collective_scratch.h"
#include "runtime/cuda/resources.h"

namespace unity::cuda {

// Summands are added up in the order of the participants; every participant gets the same bits.
void run_on_one_gpu(const Communication& c, DType held, const std::vector<LocalParticipant>& all) {
  OnGpu on(all[0].gpu);
  Stream stream = all[0].stream;
  void* scratch = all[0].scratch;
  auto sent = [&](const LocalParticipant& p) { return DeviceBlock{p.send, p.send_box, held}; };
  auto received = [&](const LocalParticipant& p) { return DeviceBlock{p.receive, p.receive_box, held}; };
  auto move = [&](const LocalParticipant& to, const LocalParticipant& from, const Box& box) {
    if (to.receive && from.send && to.receive != from.send) copy_block(stream, received(to), sent(from), box);
  };
  // `spare`: as large as the sum, for maxima.
  auto total = [&](const Box& box, void* sum, void* spare) {
    bool first = true;
    for (const LocalParticipant& p : all) {
      if (!p.send) continue;
      if (first) {
        copy_block(stream, {sum, box, held}, sent(p), box);
      } else if (c.monoid == Monoid::sum) {
        accumulate_block(stream, {sum, box, held}, sent(p), box);
      } else {
        copy_block(stream, {spare, box, held}, sent(p), box);
        combine(stream, sum, spare, box.elements(), held, c.monoid);
      }
      first = false;
    }
  };
  auto put = [&](const LocalParticipant& to, const Box& box, void* from) {
    if (to.receive) copy_block(stream, received(to), {from, box, held}, box);
  };
  switch (c.kind) {
    case CollectiveKind::send:
    case CollectiveKind::broadcast:
      for (const LocalParticipant& p : all) move(p, all[0], c.participants[0].piece);
      return;
    case CollectiveKind::reduce:
    case CollectiveKind::all_reduce: {
      const Box& box = c.participants[0].piece;
      total(box, scratch, at(scratch, aligned_bytes(box.elements() * size_of(held))));
      for (const LocalParticipant& p : all)
        if (c.kind == CollectiveKind::all_reduce || p.index == 0) put(p, box, scratch);
      return;
    }
    case CollectiveKind::all_gather:
      for (const LocalParticipant& from : all)
        for (const LocalParticipant& to : all) move(to, from, c.participants[from.index].piece);
      return;
    case CollectiveKind::reduce_scatter: {
      // All sums before any result: a receive buffer may be what others still add up.
      std::vector<std::int64_t> begin = pieces(c, held);
      for (const LocalParticipant& p : all)
        total(c.participants[p.index].piece, at(scratch, begin[p.index]), at(scratch, begin.back()));
      for (const LocalParticipant& p : all) put(p, c.participants[p.index].piece, at(scratch, begin[p.index]));
      return;
    }
    case CollectiveKind::all_to_all:
      for (const Exchange& e : c.exchanges)
        move(all[static_cast<std::size_t>(e.to)], all[static_cast<std::size_t>(e.from)], e.box);
      return;
  }
}

}  // namespace unity::cuda
