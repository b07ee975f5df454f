// RowsSteps: sort the ids of every table, cut each sorted list in pieces of a fixed length, and let a group of threads
// add up each run of equal rows within a piece. Where all ids of a row lie within one piece, the group updates the row
// at once; the sums of a row that reaches into other pieces are put together afterwards, in the order of the pieces.
#include "runtime/cuda/alignment.h"
#include "runtime/cuda/block_ids.h"
#include "runtime/cuda/optimizers.h"
#include "runtime/cuda/walk.h"

namespace unity::cuda {
namespace {

constexpr int kPiece = 32;

// A step as kernels read it.
struct TableStep {
  void *table = nullptr, *dy = nullptr;
  BFloat16* rounded = nullptr;
  double rate = 0;
  BlockIds ids;
  Divider ids_of_row;  // of dy
  std::int64_t width = 0;
  bool doubles = false, half = false;                          // the table is f64; dy is bf16
  bool four = false;                                           // four elements of rows are taken at once
  std::int64_t first_entry = 0, first_piece = 0, scratch = 0;  // in what all steps of a list take together
  std::int64_t places = 0, sums = 0, sorting = 0;              // in its scratch memory, sorted rows first
};

std::int32_t pieces_of(std::int64_t entries) { return static_cast<std::int32_t>((entries + kPiece - 1) / kPiece); }

// Which of a list: the last that begins at `at` or before.
UNITY_DEVICE int table_of(const TableStep* tables, int count, std::int64_t TableStep::*first, std::int64_t at) {
  int low = 0, high = count - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (tables[middle].*first <= at)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

// Parts of a table's scratch memory, in bytes from its beginning.
struct Layout {
  std::int64_t rows, places, sums, sorting, all;
  explicit Layout(const TableStep& t) {
    std::int64_t list = bytes_of_list(t.ids.count), sum = t.width * (t.doubles ? 8 : 4);
    rows = 0, places = list, sums = 2 * list;
    sorting = sums + aligned_bytes(2 * pieces_of(t.ids.count) * sum);
    all = sorting + aligned_bytes(sort_rows_bytes(t.ids));
  }
};

// A table's step on the device. Tables are of type V, rows of dy of type G; kCount elements of a row are taken at once.
template <class V, class G, int kCount>
class OfTable {
 public:
  UNITY_DEVICE OfTable(const TableStep& t, char* scratch, const StepValues* step)
      : sorted_{reinterpret_cast<const std::uint32_t*>(scratch + t.scratch),
                reinterpret_cast<const std::int32_t*>(scratch + t.scratch + t.places), t.ids.count, t.ids.rows},
        width_(static_cast<std::int32_t>(t.width)),
        ids_of_row_(t.ids_of_row),
        weights_{static_cast<V*>(t.table)},
        gradients_{static_cast<G*>(t.dy)},
        rounded_{t.rounded},
        sums_{reinterpret_cast<V*>(scratch + t.scratch + t.sums)},
        rate_(static_cast<V>(t.rate * step->rate_factor)) {}

  UNITY_OF_GROUP void sum_run(const Group& group, std::int32_t i) const {
    const auto run = sorted_.run(i);
    if (run.end == run.begin) return;
    for (std::int32_t j = kCount * group.rank(); j < width_; j += kCount * group.size()) {
      const std::int64_t to = at(sorted_.rows[i]) + j;
      Four<V> weight = {}, sum = {};
      if (run.whole()) weight = load_some<kCount>(weights_, to);
      add_in_order<kCount>(sum, run.begin, run.end, [&](std::int32_t k) {
        return load_some<kCount>(gradients_, ids_of_row_.quotient_of_small(sorted_.places[k]) * width_ + j);
      });
      if (run.whole())
        update(to, weight, sum);
      else
        store_some<kCount>(sums_, run.slot() * width_ + j, sum);
    }
  }

  UNITY_OF_GROUP void join_pieces(const Group& group, std::int32_t piece) const {
    const std::int32_t last = sorted_.last_piece(piece);
    if (last == 0) return;
    for (std::int32_t j = kCount * group.rank(); j < width_; j += kCount * group.size()) {
      const std::int64_t to = at(sorted_.rows[last * kPiece]) + j;
      const Four<V> weight = load_some<kCount>(weights_, to);
      Four<V> sum = load_some<kCount>(sums_, (2 * static_cast<std::int64_t>(piece) + 1) * width_ + j);
      add_in_order<kCount>(sum, piece + 1, last + 1, [&](std::int32_t p) {
        return load_some<kCount>(sums_, 2 * static_cast<std::int64_t>(p) * width_ + j);
      });
      update(to, weight, sum);
    }
  }

 private:
  UNITY_DEVICE std::int64_t at(std::uint32_t row) const { return static_cast<std::int64_t>(row) * width_; }
  UNITY_DEVICE void update(std::int64_t to, const Four<V>& weight, const Four<V>& sum) const {
    Four<V> w = {};
    Four<BFloat16> half = {};
    for (int c = 0; c < kCount; ++c) {
      w.v[c] = weight.v[c] - rate_ * sum.v[c];
      half.v[c] = to_bfloat16(static_cast<float>(w.v[c]));
    }
    store_some<kCount>(weights_, to, w);
    if (rounded_.data) store_some<kCount>(rounded_, to, half);
  }

  SortedRows<kPiece> sorted_;
  std::int32_t width_;
  Divider ids_of_row_;
  Dense<V> weights_;
  Dense<G> gradients_;
  Dense<BFloat16> rounded_;
  Dense<V> sums_;  // of each piece, those of its first and of its last row
  V rate_;
};

// work(a table's OfTable), in the types of that.
template <class Work>
UNITY_OF_GROUP void with_types(const TableStep& t, char* scratch, const StepValues* step, const Work& work) {
  if (t.doubles)
    work(OfTable<double, double, 1>(t, scratch, step));
  else if (t.half && t.four)
    work(OfTable<float, BFloat16, 4>(t, scratch, step));
  else if (t.half)
    work(OfTable<float, BFloat16, 1>(t, scratch, step));
  else if (t.four)
    work(OfTable<float, float, 4>(t, scratch, step));
  else
    work(OfTable<float, float, 1>(t, scratch, step));
}

TableStep table_step(const RowsStep& how) {
  const Operand &table = how.table, &dy = how.dy;
  UNITY_CHECK(table.dtype == DType::f32 || table.dtype == DType::f64,
              "cuda sgd by rows: the table is {}, expected f32 or f64", to_string(table.dtype));
  UNITY_CHECK(table.extent[1] < INT32_MAX, "cuda sgd by rows: rows of {}, expected fewer", table.extent[1]);
  TableStep t;
  t.table = table.data, t.dy = dy.data, t.rounded = how.rounded, t.rate = how.rate, t.width = table.extent[1];
  t.ids = BlockIds(indices(how.ids), how.ids.elements(), table.offset[0], table.extent[0]);
  t.ids_of_row = Divider(how.ids.elements() * t.width / dy.elements());
  t.doubles = table.dtype == DType::f64, t.half = dy.dtype == DType::bf16;
  t.four = !t.doubles && t.width % 4 == 0 && aligned_for_four<float>(table.data) &&
           aligned_for_four<BFloat16>(how.rounded) &&
           (t.half ? aligned_for_four<BFloat16>(dy.data) : aligned_for_four<float>(dy.data));
  const Layout layout(t);
  t.places = layout.places, t.sums = layout.sums, t.sorting = layout.sorting;
  return t;
}

// What they are together. First come those that are sorted by one launch for all.
struct Steps {
  const TableStep* list;
  int count;
  char* scratch;
  const StepValues* step;
};

void sort_ranked(Stream stream, std::int64_t entries, Steps all) {
  for_each_group(
      stream, entries, kWarpWork, UNITY_LAMBDA(std::int64_t entry, const Group& group) {
        const TableStep& t = all.list[table_of(all.list, all.count, &TableStep::first_entry, entry)];
        const auto i = static_cast<std::int32_t>(entry - t.first_entry);
        const std::int32_t at = t.ids.rank(group, i);
        if (group.rank() != 0) return;
        reinterpret_cast<std::uint32_t*>(all.scratch + t.scratch)[at] = t.ids.row(t.ids.ids.load(i));
        reinterpret_cast<std::int32_t*>(all.scratch + t.scratch + t.places)[at] = i;
      });
}

void sum_runs(Stream stream, std::int64_t entries, std::int64_t work, Steps all) {
  for_each_group(
      stream, entries, work, UNITY_LAMBDA(std::int64_t entry, const Group& group) {
        const TableStep& t = all.list[table_of(all.list, all.count, &TableStep::first_entry, entry)];
        const auto i = static_cast<std::int32_t>(entry - t.first_entry);
        with_types(t, all.scratch, all.step, [&](const auto& of) { of.sum_run(group, i); });
      });
}

void join_pieces(Stream stream, std::int64_t pieces, std::int64_t work, Steps all) {
  for_each_group(
      stream, pieces, work, UNITY_LAMBDA(std::int64_t index, const Group& group) {
        const TableStep& t = all.list[table_of(all.list, all.count, &TableStep::first_piece, index)];
        const auto piece = static_cast<std::int32_t>(index - t.first_piece);
        with_types(t, all.scratch, all.step, [&](const auto& of) { of.join_pieces(group, piece); });
      });
}

}  // namespace

struct RowsSteps::Tables {
  std::vector<TableStep> list;
  std::int64_t entries = 0, ranked = 0, pieces = 0, scratch = 0, work = 1;
};

RowsSteps::RowsSteps(std::span<const RowsStep> steps) {
  Tables all;
  for (const RowsStep& how : steps)
    if (how.ids.elements() > 0 && how.dy.elements() > 0) all.list.push_back(table_step(how));
  std::stable_partition(all.list.begin(), all.list.end(), [](const TableStep& t) { return t.ids.count <= kRanked; });
  for (TableStep& t : all.list) {
    t.first_entry = all.entries, t.first_piece = all.pieces, t.scratch = all.scratch;
    all.entries += t.ids.count, all.pieces += pieces_of(t.ids.count), all.scratch += Layout(t).all;
    if (t.ids.count <= kRanked) all.ranked = all.entries;
    all.work = std::max(all.work, t.four ? t.width / 4 : t.width);
  }
  tables_ = std::make_shared<const Tables>(std::move(all));
}

std::span<const std::byte> RowsSteps::list() const { return std::as_bytes(std::span(tables_->list)); }
std::int64_t RowsSteps::scratch() const { return tables_->scratch; }

void RowsSteps::run(Stream stream, const void* list, const StepValues* step, void* scratch) const {
  const Tables& t = *tables_;
  Steps all{static_cast<const TableStep*>(list), static_cast<int>(t.list.size()), static_cast<char*>(scratch), step};
  for (const TableStep& one : t.list) {
    char* memory = all.scratch + one.scratch;
    if (one.ids.count > kRanked)
      sort_rows(stream, one.ids, reinterpret_cast<std::uint32_t*>(memory),
                reinterpret_cast<std::int32_t*>(memory + one.places), memory + one.sorting);
  }
  sort_ranked(stream, t.ranked, all);
  sum_runs(stream, t.entries, t.work, all);
  if (t.pieces > all.count) join_pieces(stream, t.pieces, t.work, all);
}

}  // namespace unity::cuda
