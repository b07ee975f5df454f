// MNIST's format (http://yann.lecun.com/exdb/mnist): a folder with train-images-idx3-ubyte and train-labels-idx1-ubyte,
// as they are or as .gz; test rows from t10k-images-idx3-ubyte and its labels, where they are there. Fields `image`,
// scaled to 0..1, and `labels`.
#include <algorithm>
#include <filesystem>

#include "runtime/data/file_bytes.h"
#include "runtime/data/loaders.h"

namespace unity {
namespace {

namespace fs = std::filesystem;

// The file with or without .gz, and with the dot that some copies have for the dash; empty when there is none.
std::string find_file(const std::string& folder, const std::string& part, int rank) {
  for (const char* separator : {"-", "."})
    for (const char* ending : {"", ".gz"}) {
      fs::path path = fs::path(folder) / fmt::format("{}{}idx{}-ubyte{}", part, separator, rank, ending);
      if (fs::is_regular_file(path)) return path.string();
    }
  return "";
}

// A tensor of bytes: magic 0, 0, 8 (unsigned bytes), rank; then the sizes, big-endian; then the data.
struct IdxFile {
  IdxFile(const std::string& path, std::size_t rank) : file(path) {
    std::span<const std::uint8_t> bytes = file.bytes();
    std::size_t head = 4 + 4 * rank;
    if (bytes.size() < head) throw_input_error("{}: found {} bytes, expected a header of {}", path, bytes.size(), head);
    auto word = [&](std::size_t i) {
      const std::uint8_t* at = bytes.data() + 4 * i;
      return static_cast<std::uint32_t>(at[0]) << 24 | static_cast<std::uint32_t>(at[1]) << 16 |
             static_cast<std::uint32_t>(at[2]) << 8 | at[3];
    };
    if (word(0) != 0x800 + rank)
      throw_input_error("{}: IDX magic is {:#010x}, expected {:#010x}", path, word(0), 0x800 + rank);
    std::uint64_t size = 1;
    bool fits = true;
    for (std::size_t i = 1; i <= rank; ++i) {
      dims.push_back(word(i));
      fits = fits && word(i) > 0 && !__builtin_mul_overflow(size, std::uint64_t{word(i)}, &size);
    }
    if (!fits || size != bytes.size() - head)
      throw_input_error("{}: found {} bytes of data, expected {} as the header says", path, bytes.size() - head,
                        fmt::join(dims, " x "));
    data = bytes.subspan(head);
  }
  FileBytes file;
  Dims dims;
  std::span<const std::uint8_t> data;
};

class IdxSource : public DataSource {
 public:
  IdxSource(std::string path, std::unique_ptr<IdxFile> images, std::unique_ptr<IdxFile> labels)
      : DataSource(std::move(path),
                   {{"image", {images->dims[1], images->dims[2]}, DType::f64, 0},
                    {"labels", {}, DType::i32, *std::max_element(labels->data.begin(), labels->data.end()) + 1}}),
        images_(std::move(images)),
        labels_(std::move(labels)) {}
  std::int64_t rows() const override { return labels_->dims[0]; }

 protected:
  void load(std::span<const std::int64_t> rows, std::map<std::string, HostTensor>& batch) const override {
    auto x = batch.at("image").reals.begin();
    auto y = batch.at("labels").indices.begin();
    auto size = static_cast<std::size_t>(images_->dims[1] * images_->dims[2]);
    for (std::int64_t row : rows) {
      for (std::uint8_t pixel : images_->data.subspan(static_cast<std::size_t>(row) * size, size)) *x++ = pixel / 255.0;
      *y++ = labels_->data[static_cast<std::size_t>(row)];
    }
  }

 private:
  std::unique_ptr<IdxFile> images_, labels_;
};

std::shared_ptr<IdxSource> open_part(const std::string& folder, const std::string& part) {
  std::string images_path = find_file(folder, part + "-images", 3),
              labels_path = find_file(folder, part + "-labels", 1);
  if (labels_path.empty())
    throw_input_error("{}: found no labels, expected {}-labels-idx1-ubyte in {}", images_path, part, folder);
  auto images = std::make_unique<IdxFile>(images_path, 3), labels = std::make_unique<IdxFile>(labels_path, 1);
  if (images->dims[0] != labels->dims[0])
    throw_input_error("{}: found {} labels, expected {} as in {}", labels_path, labels->dims[0], images->dims[0],
                      images_path);
  return std::make_shared<IdxSource>(images_path, std::move(images), std::move(labels));
}

}  // namespace

bool suits_idx(const std::string& path) {
  return fs::is_directory(path) && !find_file(path, "train-images", 3).empty();
}

DataSplit open_idx(const std::string& path, const std::vector<ModelInput>&) {
  bool test = !find_file(path, "t10k-images", 3).empty();
  return {open_part(path, "train"), test ? open_part(path, "t10k") : nullptr};
}

}  // namespace unity
