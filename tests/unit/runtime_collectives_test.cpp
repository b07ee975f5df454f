#include <atomic>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include <catch2/catch.hpp>

#include "runtime/comm/collectives.h"
#include "runtime/comm/processes.h"
#include "runtime/comm/shared_collective.h"

using namespace unity;

namespace {

// Participant i's send and receive buffers: blocks of a logical 2-d tensor, in double.
struct Group {
  Communication communication;
  std::vector<std::vector<double>> send, receive;
  std::vector<Box> send_box, receive_box;
};

double sum_at(const Group& g, std::size_t from, std::int64_t row, std::int64_t column) {
  const Box& b = g.send_box[from];
  return g.send[from][static_cast<std::size_t>((row - b.offset[0]) * b.extent[1] + column - b.offset[1])];
}
double received_at(const Group& g, std::size_t at, std::int64_t row, std::int64_t column) {
  const Box& b = g.receive_box[at];
  return g.receive[at][static_cast<std::size_t>((row - b.offset[0]) * b.extent[1] + column - b.offset[1])];
}

void for_each(const Box& box, const std::function<void(std::int64_t, std::int64_t)>& f) {
  for (std::int64_t r = box.offset[0]; r < box.offset[0] + box.extent[0]; ++r)
    for (std::int64_t c = box.offset[1]; c < box.offset[1] + box.extent[1]; ++c) f(r, c);
}

// n participants with the given boxes; what is sent is random, what is received starts as -1.
Group make(CollectiveKind kind, std::vector<Box> send, std::vector<Box> receive, std::vector<Box> pieces) {
  std::mt19937_64 random(7);
  Group g;
  g.communication.kind = kind;
  g.communication.dtype = DType::f32;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    Participant p{DeviceId(static_cast<std::int64_t>(i)), {}, {}, pieces[i]};
    if (send[i].rank()) p.send = BufferId(0);
    if (receive[i].rank()) p.receive = BufferId(0);
    g.communication.participants.push_back(p);
    g.send.emplace_back(send[i].rank() ? static_cast<std::size_t>(send[i].elements()) : 0);
    for (double& x : g.send.back()) x = static_cast<double>(random() % 1000003) / 7;
    g.receive.emplace_back(receive[i].rank() ? static_cast<std::size_t>(receive[i].elements()) : 0, -1.0);
  }
  g.send_box = std::move(send);
  g.receive_box = std::move(receive);
  return g;
}

std::vector<CollectiveBuffers> buffers_of(Group& g) {
  std::vector<CollectiveBuffers> buffers;
  for (std::size_t i = 0; i < g.send.size(); ++i) {
    const Participant& p = g.communication.participants[i];
    buffers.push_back({p.send.valid() ? g.send[i].data() : nullptr, g.send_box[i],
                       p.receive.valid() ? g.receive[i].data() : nullptr, g.receive_box[i]});
  }
  return buffers;
}

bool same_bits(const Group& a, const Group& b) {
  for (std::size_t i = 0; i < a.receive.size(); ++i)
    if (!a.receive[i].empty() &&
        std::memcmp(a.receive[i].data(), b.receive[i].data(), a.receive[i].size() * sizeof(double)) != 0)
      return false;
  return true;
}

// By messages between threads, and in the buffers themselves: with the same bits.
void run(Group& g) {
  auto n = g.communication.participants.size();
  Group g2 = g;
  Processes alone;
  auto communicator = make_communicator(static_cast<int>(n), alone);
  {
    std::vector<CollectiveBuffers> buffers = buffers_of(g);
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < n; ++i)
      threads.emplace_back([&, i] {
        run_collective(g.communication, i, {&buffers[i], 1}, DType::f64, *communicator, 0);
      });
  }
  SharedCollective shared(g2.communication, {buffers_of(g2)}, DType::f64);
  for (int round = 0; round < 3; ++round) {
    shared.reset();
    std::atomic<int> ended{0};
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < n; ++i) threads.emplace_back([&] { ended += shared.help(); });
    }
    CHECK(ended == 1);
    CHECK(same_bits(g, g2));
  }
}

