// The adjoints of movements, and what becomes of gradients on the way.

#include <algorithm>
#include <utility>

#include "core/plan/movement.h"

namespace unity {

std::int32_t Movements::gradient_tensor(PlacementIndex value) {
  Placement& p = placement(value);
  if (p.gradient_tensor < 0) p.gradient_tensor = emitter_.tensor({p.name + ".gradient", p.dims, p.dtype, {}, -1});
  return p.gradient_tensor;
}

Movements::Gradient Movements::gradient(PlacementIndex value, PieceIndex index) {
  Piece& p = piece(index);
  std::vector<Contribution>& parts = p.contributions;
  if (parts.empty()) return {};
  if (parts.size() == 1 && parts[0].box == p.box) return {parts[0].buffer, parts[0].writers, parts[0].shared};
  // What other devices send comes last: those of this device are added up, and their memory is free, before it is
  // there.
  std::stable_partition(parts.begin(), parts.end(), [&](const Contribution& c) {
    return std::none_of(c.writers.begin(), c.writers.end(),
                        [&](TaskId t) { return emitter_.program().tasks[t.index()].kind == TaskKind::communicate; });
  });
  // Add into a contribution of our own that covers the piece; else into a fresh buffer.
  std::size_t base = parts.size();
  for (std::size_t i = 0; i < parts.size() && base == parts.size(); ++i)
    if (!parts[i].shared && parts[i].box == p.box) base = i;
  Contribution total;
  if (base < parts.size()) {
    total = parts[base];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(base));
  } else {
    total = {emitter_.buffer(gradient_tensor(value), p.device, p.box, BufferCategory::gradient, p.partial),
             p.box,
             {},
             false};
    auto whole = std::find_if(parts.begin(), parts.end(), [&](const Contribution& c) { return c.box == p.box; });
    if (whole != parts.end()) {
      total.writers = {emitter_.copy(whole->buffer, total.buffer, p.box, whole->writers)};
      parts.erase(whole);
    } else {
      total.writers = {emitter_.zero(total.buffer, {})};
    }
  }
  for (const Contribution& c : parts) {
    TaskList after = total.writers;
    append(after, c.writers);
    total.writers = {emitter_.accumulate(c.buffer, total.buffer, c.box, after)};
  }
  parts = {total};
  return {total.buffer, total.writers, false};
}

Movements::Gradient Movements::gradient_or_zero(PlacementIndex value, PieceIndex index) {
  Gradient g = gradient(value, index);
  if (g.buffer.valid()) return g;
  Piece& p = piece(index);
  g.buffer = emitter_.buffer(gradient_tensor(value), p.device, p.box, BufferCategory::gradient, p.partial);
  g.writers = {emitter_.zero(g.buffer, {})};
  p.contributions = {{g.buffer, p.box, g.writers, false}};
  return g;
}

