// Where training rows come from: one interface for tables, arrays, images, click logs and token files.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/hash.h"
#include "core/plan/program.h"
#include "runtime/host_tensor.h"

namespace unity {

// What every row of a source has.
struct Field {
  std::string name;
  Dims dims;                 // of one row; a scalar has none
  DType dtype = DType::f64;  // f64 (real numbers) or i32
  std::int64_t bound = 0;    // i32: all values are below; 0 when only reading tells
  bool operator==(const Field&) const = default;
};
std::string to_string(const Field& field);  // "64 features (real)", "1 labels (i32 below 10)"

// Rows with fields. Sources are immutable: `read` may be called from several threads at once.
class DataSource {
 public:
  DataSource(std::string name, std::vector<Field> fields) : name_(std::move(name)), fields_(std::move(fields)) {}
  virtual ~DataSource() = default;

  const std::string& name() const { return name_; }
  const std::vector<Field>& fields() const { return fields_; }
  virtual std::int64_t rows() const = 0;

  // Where a row stands, for messages: "x.csv:17", "digits.npy: row 3".
  virtual std::string where(std::int64_t row) const;

  // Every field of these rows, [rows.size(), dims of the field ..]. InputError on rows that there are not, and on
  // content that cannot be read (sources that are read lazily find it here).
  std::map<std::string, HostTensor> read(std::span<const std::int64_t> rows) const;

 protected:
  // Fills tensors that have their shape already and hold zeros.
  virtual void load(std::span<const std::int64_t> rows, std::map<std::string, HostTensor>& batch) const = 0;

 private:
  friend class RowSubset;
  std::string name_;
  std::vector<Field> fields_;
};

// Tells data apart, wherever they lie: by their fields, how many rows they have, and what is in a few of these.
Hash contents_of(const DataSource& source);

// Some rows of a source, in their own order.
class RowSubset : public DataSource {
 public:
  RowSubset(std::shared_ptr<const DataSource> source, std::vector<std::int64_t> rows)
      : DataSource(source->name(), source->fields()), source_(std::move(source)), rows_(std::move(rows)) {}
  std::int64_t rows() const override { return static_cast<std::int64_t>(rows_.size()); }
  std::string where(std::int64_t row) const override;

 protected:
  void load(std::span<const std::int64_t> rows, std::map<std::string, HostTensor>& batch) const override;

 private:
  std::shared_ptr<const DataSource> source_;
  std::vector<std::int64_t> rows_;
};

// An input of the model. Sources look here for the size of images, the length of a row of tokens, the rows of a table.
struct ModelInput {
  std::string name;
  Dims dims;                 // the batch first
  DType dtype = DType::f32;  // f32 or i32
  std::int64_t bound = 0;    // i32: values must be below; 0 when unknown
};
std::vector<ModelInput> model_inputs(const std::vector<ProgramLeaf>& inputs,
                                     const std::map<std::string, std::int64_t>& index_bounds);

struct DataSplit {
  std::shared_ptr<const DataSource> training, test;
};

// Shuffled with a fixed seed; the test part has a fifth of the rows (digits: 360), rounded up.
DataSplit split(std::shared_ptr<const DataSource> source, std::uint64_t seed = 1);

// The data of `--data TEXT`: "digits", or a path that is judged by what it is (loaders.def). Split as the data say
// (a folder with training and test files), else by `split`, or with `whole` not at all: `test` is null then. InputError
// on what is missing, unknown or damaged.
DataSplit open_data(const std::string& text, const std::vector<ModelInput>& inputs, bool whole = false);

}  // namespace unity
