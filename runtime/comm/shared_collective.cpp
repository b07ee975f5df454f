#include "runtime/comm/shared_collective.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "runtime/comm/box_run.h"
#include "runtime/cpu/blocks.h"

namespace unity {
namespace {

// Bytes of a part: sums of it stay in a core's cache.
constexpr std::int64_t kPart = std::int64_t{128} << 10;

struct Scratch {
  std::unique_ptr<std::byte[]> data;
  std::size_t size = 0;
  std::byte* take(std::size_t bytes) {
    if (bytes > size) data = std::make_unique_for_overwrite<std::byte[]>(size = bytes);
    return data.get();
  }
};

}  // namespace

SharedCollective::SharedCollective(const Communication& communication,
                                   std::vector<std::vector<CollectiveBuffers>> buffers, DType dtype)
    : c_(communication), buffers_(std::move(buffers)), dtype_(dtype) {
  bool sums = c_.kind == CollectiveKind::all_reduce || c_.kind == CollectiveKind::reduce_scatter ||
              c_.kind == CollectiveKind::reduce;
  for (std::size_t part = 0; part < buffers_.size(); ++part)
    sums ? add_sums(buffers_[part], c_.part(part)) : add_copies(part);
  if (parts_.empty()) parts_.emplace_back([] {});  // all is where it should be; somebody has to say that it is done
}

void SharedCollective::add_missing(std::size_t participant) {
  parts_.push_back([this, participant] {
    UNITY_CHECK(false, "{} of {}: participant {} of {} has nothing to send", to_string(c_.kind), c_.name, participant,
                c_.participants.size());
  });
}

void SharedCollective::add_copies(std::size_t part) {
  const Buffers& buffers = buffers_[part];
  auto add = [&](std::size_t from, std::size_t to, const Box& box) {
    const CollectiveBuffers &source = buffers[from], &target = buffers[to];
    if (!target.receive || target.receive == source.send) return;
    if (!source.send) return add_missing(from);
    parts_.push_back([this, &source, &target, box] {
      cpu::copy_block(target.receive, target.receive_box, source.send, source.send_box, box, dtype_);
    });
  };
  if (c_.kind == CollectiveKind::all_to_all) {
    for (const Exchange& e : c_.exchanges)
      if (static_cast<std::size_t>(e.part) == part)
        add(static_cast<std::size_t>(e.from), static_cast<std::size_t>(e.to), e.box);
    return;
  }
  std::size_t n = buffers.size(), senders = c_.kind == CollectiveKind::all_gather ? n : 1;
  for (std::size_t from = 0; from < senders; ++from)
    for (std::size_t to = 0; to < n; ++to) add(from, to, c_.part(part)[from].piece);
}

void SharedCollective::add_sums(const Buffers& buffers, const std::vector<Participant>& participants) {
  std::size_t n = buffers.size();
  auto around = [&](std::size_t first) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < n; ++i) order.push_back((first + i) % n);
    return order;
  };
  const Box& box = participants[0].piece;
  std::int64_t total = box.elements();
  const bool hierarchical = c_.algorithm.name == CollectiveAlgorithm::hierarchical;
  const auto places = static_cast<std::size_t>(c_.algorithm.devices_per_node), nodes = n / places;
  if (c_.algorithm.name == CollectiveAlgorithm::binomial) {
    std::vector<std::size_t> order, all = around(0);
    for (std::size_t i : all)
      if (buffers[i].send || c_.kind == CollectiveKind::all_reduce) order.push_back(i);
    add_sums(buffers, box, {{std::move(order), 0, total}},
             c_.kind == CollectiveKind::reduce ? std::vector<std::size_t>{0} : all);
  } else if (c_.kind == CollectiveKind::reduce) {  // along the chain from the last one to the root
    std::vector<std::size_t> order;
    for (std::size_t i = n; i-- > 0;)
      if (buffers[i].send) order.push_back(i);
    add_sums(buffers, box, {{std::move(order), 0, total}}, {0});
  } else if (c_.kind == CollectiveKind::reduce_scatter) {  // piece p starts at participant p + 1
    for (std::size_t p = 0; p < n; ++p) {
      const Box& piece = participants[p].piece;
      add_sums(buffers, piece,
               {{hierarchical ? hierarchical_order(p % places, p / places) : around(p + 1), 0, piece.elements()}}, {p});
    }
  } else {  // of the ring, share p starts at participant p
    std::vector<Sum> sums;
    const std::size_t shares = hierarchical ? n * static_cast<std::size_t>(c_.algorithm.chunks) : n;
    auto begin_of = [&](std::size_t share) {
      return total * static_cast<std::int64_t>(share) / static_cast<std::int64_t>(shares);
    };
    for (std::size_t p = 0; p < shares; ++p)
      sums.push_back(
          {hierarchical ? hierarchical_order(p / nodes % places, p % nodes) : around(p), begin_of(p), begin_of(p + 1)});
    add_sums(buffers, box, std::move(sums), around(0));
  }
}

