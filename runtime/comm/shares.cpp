#include "runtime/comm/shares.h"

#include <cstring>
#include <utility>

namespace unity {
namespace {

void put(std::byte* to, const std::byte* from, std::size_t size) {
  if (to != from) std::memcpy(to, from, size);
}

}  // namespace

Shares::Shares(const Endpoint& own, std::size_t chunks, std::size_t places, std::size_t nodes)
    : own_(own), chunks_(chunks), places_(places), nodes_(nodes) {
  begin_.push_back(0);
  for (std::size_t share = 0; share < count(); ++share) {
    begin_.push_back(begin_.back());
    for (std::size_t k = 0; k < own_.parts().size(); ++k)
      begin_.back() += static_cast<std::int64_t>(range(k, share).bytes);
  }
}

std::span<std::byte> Shares::in(std::span<std::byte> run, std::size_t first, std::size_t count) const {
  return run.subspan(static_cast<std::size_t>(begin_[first]),
                     static_cast<std::size_t>(begin_[first + count] - begin_[first]));
}

std::vector<Shares::Range> Shares::of_piece(std::size_t chunk, std::size_t part, std::size_t participant) const {
  std::vector<Range> ranges;
  auto add = [&](std::size_t share) {
    Range r = range(part, share);
    r.in_run = begin_[share];
    for (std::size_t k = 0; k < part; ++k) r.in_run += static_cast<std::int64_t>(range(k, share).bytes);
    if (r.bytes > 0) ranges.push_back(r);
  };
  const std::size_t first = chunk * places_ * nodes_;
  if (whole())
    for (std::size_t i = 0; i < places_ * nodes_; ++i) add(first + i);
  else
    add(first + participant % places_ * nodes_ + participant / places_);
  return ranges;
}

Shares::Range Shares::range(std::size_t part, std::size_t share) const {
  const std::size_t node = share % nodes_, place = share / nodes_ % places_, chunk = share / nodes_ / places_;
  const std::size_t owner = whole() ? own_.self() : node * places_ + place;
  const auto index = static_cast<std::int64_t>(whole() ? share : chunk);
  const auto of = static_cast<std::int64_t>(whole() ? count() : chunks_);
  const std::int64_t all = own_.communication().part(part)[owner].piece.elements(), begin = all * index / of;
  return {0, begin * own_.element_bytes(),
          static_cast<std::size_t>((all * (index + 1) / of - begin) * own_.element_bytes())};
}

Packing::Packing(const Endpoint& own, const Shares& shares) : own_(own), shares_(shares) {
  const Communication& c = own.communication();
  const std::span<const CollectiveBuffers> parts = own.parts();
  // The box of one all_reduce is such a run.
  const bool in_place = c.kind == CollectiveKind::all_reduce && parts.size() == 1;
  run_ = in_place ? own.place(parts[0], own.me().piece, scratch_.emplace_back())
                  : scratch_.emplace_back().take(shares.bytes());
  for (std::size_t k = 0; k < parts.size(); ++k)
    for (std::size_t i = 0; i < own.participants(); ++i) {
      // An all_gather's participant sends its own piece alone, and gets all; a reduce_scatter's the other way round.
      const Box& box = c.part(k)[i].piece;
      if (i == own.self() || c.kind == CollectiveKind::reduce_scatter)
        from_.push_back({k, i, own.outgoing(parts[k], box, scratch_.emplace_back())});
      if (i == own.self() || c.kind == CollectiveKind::all_gather)
        to_.push_back({k, i, in_place ? run_ : own.place(parts[k], box, scratch_.emplace_back())});
    }
}

void Packing::pack(std::size_t chunk) const {
  for (const auto& [part, participant, piece] : from_)
    for (const Shares::Range& r : shares_.of_piece(chunk, part, participant))
      put(run_.data() + r.in_run, piece.data() + r.in_piece, r.bytes);
}

void Packing::unpack(std::size_t chunk) const {
  for (const auto& [part, participant, piece] : to_)
    for (const Shares::Range& r : shares_.of_piece(chunk, part, participant))
      put(piece.data() + r.in_piece, run_.data() + r.in_run, r.bytes);
}

void Packing::settle() const {
  for (const auto& [part, participant, piece] : to_)
    own_.settle(own_.parts()[part], own_.communication().part(part)[participant].piece, piece);
}

RingPass::RingPass(Endpoint& own, RingMembers members, std::vector<std::span<std::byte>> units, std::size_t first,
                   std::size_t adding, std::size_t steps, std::int64_t tag)
    : own_(own), units_(std::move(units)), unit_(first), adding_(adding), steps_(steps), tag_(tag) {
  const std::size_t self = (own.self() - members.first) / members.stride;
  next_ = members[self + 1], previous_ = members[self + members.count - 1];
}

void RingPass::start() {
  if (steps_ > 0) own_.send(next_, units_[unit_], tag_);
}

void RingPass::step() {
  unit_ = (unit_ + units_.size() - 1) % units_.size();
  const bool adds = step_ < adding_, last = ++step_ == steps_;
  Scratch arriving;
  Endpoint::for_segments(units_[unit_].size(), [&](std::size_t begin, std::size_t size) {
    std::span<std::byte> part = units_[unit_].subspan(begin, size);
    std::span<std::byte> into = adds ? arriving.take(static_cast<std::int64_t>(size)) : part;
    own_.receive(previous_, into, tag_);
    if (adds) own_.add(part, into);
    if (!last) own_.send(next_, part, tag_);
  });
}

}  // namespace unity