void Movements::emit_adjoint(std::size_t index) {
  const Movement& m = movements_[index];
  if (!placement(m.placement).needs_gradient) return;
  UNITY_CHECK(placement(m.placement).monoid == Monoid::sum, "{}: a gradient of partial maxima",
              placement(m.placement).name);
  // Reading a gradient consumes it: a target's gradient is complete when its adjoint movement is emitted.
  bool any = std::any_of(m.targets.begin(), m.targets.end(),
                         [&](PieceIndex t) { return t >= 0 && !piece(t).contributions.empty(); });
  if (!any) return;
  auto contribute = [&](PieceIndex to, BufferId buffer, const Box& box, TaskList writers, bool shared) {
    piece(to).contributions.push_back({buffer, box, std::move(writers), shared});
  };
  if (m.kind != Movement::Kind::collective) {
    Gradient g = gradient(m.placement, m.targets[0]);
    // A target assembled from several local parts passes to each source its own part of the gradient.
    for (PieceIndex s : m.sources) {
      if (piece(m.targets[0]).box == m.pieces[0]) {
        contribute(s, g.buffer, m.pieces[0], g.writers, true);
      } else {
        BufferId part =
            emitter_.buffer(gradient_tensor(m.placement), piece(s).device, m.pieces[0], BufferCategory::gradient);
        contribute(s, part, m.pieces[0], {emitter_.copy(g.buffer, part, m.pieces[0], g.writers)}, false);
      }
    }
    return;
  }
  std::size_t n = m.sources.size();
  Communication c{
      .kind = m.collective, .dtype = placement(m.placement).dtype, .name = placement(m.placement).name + ".gradient"};
  TaskList after;
  struct Received {
    PieceIndex source;
    BufferId buffer;
    Box box;
  };
  std::vector<Received> received;
  auto receive = [&](PieceIndex source, const Box& box) {
    if (!here(source)) return BufferId();
    BufferId b = emitter_.buffer(gradient_tensor(m.placement), piece(source).device, box, BufferCategory::gradient,
                                 piece(source).partial);
    received.push_back({source, b, box});
    return b;
  };
  auto send = [&](PieceIndex target) {
    if (!here(target)) return BufferId();
    Gradient g = gradient_or_zero(m.placement, target);
    append(after, g.writers);
    return g.buffer;
  };
  c.participants.resize(n);
  for (std::size_t i = 0; i < n; ++i)
    c.participants[i].device = piece(m.sources[i] >= 0 ? m.sources[i] : m.targets[i]).device;
  switch (m.collective) {
    case CollectiveKind::send:  // back; participants swap roles
      std::swap(c.participants[0], c.participants[1]);
      c.participants[0].send = send(m.targets[1]);
      c.participants[1].receive = receive(m.sources[0], m.pieces[0]);
      c.participants[0].piece = c.participants[1].piece = m.pieces[0];
      break;
    case CollectiveKind::broadcast:  // reduce to the root, which sends nothing: its own uses of the value are separate
      c.kind = CollectiveKind::reduce;
      for (std::size_t i = 1; i < n; ++i) c.participants[i].send = send(m.targets[i]);
      c.participants[0].receive = receive(m.sources[0], m.pieces[0]);
      for (Participant& p : c.participants) p.piece = m.pieces[0];
      break;
    case CollectiveKind::reduce:
      c.kind = CollectiveKind::broadcast;
      c.participants[0].send = send(m.targets[0]);
      contribute(m.sources[0], c.participants[0].send, m.pieces[0], after, true);
      for (std::size_t i = 1; i < n; ++i) c.participants[i].receive = receive(m.sources[i], m.pieces[0]);
      for (Participant& p : c.participants) p.piece = m.pieces[0];
      break;
    case CollectiveKind::all_reduce:
      for (std::size_t i = 0; i < n; ++i) {
        c.participants[i].send = send(m.targets[i]);
        c.participants[i].receive = receive(m.sources[i], m.pieces[i]);
        c.participants[i].piece = m.pieces[i];
      }
      break;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
      c.kind = m.collective == CollectiveKind::all_gather ? CollectiveKind::reduce_scatter : CollectiveKind::all_gather;
      for (std::size_t i = 0; i < n; ++i) {
        c.participants[i].send = send(m.targets[i]);
        c.participants[i].receive = receive(m.sources[i], piece(m.sources[i]).box);
        c.participants[i].piece = m.pieces[i];
      }
      break;
    case CollectiveKind::all_to_all: {
      // A source may have sent one element to several targets; then the parts of its gradient overlap and must be
      // added, not overwritten: such exchanges go back one by one.
      std::vector<std::int64_t> sent(n, 0);
      for (const Exchange& e : m.exchanges) sent[static_cast<std::size_t>(e.from)] += e.box.elements();
      bool disjoint = true;
      for (std::size_t i = 0; i < n; ++i) disjoint = disjoint && sent[i] == piece(m.sources[i]).box.elements();
      std::vector<std::vector<const Exchange*>> from(n);
      for (const Exchange& e : m.exchanges) from[static_cast<std::size_t>(e.from)].push_back(&e);
      for (std::size_t i = 0; i < n && disjoint; ++i)
        for (const Exchange* a : from[i])
          for (const Exchange* b : from[i])
            if (a != b && !intersect(a->box, b->box).empty()) disjoint = false;
      if (!disjoint) {
        if (!blocks_.all()) throw Unclear{};
        for (const Exchange& e : m.exchanges) {
          PieceIndex source = m.sources[static_cast<std::size_t>(e.from)],
                     target = m.targets[static_cast<std::size_t>(e.to)];
          Gradient g = gradient_or_zero(m.placement, target);
          BufferId part =
              emitter_.buffer(gradient_tensor(m.placement), piece(source).device, e.box, BufferCategory::gradient);
          TaskId task;
          if (e.from == e.to) {
            task = emitter_.copy(g.buffer, part, e.box, g.writers);
          } else {
            Communication back{.kind = CollectiveKind::send, .dtype = c.dtype, .name = c.name};
            back.participants = {{piece(target).device, g.buffer, {}, e.box}, {piece(source).device, {}, part, e.box}};
            task = emitter_.communicate(std::move(back), g.writers);
          }
          contribute(source, part, e.box, {task}, false);
        }
        return;
      }
      for (std::size_t i = 0; i < n; ++i) {
        c.participants[i].send = send(m.targets[i]);
        c.participants[i].receive = receive(m.sources[i], piece(m.sources[i]).box);
      }
      for (const Exchange& e : m.exchanges) c.exchanges.push_back({e.to, e.from, e.box});
      break;
    }
  }
  TaskId task = emitter_.communicate(std::move(c), after);
  for (const Received& r : received) contribute(r.source, r.buffer, r.box, {task}, false);
}

}  // namespace unity