// Several tensors in one collective.
void run_joined(std::vector<Group>& parts) {
  Communication c = parts[0].communication;
  for (std::size_t k = 1; k < parts.size(); ++k) {
    c.joined.push_back(parts[k].communication.participants);
    for (Exchange e : parts[k].communication.exchanges) {
      e.part = static_cast<std::int32_t>(k);
      c.exchanges.push_back(std::move(e));
    }
  }
  Processes alone;
  auto communicator = make_communicator(static_cast<int>(c.participants.size()), alone);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < c.participants.size(); ++i)
      threads.emplace_back([&, i] {
        std::vector<CollectiveBuffers> buffers;
        for (Group& g : parts) buffers.push_back(buffers_of(g)[i]);
        run_collective(c, i, buffers, DType::f64, *communicator, 0);
      });
  }
  std::vector<std::vector<CollectiveBuffers>> buffers;
  std::vector<Group> again = parts;
  for (Group& g : again) {
    for (std::vector<double>& r : g.receive) std::fill(r.begin(), r.end(), -1.0);
    buffers.push_back(buffers_of(g));
  }
  SharedCollective shared(c, std::move(buffers), DType::f64);
  CHECK(shared.help());
  for (std::size_t k = 0; k < parts.size(); ++k) CHECK(same_bits(parts[k], again[k]));
}

constexpr CommunicationAlgorithm kTree{.name = CollectiveAlgorithm::binomial};

Box rows(std::int64_t from, std::int64_t count, std::int64_t columns) { return {{from, 0}, {count, columns}}; }

}  // namespace

TEST_CASE("all-reduce gives every participant the same bits of the sum") {
  for (std::size_t n = 2; n <= 8; ++n) {
    Box box = rows(3, 5, 7);  // 35 elements: not divisible by n
    Group g = make(CollectiveKind::all_reduce, std::vector<Box>(n, rows(2, 8, 7)), std::vector<Box>(n, box),
                   std::vector<Box>(n, box));
    run(g);
    for_each(box, [&](std::int64_t r, std::int64_t c) {
      double sum = 0;
      for (std::size_t i = 0; i < n; ++i) sum += sum_at(g, i, r, c);
      CHECK(received_at(g, 0, r, c) == Approx(sum).epsilon(1e-14));
      for (std::size_t i = 1; i < n; ++i) CHECK(received_at(g, i, r, c) == received_at(g, 0, r, c));
    });
  }
}

TEST_CASE("a maximum is reduced like a sum") {
  Box box = rows(0, 3, 3);
  Group g =
      make(CollectiveKind::all_reduce, std::vector<Box>(3, box), std::vector<Box>(3, box), std::vector<Box>(3, box));
  g.communication.monoid = Monoid::max;
  run(g);
  for_each(box, [&](std::int64_t r, std::int64_t c) {
    CHECK(received_at(g, 1, r, c) == std::max({sum_at(g, 0, r, c), sum_at(g, 1, r, c), sum_at(g, 2, r, c)}));
  });
}

TEST_CASE("long all-reduces are cut into parts, scattered ones are gathered") {
  for (std::size_t n : {2, 3, 5}) {
    Box box = rows(1, 300, 211);
    for (std::int64_t columns : {211, 213}) {  // the box is one run of the buffers, or not
      Group g = make(CollectiveKind::all_reduce, std::vector<Box>(n, rows(0, 302, columns)), std::vector<Box>(n, box),
                     std::vector<Box>(n, box));
      run(g);
      CHECK(received_at(g, n - 1, 7, 3) == received_at(g, 0, 7, 3));
    }
  }
}

