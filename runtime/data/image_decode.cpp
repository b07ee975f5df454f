#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <jerror.h>
#include <jpeglib.h>
#include <png.h>

#include "core/base/error.h"
#include "runtime/data/image.h"

namespace unity {
namespace {

constexpr std::int64_t kMostPixels = std::int64_t{1} << 26;

void take_size(const std::string& name, std::int64_t width, std::int64_t height, Image& image) {
  if (width < 1 || height < 1 || width > kMostPixels / height)
    throw_input_error("{}: image is {} x {}, expected at most {} pixels", name, width, height, kMostPixels);
  image.width = width, image.height = height;
  image.rgb.resize(static_cast<std::size_t>(3 * width * height));
}

Image decode_png(const std::string& name, std::span<const std::uint8_t> bytes) {
  struct Reader : png_image {
    Reader() : png_image{} { version = PNG_IMAGE_VERSION; }
    ~Reader() { png_image_free(this); }
  } reader;
  Image image;
  bool read = png_image_begin_read_from_memory(&reader, bytes.data(), bytes.size()) != 0;
  if (read) {
    take_size(name, reader.width, reader.height, image);
    reader.format = PNG_FORMAT_RGBA;
    std::vector<std::uint8_t> rgba(static_cast<std::size_t>(4 * image.width * image.height));
    read = png_image_finish_read(&reader, nullptr, rgba.data(), 0, nullptr) != 0;
    for (std::size_t i = 0; i < rgba.size() / 4; ++i) std::memcpy(&image.rgb[3 * i], &rgba[4 * i], 3);
  }
  if (!read) throw_input_error("{}: the PNG is damaged or cut off: {}", name, reader.message);
  return image;
}

// libjpeg reports errors by a function that must not return: it jumps back, over frames of C only.
struct JpegReader {
  jpeg_decompress_struct state{};
  jpeg_error_mgr errors{};
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX] = "";

  JpegReader() {
    state.err = jpeg_std_error(&errors);
    state.client_data = this;
    errors.error_exit = [](j_common_ptr s) {
      auto* reader = static_cast<JpegReader*>(s->client_data);
      s->err->format_message(s, reader->message);
      std::longjmp(reader->back, 1);
    };
    errors.output_message = [](j_common_ptr) {};
    errors.emit_message = [](j_common_ptr s, int level) {
      int code = s->err->msg_code;  // warnings after which the pixels would be invented
      if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE))
        s->err->error_exit(s);
    };
  }
  ~JpegReader() { jpeg_destroy_decompress(&state); }

  bool read_header(const unsigned char* data, unsigned long size) {
    if (setjmp(back)) return false;
    jpeg_create_decompress(&state);
    jpeg_mem_src(&state, data, size);
    jpeg_read_header(&state, TRUE);
    bool four = state.jpeg_color_space == JCS_CMYK || state.jpeg_color_space == JCS_YCCK;
    state.out_color_space = four ? JCS_CMYK : JCS_RGB;
    return true;
  }

  // Rows of `width` pixels of state.output_components bytes; `row` has room for one of 4 bytes a pixel.
  bool read_pixels(unsigned char* row, unsigned char* rgb) {
    if (setjmp(back)) return false;
    jpeg_start_decompress(&state);
    while (state.output_scanline < state.output_height) {
      jpeg_read_scanlines(&state, &row, 1);
      for (JDIMENSION x = 0; x < state.output_width; ++x)
        for (unsigned c = 0; c < 3; ++c) {
          auto light = [&](unsigned of) {  // Adobe's CMYK is stored inverted
            return state.saw_Adobe_marker ? row[4 * x + of] : 255 - row[4 * x + of];
          };
          rgb[(state.output_scanline - 1) * std::size_t{state.output_width} * 3 + 3 * x + c] =
              state.output_components == 4 ? static_cast<unsigned char>(light(c) * light(3) / 255) : row[3 * x + c];
        }
    }
    jpeg_finish_decompress(&state);
    return true;
  }
};

Image decode_jpeg(const std::string& name, std::span<const std::uint8_t> bytes) {
  JpegReader reader;
  Image image;
  bool read = reader.read_header(bytes.data(), bytes.size());
  if (read) {
    take_size(name, reader.state.image_width, reader.state.image_height, image);
    std::vector<std::uint8_t> row(static_cast<std::size_t>(4 * image.width));
    read = reader.read_pixels(row.data(), image.rgb.data());
  }
  if (!read) throw_input_error("{}: the JPEG is damaged or cut off: {}", name, reader.message);
  return image;
}

}  // namespace

Image decode_image(const std::string& name, std::span<const std::uint8_t> bytes) {
  if (bytes.size() >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff) return decode_jpeg(name, bytes);
  if (bytes.size() >= 4 && std::memcmp(bytes.data(), "\x89PNG", 4) == 0) return decode_png(name, bytes);
  throw_input_error("{}: found neither a JPEG nor a PNG", name);
}

}  // namespace unity
