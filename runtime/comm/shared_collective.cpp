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
  if (c_.binomial) {
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
      add_sums(buffers, piece, {{around(p + 1), 0, piece.elements()}}, {p});
    }
  } else {  // chunk p starts at participant p
    std::vector<Sum> sums;
    for (std::size_t p = 0; p < n; ++p) {
      auto begin_of = [&](std::size_t i) {
        return total * static_cast<std::int64_t>(i) / static_cast<std::int64_t>(n);
      };
      sums.push_back({around(p), begin_of(p), begin_of(p + 1)});
    }
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
  if (c_.binomial) return add_along_tree(sum, 0, summands, elements);
  auto bytes = static_cast<std::size_t>(elements * size_of(dtype_));
  std::memcpy(sum, summands[0], bytes);
  if (c_.monoid == Monoid::sum || c_.kind != CollectiveKind::all_reduce) {
    for (std::size_t i = 1; i < summands.size(); ++i) cpu::combine(sum, summands[i], elements, dtype_, c_.monoid);
    return;
  }
  // The all-reduce takes its own summand for the first operand, which shows in maxima of zeros.
  thread_local Scratch scratch;
  std::byte* own = scratch.take(bytes);
  for (std::size_t i = 1; i < summands.size(); ++i) {
    std::memcpy(own, summands[i], bytes);
    cpu::combine(own, sum, elements, dtype_, c_.monoid);
    std::memcpy(sum, own, bytes);
  }
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