TEST_CASE("the all-reduce's maximum of a positive and a negative zero does not depend on how it is done") {
  Box box = rows(0, 1, 9);
  Group g =
      make(CollectiveKind::all_reduce, std::vector<Box>(3, box), std::vector<Box>(3, box), std::vector<Box>(3, box));
  g.communication.monoid = Monoid::max;
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t k = 0; k < 9; ++k) g.send[i][k] = (i + k) % 2 ? 0.0 : -0.0;
  run(g);
  CHECK(received_at(g, 0, 0, 0) == 0);
}

TEST_CASE("reduce-scatter leaves each participant the sum of its piece, all-gather puts the pieces together") {
  for (std::int64_t n = 2; n <= 6; ++n) {
    std::vector<Box> pieces;
    std::int64_t at = 0;
    for (std::int64_t i = 0; i < n; ++i) pieces.push_back(rows(at, 1 + i % 3, 5)), at += 1 + i % 3;
    Box whole = rows(0, at, 5);
    auto count = static_cast<std::size_t>(n);
    Group scatter = make(CollectiveKind::reduce_scatter, std::vector<Box>(count, whole), pieces, pieces);
    run(scatter);
    for (std::size_t i = 0; i < count; ++i)
      for_each(pieces[i], [&](std::int64_t r, std::int64_t c) {
        double sum = 0;
        for (std::size_t k = 0; k < count; ++k) sum += sum_at(scatter, k, r, c);
        CHECK(received_at(scatter, i, r, c) == Approx(sum).epsilon(1e-14));
      });
    Group gather = make(CollectiveKind::all_gather, pieces, std::vector<Box>(count, whole), pieces);
    run(gather);
    for (std::size_t owner = 0; owner < count; ++owner)
      for_each(pieces[owner], [&](std::int64_t r, std::int64_t c) {
        for (std::size_t i = 0; i < count; ++i) CHECK(received_at(gather, i, r, c) == sum_at(gather, owner, r, c));
      });
  }
}

TEST_CASE("tensors that are reduced in one collective get the bits that they get alone, strips of larger blocks too") {
  for (std::size_t n : {2, 3, 5}) {
    std::vector<Box> whole(n, rows(0, 7, 3)), strip(n, Box{{0, 1}, {7, 2}}), large(n, rows(0, 9, 5000)), pieces, others;
    for (std::size_t i = 0; i < n; ++i) {
      pieces.push_back(rows(static_cast<std::int64_t>(i), 1, 3));
      others.push_back(rows(static_cast<std::int64_t>(i), 1, 5000));
    }
    std::vector<Group> sums = {make(CollectiveKind::all_reduce, whole, whole, strip),
                               make(CollectiveKind::all_reduce, large, large, large)};
    std::vector<Group> scattered = {make(CollectiveKind::reduce_scatter, whole, pieces, pieces),
                                    make(CollectiveKind::reduce_scatter, large, large, others)};
    for (std::vector<Group>& parts : {std::ref(sums), std::ref(scattered)}) {
      std::vector<Group> alone = parts;
      for (Group& g : alone) run(g);
      run_joined(parts);
      for (std::size_t k = 0; k < parts.size(); ++k) CHECK(parts[k].receive == alone[k].receive);
    }
  }
}

TEST_CASE("broadcast copies the root's box, reduce adds up at the root, with and without a summand of its own") {
  constexpr std::size_t kMembers = 4;
  Box box = rows(1, 3, 4), none;
  Group b =
      make(CollectiveKind::broadcast, {box, none, none, none}, {none, box, box, box}, std::vector<Box>(kMembers, box));
  run(b);
  for_each(box, [&](std::int64_t r, std::int64_t c) {
    for (std::size_t i = 1; i < kMembers; ++i) CHECK(received_at(b, i, r, c) == sum_at(b, 0, r, c));
  });
  for (bool own : {true, false}) {
    Group g = make(CollectiveKind::reduce, {own ? box : none, box, box, box}, {box, none, none, none},
                   std::vector<Box>(kMembers, box));
    run(g);
    for_each(box, [&](std::int64_t r, std::int64_t c) {
      double sum = 0;
      for (std::size_t i = own ? 0 : 1; i < kMembers; ++i) sum += sum_at(g, i, r, c);
      CHECK(received_at(g, 0, r, c) == Approx(sum).epsilon(1e-14));
    });
  }
}

