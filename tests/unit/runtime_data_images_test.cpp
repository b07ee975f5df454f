#include <cstdio>

#include <catch2/catch.hpp>
#include <jpeglib.h>
#include <png.h>

#include "runtime/data/image.h"
#include "tests/support/data_files.h"

using namespace unity;
using namespace unity::test;

namespace {

Image plain(std::int64_t width, std::int64_t height, std::vector<std::uint8_t> colour) {
  Image image{width, height, {}};
  for (std::int64_t i = 0; i < width * height; ++i) image.rgb.insert(image.rgb.end(), colour.begin(), colour.end());
  return image;
}

std::string png(const Image& image) {
  png_image p{};
  p.version = PNG_IMAGE_VERSION;
  p.width = static_cast<png_uint_32>(image.width), p.height = static_cast<png_uint_32>(image.height);
  p.format = PNG_FORMAT_RGB;
  std::string out(10000 + image.rgb.size(), '\0');
  png_alloc_size_t size = out.size();
  REQUIRE(png_image_write_to_memory(&p, out.data(), &size, 0, image.rgb.data(), 0, nullptr));
  out.resize(size);
  return out;
}

// 3 components: colour; 1: grey, from the red channel; 4: CMYK with black at its brightest, inverted as Adobe's are, or
// not.
std::string jpeg(const Image& image, int components = 3, bool adobe = true) {
  jpeg_compress_struct c{};
  jpeg_error_mgr errors{};
  c.err = jpeg_std_error(&errors);
  jpeg_create_compress(&c);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&c, &memory, &size);
  c.image_width = static_cast<JDIMENSION>(image.width), c.image_height = static_cast<JDIMENSION>(image.height);
  c.input_components = components;
  c.in_color_space = components == 3 ? JCS_RGB : components == 1 ? JCS_GRAYSCALE : JCS_CMYK;
  jpeg_set_defaults(&c);
  jpeg_set_quality(&c, 100, TRUE);
  if (!adobe) c.write_Adobe_marker = FALSE;
  jpeg_start_compress(&c, TRUE);
  while (c.next_scanline < c.image_height) {
    std::vector<std::uint8_t> row;
    for (std::int64_t x = 0; x < image.width; ++x)
      for (int k = 0; k < components; ++k)
        row.push_back(static_cast<std::uint8_t>(
            (adobe ? 0 : 255) ^
            (k == 3 ? 255 : image.rgb[static_cast<std::size_t>((c.next_scanline * image.width + x) * 3 + k)])));
    JSAMPROW rows = row.data();
    jpeg_write_scanlines(&c, &rows, 1);
  }
  jpeg_finish_compress(&c);
  jpeg_destroy_compress(&c);
  std::string out(reinterpret_cast<char*>(memory), size);
  free(memory);
  return out;
}

