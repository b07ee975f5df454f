// Tables of labelled rows, held in memory, and synthetic batches for any model.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/plan/program.h"
#include "runtime/host_tensor.h"

namespace unity {

// Rows of features with a class each.
struct Dataset {
  std::string name;
  std::int64_t features = 0;
  std::int64_t classes = 0;
  std::vector<double> values;        // row-major, rows() x features
  std::vector<std::int32_t> labels;  // in [0, classes)
  std::vector<int> lines;            // of the file, per row
  std::int64_t rows() const { return static_cast<std::int64_t>(labels.size()); }
};

// The digits that come with Unity: 1,797 rows of 64 pixels, scaled to 0..1; 10 classes.
Dataset load_digits();

// Comma-separated numbers, the label last; a first line without any number is a header. Gzip files are unpacked.
// InputError "file:line: ..." on a short or long row, something that is not a number, NaN, and labels that are not
// non-negative integers.
Dataset load_csv(const std::string& path);

// A permutation of 0..n-1 that depends on the key alone.
std::vector<std::int64_t> permutation(std::int64_t n, std::uint64_t key);

// One batch for every input of a program: whole numbers below `index_bounds[name]` where that is given (labels, also
// as reals); else standard normal reals, or indices below 2.
std::map<std::string, HostTensor> synthetic_batch(const std::vector<ProgramLeaf>& inputs,
                                                  const std::map<std::string, std::int64_t>& index_bounds,
                                                  std::uint64_t seed, std::int64_t step);

}  // namespace unity