TEST_CASE("along a tree, everybody gets the same bits of the sum, the root's box, or the root the sum of the others") {
  const Box box = rows(2, 5, 7), none;
  for (std::size_t n = 2; n <= 17; ++n)
    for (std::int64_t columns : {7, 9}) {  // the box is one run of the buffers, or not
      CAPTURE(n, columns);
      std::vector<Box> whole(n, rows(1, 8, columns)), of_root(n, none), pieces(n, box);
      of_root[0] = whole[0];
      for (Monoid monoid : {Monoid::sum, Monoid::max}) {
        Group all = make(CollectiveKind::all_reduce, whole, whole, pieces);
        all.communication.algorithm = kTree;
        all.communication.monoid = monoid;
        run(all);
        for_each(box, [&](std::int64_t r, std::int64_t c) {
          double expected = sum_at(all, 0, r, c);
          for (std::size_t i = 1; i < n; ++i)
            expected =
                monoid == Monoid::sum ? expected + sum_at(all, i, r, c) : std::max(expected, sum_at(all, i, r, c));
          for (std::size_t i = 0; i < n; ++i) {
            CHECK(received_at(all, i, r, c) == received_at(all, 0, r, c));
            CHECK(received_at(all, i, r, c) == Approx(expected).epsilon(1e-14));
          }
        });
      }
      for (bool own : {true, false}) {
        std::vector<Box> summands = whole;
        if (!own) summands[0] = none;
        Group sum = make(CollectiveKind::reduce, summands, of_root, pieces);
        sum.communication.algorithm = kTree;
        run(sum);
        for_each(box, [&](std::int64_t r, std::int64_t c) {
          double expected = 0;
          for (std::size_t i = own ? 0 : 1; i < n; ++i) expected += sum_at(sum, i, r, c);
          CHECK(received_at(sum, 0, r, c) == Approx(expected).epsilon(1e-14));
        });
      }
      Group copies = make(CollectiveKind::broadcast, of_root, whole, pieces);
      copies.communication.algorithm = kTree;
      run(copies);
      for_each(box, [&](std::int64_t r, std::int64_t c) {
        for (std::size_t i = 0; i < n; ++i) CHECK(received_at(copies, i, r, c) == sum_at(copies, 0, r, c));
      });
    }
}

TEST_CASE("tensors that are sent or added up in one call get the bits that they get alone, along chains and trees") {
  const Box large = rows(0, 9, 5000), small = rows(0, 7, 3), strip{{0, 1}, {7, 2}}, none;
  for (std::size_t n : {2, 3, 6})
    for (bool binomial : {false, true})
      for (bool own : {true, false}) {
        CAPTURE(n, binomial, own);
        auto of = [&](CollectiveKind kind, const Box& whole, const Box& piece) {
          std::vector<Box> all(n, whole), root(n, none), others = all;
          root[0] = whole;
          if (!own) others[0] = none;
          Group g = kind == CollectiveKind::broadcast ? make(kind, root, others, std::vector<Box>(n, piece))
                                                      : make(kind, others, root, std::vector<Box>(n, piece));
          if (binomial) g.communication.algorithm = kTree;
          return g;
        };
        for (CollectiveKind kind : {CollectiveKind::broadcast, CollectiveKind::reduce}) {
          std::vector<Group> parts = {of(kind, small, strip), of(kind, large, large)}, alone = parts;
          for (Group& g : alone) run(g);
          run_joined(parts);
          for (std::size_t k = 0; k < parts.size(); ++k) CHECK(parts[k].receive == alone[k].receive);
        }
      }
}

