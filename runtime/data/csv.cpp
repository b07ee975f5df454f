// Tables with the label last, and the digits: fields `features` and `labels`.
#include <algorithm>
#include <filesystem>

#include "runtime/data/dataset.h"
#include "runtime/data/file_bytes.h"
#include "runtime/data/loaders.h"

namespace unity {
namespace {

class TableSource : public DataSource {
 public:
  TableSource(Dataset table, std::string path)
      : DataSource(table.name,
                   {{"features", {table.features}, DType::f64, 0}, {"labels", {}, DType::i32, table.classes}}),
        table_(std::move(table)),
        path_(std::move(path)) {}
  std::int64_t rows() const override { return table_.rows(); }
  std::string where(std::int64_t row) const override {
    return fmt::format("{}:{}", path_, table_.lines[static_cast<std::size_t>(row)]);
  }

 protected:
  void load(std::span<const std::int64_t> rows, std::map<std::string, HostTensor>& batch) const override {
    auto x = batch.at("features").reals.begin();
    auto y = batch.at("labels").indices.begin();
    for (std::int64_t row : rows) {
      x = std::copy_n(table_.values.begin() + row * table_.features, table_.features, x);
      *y++ = table_.labels[static_cast<std::size_t>(row)];
    }
  }

 private:
  Dataset table_;
  std::string path_;
};

}  // namespace

bool suits_csv(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) &&
         first_bytes(path, 4096).find('\0') == std::string::npos;  // text, whatever its name
}

DataSplit open_csv(const std::string& path, const std::vector<ModelInput>&) {
  return {std::make_shared<TableSource>(load_csv(path), path), nullptr};
}

DataSplit open_digits() { return {std::make_shared<TableSource>(load_digits(), "digits"), nullptr}; }

}  // namespace unity
