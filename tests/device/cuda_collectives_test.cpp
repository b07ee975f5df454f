// Every kind of communication among logical devices that share one GPU, in Programs put together by hand. What is sent
// are small whole numbers, whose sums every precision holds exactly, so that results are compared exactly.
#include <functional>

#include <catch2/catch.hpp>

#include "runtime/executor.h"
#include "tests/device/gpu.h"
#include "tests/support/runtime_program.h"

using namespace unity;
using namespace unity::test;

namespace {

Box rows(std::int64_t from, std::int64_t count, std::int64_t columns) { return {{from, 0}, {count, columns}}; }

// Participant i sends send[i] of a tensor of its own, and receives into receive[i]; a box without dimensions: nothing.
struct Case {
  CollectiveKind kind = CollectiveKind::send;
  Monoid monoid = Monoid::sum;
  DType dtype = DType::f32;
  Dims dims;
  std::vector<Box> send, receive, pieces;
  // What participant i receives at an element, of what is sent there.
  std::function<double(std::size_t i, std::int64_t row, std::int64_t column)> expected;
};

// From -6 to 6, another for every step.
std::int64_t sent(std::size_t from, std::int64_t row, std::int64_t column, int step) {
  return (static_cast<std::int64_t>(from + 1) * 5 + row * 3 + column * 7 + step * 4) % 13 - 6;
}

struct Sum {
  std::vector<Box> boxes;  // of those that send
  int* step;
  double operator()(std::size_t, std::int64_t row, std::int64_t column) const {
    double sum = 0;
    for (std::size_t i = 0; i < boxes.size(); ++i)
      if (boxes[i].rank()) sum += static_cast<double>(sent(i, row, column, *step));
    return sum;
  }
};

// Three steps: the first one task by task, the others by a captured graph, each with other inputs. Where there can be
// several tensors, there is one more, of which all is negative.
void check_case(const Case& c, const std::vector<Exchange>& exchanges, const std::string& backend, Precision precision,
                int& step) {
  INFO(to_string(c.kind) << " among " << c.send.size() << " devices, " << to_string(c.dtype) << " in "
                         << to_string(precision));
  ProgramByHand h;
  h.program.name = to_string(c.kind);
  Communication communication;
  communication.kind = c.kind, communication.monoid = c.monoid, communication.dtype = c.dtype;
  communication.name = "x", communication.exchanges = exchanges;
  struct Receiver {
    std::size_t participant;
    double sign;
  };
  std::vector<Receiver> receivers;
  const int parts = c.kind == CollectiveKind::all_gather || c.monoid != Monoid::sum ? 1 : 2;
  auto input_of = [](int part, std::size_t i) { return fmt::format("x{}.{}", part, i); };
  for (int part = 0; part < parts; ++part) {
    std::vector<Participant> participants;
    for (std::size_t i = 0; i < c.send.size(); ++i) {
      int device = static_cast<int>(i);
      Participant p{DeviceId(device), {}, {}, c.pieces.empty() ? Box{} : c.pieces[i]};
      h.program.devices = std::max(h.program.devices, device + 1);
      if (c.send[i].rank()) {
        std::int32_t x = h.leaf(input_of(part, i), "input", {c.dims, std::string(to_string(c.dtype))});
        h.program.tensors.back().dtype = c.dtype;
        p.send = h.buffer(x, device, c.send[i], BufferCategory::input);
      }
      if (c.receive[i].rank()) {
        std::int32_t y = h.tensor(fmt::format("y{}.{}", part, i), c.dims);
        h.program.tensors.back().dtype = c.dtype;
        p.receive = h.buffer(y, device, c.receive[i]);
        h.program.outputs.push_back({fmt::format("y{}.{}", part, i), c.dims, {p.receive}});
        receivers.push_back({i, part == 0 ? 1.0 : -1.0});
      }
      participants.push_back(p);
    }
    if (part == 0) {
      communication.participants = std::move(participants);
    } else {
      communication.joined.push_back(std::move(participants));
      for (Exchange e : exchanges) e.part = part, communication.exchanges.push_back(std::move(e));
    }
  }
  h.communicate(communication, {});
  Executor executor(h.program,
                    {.backend = backend, .precision = precision, .one_device = shares_gpu(backend, h.program.devices)});
  for (step = 0; step < 3; ++step) {
    for (int part = 0; part < parts; ++part)
      for (std::size_t i = 0; i < c.send.size(); ++i) {
        if (!c.send[i].rank()) continue;
        HostTensor x = c.dtype == DType::i32 ? index_tensor(c.dims) : real_tensor(c.dims);
        for (std::int64_t k = 0; k < x.elements(); ++k) {
          std::int64_t value = (part == 0 ? 1 : -1) * sent(i, k / c.dims[1], k % c.dims[1], step);
          if (c.dtype == DType::i32)
            x.indices[static_cast<std::size_t>(k)] = static_cast<std::int32_t>(value);
          else
            x.reals[static_cast<std::size_t>(k)] = static_cast<double>(value);
        }
        executor.set_input(input_of(part, i), x);
      }
    executor.step();
    for (std::size_t o = 0; o < receivers.size(); ++o) {
      const auto [participant, sign] = receivers[o];
      const Box& box = c.receive[participant];
      HostTensor found = executor.output(o), expected = real_tensor(c.dims);
      for (std::int64_t k = 0; k < expected.elements(); ++k) {
        std::int64_t row = k / c.dims[1], column = k % c.dims[1];
        if (row < box.offset[0] || row >= box.offset[0] + box.extent[0]) continue;
        if (column < box.offset[1] || column >= box.offset[1] + box.extent[1]) continue;
        expected.reals[static_cast<std::size_t>(k)] = sign * c.expected(participant, row, column);
      }
      INFO("step " << step << ", participant " << participant << ", sign " << sign);
      CHECK(found.reals == expected.reals);
    }
  }
}

void check_collectives(const std::string& backend, Precision precision) {
  int step = 0;
  const Box none;
  for (std::size_t n = 2; n <= 4; ++n) {
    auto count = static_cast<std::int64_t>(n);
    Box box = rows(1, 3, 5), held = rows(0, 5, 5);
    std::vector<Box> all(n, held), boxes(n, box), only_first(n, none), others(n, box);
    only_first[0] = box, others[0] = none;
    Sum sum{all, &step};
    auto largest = [&](std::size_t, std::int64_t row, std::int64_t column) {
      std::int64_t most = sent(0, row, column, step);
      for (std::size_t i = 1; i < n; ++i) most = std::max(most, sent(i, row, column, step));
      return static_cast<double>(most);
    };
    auto of_first = [&](std::size_t, std::int64_t row, std::int64_t column) {
      return static_cast<double>(sent(0, row, column, step));
    };
    check_case({CollectiveKind::all_reduce, Monoid::sum, DType::f32, {5, 5}, all, boxes, boxes, sum}, {}, backend,
               precision, step);
    check_case({CollectiveKind::all_reduce, Monoid::max, DType::f32, {5, 5}, all, boxes, boxes, largest}, {}, backend,
               precision, step);
    check_case({CollectiveKind::reduce, Monoid::sum, DType::f32, {5, 5}, all, only_first, boxes, sum}, {}, backend,
               precision, step);
    check_case({CollectiveKind::reduce, Monoid::sum, DType::f32, {5, 5}, others, only_first, boxes, Sum{others, &step}},
               {}, backend, precision, step);
    for (DType dtype : {DType::f32, DType::i32})
      check_case({CollectiveKind::broadcast, Monoid::sum, dtype, {5, 5}, only_first, others, boxes, of_first}, {},
                 backend, precision, step);

    // Pieces of 1, 2, 3, 1 rows.
    std::vector<Box> pieces;
    std::int64_t at = 0;
    for (std::int64_t i = 0; i < count; ++i) pieces.push_back(rows(at, 1 + i % 3, 5)), at += 1 + i % 3;
    std::vector<Box> whole(n, rows(0, at, 5));
    auto of_owner = [&](std::size_t, std::int64_t row, std::int64_t column) {
      for (std::size_t i = 0; i < n; ++i)
        if (row >= pieces[i].offset[0] && row < pieces[i].offset[0] + pieces[i].extent[0])
          return static_cast<double>(sent(i, row, column, step));
      return 0.0;
    };
    check_case({CollectiveKind::reduce_scatter, Monoid::sum, DType::f32, {at, 5}, whole, pieces, pieces, sum}, {},
               backend, precision, step);
    check_case({CollectiveKind::reduce_scatter, Monoid::max, DType::f32, {at, 5}, whole, pieces, pieces, largest}, {},
               backend, precision, step);
    for (DType dtype : {DType::f32, DType::i32})
      check_case({CollectiveKind::all_gather, Monoid::sum, dtype, {at, 5}, pieces, whole, pieces, of_owner}, {},
                 backend, precision, step);

    // Rows become columns: participant i holds rows [2i, 2i+2), and wants columns [2i, 2i+2).
    std::vector<Box> by_rows, by_columns;
    for (std::int64_t i = 0; i < count; ++i)
      by_rows.push_back(rows(2 * i, 2, 2 * count)), by_columns.push_back({{0, 2 * i}, {2 * count, 2}});
    std::vector<Exchange> exchanges;
    for (std::size_t from = 0; from < n; ++from)
      for (std::size_t to = 0; to < n; ++to)
        exchanges.push_back(
            {static_cast<std::int32_t>(from), static_cast<std::int32_t>(to), intersect(by_rows[from], by_columns[to])});
    auto of_rows = [&](std::size_t, std::int64_t row, std::int64_t column) {
      return static_cast<double>(sent(static_cast<std::size_t>(row / 2), row, column, step));
    };
    check_case({CollectiveKind::all_to_all,
                Monoid::sum,
                DType::f32,
                {2 * count, 2 * count},
                by_rows,
                by_columns,
                std::vector<Box>(n),
                of_rows},
               exchanges, backend, precision, step);
  }
  Box box = rows(1, 2, 5);
  check_case({CollectiveKind::send,
              Monoid::sum,
              DType::f32,
              {4, 5},
              {rows(0, 4, 5), none},
              {none, rows(1, 3, 5)},
              {box, box},
              [&](std::size_t, std::int64_t row, std::int64_t column) {
                return row < 3 ? static_cast<double>(sent(0, row, column, step)) : 0.0;
              }},
             {}, backend, precision, step);
}

}  // namespace

TEST_CASE("every communication among two to four devices moves and adds up what it should, on the CPU") {
  check_collectives("cpu", Precision::f32);
  check_collectives("cpu", Precision::f64);
}

TEST_CASE("every communication among two to four devices that share a GPU moves and adds up what it should") {
  if (!gpu_or_skip()) return;
  for (Precision precision : {Precision::f64, Precision::f32, Precision::bf16}) DYNAMIC_SECTION(to_string(precision)) {
      check_collectives("cuda", precision);
    }
}
