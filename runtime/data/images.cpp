// Folders of images: FOLDER/class/*.jpg, *.jpeg, *.png; the classes are numbered in the order of their names. Where
// FOLDER/train and FOLDER/val are both there, each is such a folder, with the same classes, and val has the test rows.
// Fields `image` [channels, height, width], as the model's input has them, and `labels`. Decoded when they are read.
#include <algorithm>
#include <filesystem>

#include "core/base/parallel.h"
#include "runtime/data/file_bytes.h"
#include "runtime/data/image.h"
#include "runtime/data/loaders.h"

namespace unity {
namespace {

namespace fs = std::filesystem;

struct Folder {
  std::string path;
  std::vector<std::string> classes;                         // sorted
  std::vector<std::pair<std::int32_t, std::string>> files;  // class, name; sorted
};

Folder list_folder(const std::string& path) {
  Folder folder{path, {}, {}};
  for (const fs::directory_entry& entry : fs::directory_iterator(path))
    if (entry.is_directory() && !entry.path().filename().string().starts_with('.'))
      folder.classes.push_back(entry.path().filename().string());
  if (folder.classes.empty()) throw_input_error("{}: found no folders, expected one for each class", path);
  std::sort(folder.classes.begin(), folder.classes.end());
  for (std::size_t c = 0; c < folder.classes.size(); ++c) {
    std::size_t before = folder.files.size();
    fs::path of_class = fs::path(path) / folder.classes[c];
    for (const fs::directory_entry& entry : fs::directory_iterator(of_class)) {
      std::string name = entry.path().filename().string();
      if (has_ending(name, ".jpg") || has_ending(name, ".jpeg") || has_ending(name, ".png"))
        folder.files.emplace_back(static_cast<std::int32_t>(c), std::move(name));
    }
    if (folder.files.size() == before)
      throw_input_error("{}: found no images, expected .jpg, .jpeg or .png files", of_class.string());
    std::sort(folder.files.begin() + static_cast<std::ptrdiff_t>(before), folder.files.end());
  }
  return folder;
}

class ImageSource : public DataSource {
 public:
  ImageSource(Folder folder, Dims dims)
      : DataSource(folder.path, {{"image", dims, DType::f64, 0},
                                 {"labels", {}, DType::i32, static_cast<std::int64_t>(folder.classes.size())}}),
        folder_(std::move(folder)),
        dims_(std::move(dims)) {}
  std::int64_t rows() const override { return static_cast<std::int64_t>(folder_.files.size()); }
  std::string where(std::int64_t row) const override {
    const auto& [c, file] = folder_.files[static_cast<std::size_t>(row)];
    return (fs::path(folder_.path) / folder_.classes[static_cast<std::size_t>(c)] / file).string();
  }

 protected:
  void load(std::span<const std::int64_t> rows, std::map<std::string, HostTensor>& batch) const override {
    double* pixels = batch.at("image").reals.data();
    std::int32_t* labels = batch.at("labels").indices.data();
    parallel_for(rows.size(), 0, [&](std::size_t i) {
      std::string path = where(rows[i]);
      FileBytes file(path, false);
      fit_image(decode_image(path, file.bytes()), dims_[0], dims_[1], dims_[2], {},
                pixels + static_cast<std::int64_t>(i) * element_count(dims_));
      labels[i] = folder_.files[static_cast<std::size_t>(rows[i])].first;
    });
  }

 private:
  Folder folder_;
  Dims dims_;
};

// Channels, height and width of the model's image.
Dims image_dims(const std::string& path, const std::vector<ModelInput>& inputs) {
  for (const ModelInput& input : inputs) {
    const Dims& d = input.dims;
    if (input.dtype != DType::i32 && d.size() == 4 && (d[1] == 1 || d[1] == 3) && d[2] > 0 && d[3] > 0)
      return {d[1], d[2], d[3]};
  }
  throw_input_error("{}: the model has no input [batch, 3 or 1, height, width], expected one for images", path);
}

}  // namespace

bool suits_images(const std::string& path) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error))
    if (entry.is_directory() && !entry.path().filename().string().starts_with('.')) return true;
  return false;
}

DataSplit open_images(const std::string& path, const std::vector<ModelInput>& inputs) {
  Dims dims = image_dims(path, inputs);
  fs::path train = fs::path(path) / "train", val = fs::path(path) / "val";
  if (!fs::is_directory(train) || !fs::is_directory(val))
    return {std::make_shared<ImageSource>(list_folder(path), dims), nullptr};
  Folder training = list_folder(train), test = list_folder(val);
  if (training.classes != test.classes) {
    auto [a, b] =
        std::mismatch(training.classes.begin(), training.classes.end(), test.classes.begin(), test.classes.end());
    bool missing = a != training.classes.end() && (b == test.classes.end() || *a < *b);
    throw_input_error("{}: {} class folder {}, expected those of {}", val.string(), missing ? "found no" : "found",
                      missing ? *a : *b, train.string());
  }
  return {std::make_shared<ImageSource>(std::move(training), dims),
          std::make_shared<ImageSource>(std::move(test), dims)};
}

}  // namespace unity