void SharedCollective::add_sums(const Buffers& buffers, const Box& box, std::vector<Sum> sums,
                                const std::vector<std::size_t>& to) {
  std::int64_t width = size_of(dtype_);
  bool runs = true;  // each buffer has the box as one run
  std::vector<const std::byte*> from(buffers.size());
  for (std::size_t i : sums.front().order) {
    if (!buffers[i].send) return add_missing(i);
    auto begin = run_in(buffers[i].send_box, box);
    runs = runs && begin;
    from[i] = static_cast<const std::byte*>(buffers[i].send) + begin.value_or(0) * width;
  }
  std::vector<std::byte*> into;
  for (std::size_t i : to) {
    if (!buffers[i].receive) continue;
    auto begin = run_in(buffers[i].receive_box, box);
    runs = runs && begin;
    into.push_back(static_cast<std::byte*>(buffers[i].receive) + begin.value_or(0) * width);
  }
  if (runs) {
    for (const Sum& sum : sums)
      for (std::int64_t begin = sum.begin; begin < sum.end; begin += kPart / width) {
        std::int64_t elements = std::min(kPart / width, sum.end - begin);
        std::vector<const std::byte*> summands;
        for (std::size_t i : sum.order) summands.push_back(from[i] + begin * width);
        std::vector<std::byte*> targets;
        for (std::byte* t : into) targets.push_back(t + begin * width);
        parts_.push_back([this, summands, targets, elements, bytes = static_cast<std::size_t>(elements * width)] {
          thread_local Scratch scratch;
          std::byte* total = scratch.take(bytes);
          add_up(total, summands, elements);
          for (std::byte* t : targets) std::memcpy(t, total, bytes);
        });
      }
    return;
  }
  if (box.elements() == 0) return;
  // Scattered: gathered first, as one part.
  parts_.push_back([this, &buffers, box, width, to, sums = std::move(sums)] {
    thread_local Scratch gathered, totals;
    std::int64_t bytes = box.elements() * width;
    std::byte* own = gathered.take(static_cast<std::size_t>(bytes) * buffers.size());
    std::byte* total = totals.take(static_cast<std::size_t>(bytes));
    for (std::size_t i : sums.front().order)
      cpu::copy_block(own + static_cast<std::int64_t>(i) * bytes, box, buffers[i].send, buffers[i].send_box, box,
                      dtype_);
    for (const Sum& sum : sums) {
      std::vector<const std::byte*> summands;
      for (std::size_t i : sum.order)
        summands.push_back(own + static_cast<std::int64_t>(i) * bytes + sum.begin * width);
      add_up(total + sum.begin * width, summands, sum.end - sum.begin);
    }
    for (std::size_t i : to)
      if (buffers[i].receive) cpu::copy_block(buffers[i].receive, buffers[i].receive_box, total, box, box, dtype_);
  });
}