Image decode(const std::string& bytes) {
  return decode_image("a.jpg", {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

const Normalization kPlain = {{0, 0, 0}, {1, 1, 1}};

std::vector<double> fit(const Image& image, std::int64_t channels, std::int64_t height, std::int64_t width,
                        const Normalization& n = kPlain) {
  std::vector<double> out(static_cast<std::size_t>(channels * height * width));
  fit_image(image, channels, height, width, n, out.data());
  return out;
}

const std::vector<ModelInput> kInputs = {{"x", {2, 3, 4, 4}, DType::f32, 0}, {"labels", {2}, DType::i32, 2}};

}  // namespace

TEST_CASE("PNG files are decoded exactly, JPEG files of one, three and four components nearly") {
  Image image{2, 1, {255, 0, 7, 1, 2, 3}};
  CHECK(decode(png(image)).rgb == image.rgb);
  for (auto [components, adobe] : {std::pair(1, true), {3, true}, {4, true}, {4, false}}) {
    CAPTURE(components, adobe);
    Image grey = plain(9, 5, {90, 90, 90}), back = decode(jpeg(grey, components, adobe));
    REQUIRE(back.rgb.size() == grey.rgb.size());
    CHECK(back.width == 9);
    for (std::uint8_t v : back.rgb) CHECK(std::abs(v - 90) <= 2);
  }
}

TEST_CASE("damaged images are refused, wherever they are cut") {
  Image image = plain(40, 30, {10, 200, 30});
  for (std::size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = static_cast<std::uint8_t>(i * 7919 >> 3);
  for (const std::string& file : {png(image), jpeg(image)}) {
    for (std::size_t size = 0; size < file.size() - 12; size += 17)
      CHECK_THROWS_AS(decode(file.substr(0, size)), InputError);
    for (std::size_t i = 0; i < std::min<std::size_t>(file.size(), 700); ++i) {
      std::string changed = file;
      changed[i] = static_cast<char>(changed[i] ^ 0xff);
      try {
        decode(changed);
      } catch (const InputError&) {  // refused or read, but no crash
      }
    }
  }
  CHECK_THROWS_WITH(decode("GIF89a"), Catch::Contains("a.jpg: found neither a JPEG nor a PNG"));
  CHECK_THROWS_WITH(decode(jpeg(image).substr(0, 900)), Catch::Contains("the JPEG is damaged or cut off"));
  std::string huge = jpeg(image);
  std::size_t frame = huge.find("\xff\xc0");
  huge.replace(frame + 5, 4, "\xfe\xff\xfe\xff");
  CHECK_THROWS_WITH(decode(huge), Catch::Contains("image is 65279 x 65279, expected at most"));
}

TEST_CASE("an image is resized to just cover the model's, and its middle taken") {
  // 4 x 2 to 2 x 2: already 2 high, so that the middle two columns stay.
  Image wide{4, 2, {}};
  for (int y = 0; y < 2; ++y)
    for (int x = 0; x < 4; ++x) wide.rgb.insert(wide.rgb.end(), {static_cast<std::uint8_t>(51 * x), 0, 255});
  std::vector<double> out = fit(wide, 3, 2, 2);
  std::vector<double> expected = {0.2, 0.4, 0.2, 0.4, 0, 0, 0, 0, 1, 1, 1, 1};
  for (std::size_t i = 0; i < out.size(); ++i) CHECK(out[i] == Approx(expected[i]).margin(1e-12));
  // 2 pixels to 4: centres at 0.25, 0.75, 1.25, 1.75, between the source's at 0.5 and 1.5 as (1, 0), (.75, .25), ..
  Image two{2, 2, {0, 0, 0, 255, 255, 255, 0, 0, 0, 255, 255, 255}};
  out = fit(two, 1, 4, 4);
  for (std::size_t y = 0; y < 4; ++y)
    for (std::size_t x = 0; x < 4; ++x)
      CHECK(out[4 * y + x] == Approx(std::vector<double>{0, 0.25, 0.75, 1}[x]).margin(1e-12));
  // 4 to 2: weights of a triangle of reach 2 round 1 are .75 .75 .25 (the fourth, at 2.5 from it, has none), over 1.75.
  Image ramp{4, 4, {}};
  for (int i = 0; i < 16; ++i) ramp.rgb.insert(ramp.rgb.end(), 3, i % 4 == 2 ? 255 : 0);
  CHECK(fit(ramp, 1, 2, 2)[0] == Approx(0.25 / 1.75));
}

TEST_CASE("pixels are normalised by channel, and grey ones by the mean of the figures") {
  Normalization n = {{0.1, 0.2, 0.3}, {0.5, 1, 1.5}};
  std::vector<double> out = fit(plain(3, 3, {255, 0, 51}), 3, 1, 1, n);
  CHECK(out[0] == Approx(0.9 / 0.5));
  CHECK(out[1] == Approx(-0.2));
  CHECK(out[2] == Approx((0.2 - 0.3) / 1.5));
  CHECK(fit(plain(3, 3, {102, 102, 102}), 1, 1, 1, n)[0] == Approx(0.2));
}

TEST_CASE("an image folder has its classes in the order of their names, and train and val where both are there") {
  DataFolder f;
  f.write("train/cat/b.png", png(plain(5, 5, {255, 0, 0})));
  f.write("train/ape/a.JPG", jpeg(plain(6, 5, {0, 0, 255})));
  f.write("train/ape/notes.txt", "no image");
  f.write("val/cat/c.png", png(plain(4, 9, {0, 0, 0})));
  f.write("val/ape/d.png", png(plain(4, 4, {255, 255, 255})));
  DataSplit data = open_data(f.path.string(), kInputs);
  CHECK(data.training->fields() ==
        std::vector<Field>{{"image", {3, 4, 4}, DType::f64, 0}, {"labels", {}, DType::i32, 2}});
  auto batch = read_all(*data.training);
  CHECK(batch.at("labels").indices == std::vector<std::int32_t>{0, 1});
  CHECK(batch.at("image").reals[48] == Approx((1 - 0.485) / 0.229));  // the red of the cat
  CHECK(data.training->where(0) == f.file("train/ape/a.JPG"));
  CHECK(data.test->rows() == 2);
  data = open_data(f.file("train"), kInputs);
  CHECK(data.training->rows() == 1);
  std::filesystem::rename(f.path / "val/cat", f.path / "val/dog");
  CHECK_THROWS_WITH(open_data(f.path.string(), kInputs), Catch::Contains("found no class folder cat"));
}

TEST_CASE("image folders that cannot be used are refused with the place") {
  DataFolder f;
  std::filesystem::create_directories(f.path / "a");
  CHECK_THROWS_WITH(open_data(f.path.string(), kInputs), Catch::Contains("a: found no images"));
  CHECK_THROWS_WITH(open_data(f.path.string(), {{"x", {2, 48}, DType::f32, 0}}),
                    Catch::Contains("no input [batch, 3 or 1, height, width]"));
  f.write("a/x.png", "\x89PNG is all");
  CHECK_THROWS_WITH(read_all(*open_data(f.path.string(), kInputs).test),
                    Catch::Contains("a/x.png: the PNG is damaged or cut off"));
  // Of several, the first row's is named, whatever thread comes to it first.
  f.write("a/w.png", png(plain(900, 900, {1, 2, 3})).substr(0, 2500));
  const DataSplit data = open_data(f.path.string(), kInputs, true);
  for (int repeat = 0; repeat < 20; ++repeat)
    CHECK_THROWS_WITH(read_all(*data.training), Catch::Contains("a/w.png: the PNG is damaged or cut off"));
}