TEST_CASE("hierarchically, sums, scattered sums and gathered pieces are those of a ring, whatever nodes and chunks") {
  for (auto [places, nodes] : {std::pair(2, 2), std::pair(3, 2), std::pair(2, 3), std::pair(1, 4), std::pair(4, 1)})
    for (int chunks : {1, 2, 3, 5, 64})
      for (std::int64_t columns : {7, 9}) {  // the box is one run of the buffers, or not
        CAPTURE(places, nodes, chunks, columns);
        const auto n = static_cast<std::size_t>(places * nodes);
        std::vector<Box> pieces;  // of different sizes
        std::int64_t end = 2;
        for (std::size_t i = 0; i < n; ++i) {
          const auto size = static_cast<std::int64_t>(i % 3);  // of none, too
          pieces.push_back(rows(end, size, 7));
          end += size;
        }
        const std::vector<Box> whole(n, rows(0, end + 1, columns)), box(n, rows(2, end - 2, 7));
        auto of = [&](CollectiveKind kind, const std::vector<Box>& send, const std::vector<Box>& receive,
                      const std::vector<Box>& moved) {
          Group g = make(kind, send, receive, moved);
          g.communication.algorithm = {CollectiveAlgorithm::hierarchical, places, chunks};
          return g;
        };
        auto sum_of_all = [&](const Group& g, std::int64_t r, std::int64_t c) {
          double sum = 0;
          for (std::size_t i = 0; i < n; ++i) sum += sum_at(g, i, r, c);
          return sum;
        };
        Group sum = of(CollectiveKind::all_reduce, whole, whole, box);
        run(sum);
        for_each(box[0], [&](std::int64_t r, std::int64_t c) {
          CHECK(received_at(sum, 0, r, c) == Approx(sum_of_all(sum, r, c)).epsilon(1e-14));
          for (std::size_t i = 1; i < n; ++i) CHECK(received_at(sum, i, r, c) == received_at(sum, 0, r, c));
        });
        for (std::size_t i = 0; i < n; ++i) CHECK(received_at(sum, i, 0, 0) == -1);  // outside of the box

        Group scattered = of(CollectiveKind::reduce_scatter, whole, whole, pieces);
        run(scattered);
        Group gathered = of(CollectiveKind::all_gather, whole, whole, pieces);
        run(gathered);
        for (std::size_t owner = 0; owner < n; ++owner)
          for_each(pieces[owner], [&](std::int64_t r, std::int64_t c) {
            CHECK(received_at(scattered, owner, r, c) == Approx(sum_of_all(scattered, r, c)).epsilon(1e-14));
            for (std::size_t i = 0; i < n; ++i) CHECK(received_at(gathered, i, r, c) == sum_at(gathered, owner, r, c));
          });
      }
}

