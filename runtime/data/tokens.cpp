// Token files: raw little-endian numbers of 16 bits (.bin) or 32 (.u32.bin), mapped. A row is as many consecutive
// tokens as a row of the model's input; its labels are the tokens one further on. Rows do not overlap, and what is left
// at the end is not used. Fields `tokens` and `labels`. A folder with train.bin and val.bin has test rows of its own.
#include <filesystem>
#include <limits>

#include "runtime/data/file_bytes.h"
#include "runtime/data/loaders.h"

namespace unity {
namespace {

namespace fs = std::filesystem;

class TokenSource : public DataSource {
 public:
  TokenSource(const std::string& path, std::int64_t length)
      : DataSource(path, {{"tokens", {length}, DType::i32, 0}, {"labels", {length}, DType::i32, 0}}),
        file_(path, false),
        width_(has_ending(path, ".u32.bin") ? 4 : 2),
        length_(length) {
    std::size_t size = file_.bytes().size();
    if (size % width_ != 0) throw_input_error("{}: found {} bytes, expected a multiple of {}", path, size, width_);
    auto tokens = static_cast<std::int64_t>(size / width_);
    rows_ = (tokens - 1) / length;
    if (tokens < 1 || rows_ < 1)
      throw_input_error("{}: found {} tokens, expected at least {}, a row of {} and its last label", path, tokens,
                        length + 1, length);
  }
  std::int64_t rows() const override { return rows_; }

 protected:
  void load(std::span<const std::int64_t> rows, std::map<std::string, HostTensor>& batch) const override {
    auto tokens = batch.at("tokens").indices.begin(), labels = batch.at("labels").indices.begin();
    for (std::int64_t row : rows)
      for (std::int64_t i = 0; i < length_; ++i) {
        *tokens++ = token(row, i);
        *labels++ = token(row, i + 1);
      }
  }

 private:
  std::int32_t token(std::int64_t row, std::int64_t i) const {
    const std::uint8_t* at = file_.bytes().data() + static_cast<std::size_t>(row * length_ + i) * width_;
    std::uint32_t value = static_cast<std::uint32_t>(at[0] | at[1] << 8);
    if (width_ == 4) value |= static_cast<std::uint32_t>(at[2]) << 16 | static_cast<std::uint32_t>(at[3]) << 24;
    if (value > std::numeric_limits<std::int32_t>::max())
      throw_input_error("{}: token is {}, expected below 2^31", where(row), value);
    return static_cast<std::int32_t>(value);
  }

  FileBytes file_;
  std::size_t width_;
  std::int64_t length_, rows_ = 0;
};

std::int64_t row_length(const std::string& path, const std::vector<ModelInput>& inputs) {
  const ModelInput* found = nullptr;
  for (const ModelInput& input : inputs)
    if (input.dtype == DType::i32 && input.dims.size() == 2 && (!found || input.name == "tokens")) found = &input;
  if (!found || found->dims[1] < 1)
    throw_input_error("{}: the model has no input i32[batch, length], expected one for rows of tokens", path);
  return found->dims[1];
}

bool is_file_in(const std::string& folder, const char* name) { return fs::is_regular_file(fs::path(folder) / name); }

}  // namespace

bool suits_tokens(const std::string& path) {
  if (fs::is_directory(path)) return is_file_in(path, "train.bin") && is_file_in(path, "val.bin");
  return has_ending(path, ".bin") && fs::is_regular_file(path);
}

DataSplit open_tokens(const std::string& path, const std::vector<ModelInput>& inputs) {
  std::int64_t length = row_length(path, inputs);
  if (!fs::is_directory(path)) return {std::make_shared<TokenSource>(path, length), nullptr};
  return {std::make_shared<TokenSource>(fs::path(path) / "train.bin", length),
          std::make_shared<TokenSource>(fs::path(path) / "val.bin", length)};
}

}  // namespace unity