void SharedCollective::add_up(std::byte* sum, const std::vector<const std::byte*>& summands,
                              std::int64_t elements) const {
  if (c_.algorithm.name == CollectiveAlgorithm::binomial) return add_along_tree(sum, 0, summands, elements);
  if (c_.algorithm.name != CollectiveAlgorithm::hierarchical) return add_in_turn(sum, summands, elements);
  const auto places = static_cast<std::size_t>(c_.algorithm.devices_per_node);
  thread_local Scratch scratch;
  std::byte* of_node = scratch.take(static_cast<std::size_t>(elements * size_of(dtype_)));
  for (std::size_t first = 0; first < summands.size(); first += places) {
    add_in_turn(first == 0 ? sum : of_node, std::span(summands).subspan(first, places), elements);
    if (first > 0) add_before(sum, of_node, elements);
  }
}

void SharedCollective::add_in_turn(std::byte* sum, std::span<const std::byte* const> summands,
                                   std::int64_t elements) const {
  auto bytes = static_cast<std::size_t>(elements * size_of(dtype_));
  if (bytes == 0) return;
  std::memcpy(sum, summands[0], bytes);
  const bool own_first =
      c_.kind == CollectiveKind::all_reduce || c_.algorithm.name == CollectiveAlgorithm::hierarchical;
  thread_local Scratch scratch;
  for (std::size_t i = 1; i < summands.size(); ++i) {
    if (c_.monoid == Monoid::sum || !own_first) {
      cpu::combine(sum, summands[i], elements, dtype_, c_.monoid);
      continue;
    }
    std::byte* own = scratch.take(bytes);
    std::memcpy(own, summands[i], bytes);
    add_before(sum, own, elements);
  }
}

// A participant takes its own summand for the first operand, which shows in maxima of zeros.
void SharedCollective::add_before(std::byte* sum, std::byte* theirs, std::int64_t elements) const {
  if (c_.monoid == Monoid::sum) return cpu::combine(sum, theirs, elements, dtype_, c_.monoid);
  cpu::combine(theirs, sum, elements, dtype_, c_.monoid);
  std::memcpy(sum, theirs, static_cast<std::size_t>(elements * size_of(dtype_)));
}

std::vector<std::size_t> SharedCollective::hierarchical_order(std::size_t place, std::size_t node) const {
  const auto places = static_cast<std::size_t>(c_.algorithm.devices_per_node);
  const std::size_t nodes = c_.participants.size() / places;
  std::vector<std::size_t> order;
  for (std::size_t q = 1; q <= nodes; ++q)
    for (std::size_t p = 1; p <= places; ++p) order.push_back((node + q) % nodes * places + (place + p) % places);
  return order;
}

void SharedCollective::add_along_tree(std::byte* sum, std::size_t participant,
                                      const std::vector<const std::byte*>& summands, std::int64_t elements) const {
  const std::size_t n = c_.participants.size(), missing = n - summands.size();  // of the root alone
  const auto bytes = static_cast<std::size_t>(elements * size_of(dtype_));
  bool filled = participant >= missing;
  if (filled) std::memcpy(sum, summands[participant - missing], bytes);
  Scratch scratch;
  for (std::size_t d = 1; (participant & d) == 0 && participant + d < n; d *= 2) {
    std::byte* theirs = filled ? scratch.take(bytes) : sum;
    add_along_tree(theirs, participant + d, summands, elements);
    if (filled) cpu::combine(sum, theirs, elements, dtype_, c_.monoid);
    filled = true;
  }
}

void SharedCollective::reset() {
  next_ = 0;
  ended_ = 0;
}

bool SharedCollective::help() {
  bool last = false;
  for (std::size_t part; (part = next_.fetch_add(1)) < parts_.size();) {
    parts_[part]();
    last = ended_.fetch_add(1) + 1 == parts_.size();
  }
  return last;
}

}  // namespace unity