TEST_CASE("hierarchical maxima of positive and negative zeros, and sums of several tensors, do not depend on how") {
  constexpr std::size_t kMembers = 6;
  const CommunicationAlgorithm hierarchical{CollectiveAlgorithm::hierarchical, 2, 3};
  const std::vector<Box> box(kMembers, rows(0, 5, 9)), strip(kMembers, Box{{0, 1}, {5, 7}}),
      large(kMembers, rows(0, 9, 40'000));
  Group zeros = make(CollectiveKind::all_reduce, box, box, box);
  zeros.communication.algorithm = hierarchical;
  zeros.communication.monoid = Monoid::max;
  for (std::size_t i = 0; i < kMembers; ++i)
    for (std::size_t k = 0; k < zeros.send[i].size(); ++k) zeros.send[i][k] = (i * k + i + k) % 3 ? 0.0 : -0.0;
  run(zeros);
  CHECK(received_at(zeros, 0, 0, 0) == 0);

  for (CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter}) {
    std::vector<Box> pieces = strip, others = large;
    if (kind == CollectiveKind::reduce_scatter)
      for (std::size_t i = 0; i < kMembers; ++i) {
        pieces[i] = rows(static_cast<std::int64_t>(i) % 5, i < 5 ? 1 : 0, 9);
        others[i] = rows(static_cast<std::int64_t>(i), 1, 40'000);
      }
    std::vector<Group> parts = {make(kind, box, box, pieces), make(kind, large, large, others)};
    for (Group& g : parts) g.communication.algorithm = hierarchical;
    std::vector<Group> alone = parts;
    for (Group& g : alone) run(g);
    run_joined(parts);
    for (std::size_t k = 0; k < parts.size(); ++k) CHECK(parts[k].receive == alone[k].receive);
  }
}

TEST_CASE("all-to-all turns rows into columns") {
  // Participant i holds rows [2i, 2i+2) of a 6 x 6 tensor, and wants columns [2i, 2i+2).
  std::vector<Box> held, wanted;
  for (std::int64_t i = 0; i < 3; ++i) held.push_back(rows(2 * i, 2, 6)), wanted.push_back({{0, 2 * i}, {6, 2}});
  Group g = make(CollectiveKind::all_to_all, held, wanted, std::vector<Box>(3));
  for (std::int32_t from = 0; from < 3; ++from)
    for (std::int32_t to = 0; to < 3; ++to)
      g.communication.exchanges.push_back(
          {from, to, intersect(held[static_cast<std::size_t>(from)], wanted[static_cast<std::size_t>(to)])});
  run(g);
  for (std::size_t to = 0; to < 3; ++to)
    for_each(wanted[to], [&](std::int64_t r, std::int64_t c) {
      CHECK(received_at(g, to, r, c) == sum_at(g, static_cast<std::size_t>(r / 2), r, c));
    });
}

TEST_CASE("an all-to-all of several tensors gives what one of each gives, devices without a share included") {
  // Tensor 0: participants 0 and 1 hold rows, 2 and 3 get columns. Tensor 1: 3 holds all, of which 0 and 3 get a row.
  const Box none, left{{0, 0}, {4, 1}}, right{{0, 1}, {4, 2}}, all = rows(0, 4, 3);
  std::vector<Group> parts = {make(CollectiveKind::all_to_all, {rows(0, 2, 3), rows(2, 2, 3), none, none},
                                   {none, none, left, right}, std::vector<Box>(4)),
                              make(CollectiveKind::all_to_all, {none, none, none, all},
                                   {rows(1, 1, 3), none, none, rows(3, 1, 3)}, std::vector<Box>(4))};
  for (std::int32_t from : {0, 1})
    for (std::int32_t to : {2, 3})
      parts[0].communication.exchanges.push_back(
          {from, to, intersect(rows(2 * from, 2, 3), to == 2 ? left : right), 0});
  parts[1].communication.exchanges = {{3, 0, rows(1, 1, 3), 0}, {3, 3, rows(3, 1, 3), 0}};
  std::vector<Group> alone = parts;
  for (Group& g : alone) run(g);
  run_joined(parts);
  for (std::size_t k = 0; k < parts.size(); ++k) CHECK(parts[k].receive == alone[k].receive);
  for_each(rows(3, 1, 3),
           [&](std::int64_t r, std::int64_t c) { CHECK(received_at(parts[1], 3, r, c) == sum_at(parts[1], 3, r, c)); });
}

TEST_CASE("a cancelled run wakes those who wait") {
  Processes alone;
  auto communicator = make_communicator(2, alone);
  bool woken = false;
  std::jthread waiter([&] {
    std::byte data[8];
    try {
      communicator->receive(DeviceId(0), DeviceId(1), 5, data);
    } catch (const Cancelled&) {
      woken = true;
    }
  });
  communicator->cancel();
  waiter.join();
  CHECK(woken);
}
