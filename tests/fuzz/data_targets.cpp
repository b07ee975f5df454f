// Files of numbers: tensors, tables, arrays, images, click logs, tokens; and rule files of other programs.
#include <cstring>
#include <filesystem>

#include <nlohmann/json.hpp>
#include <zlib.h>

#include "core/base/safetensors.h"
#include "core/rewrite/import/translate.h"
#include "core/rewrite/rule_text.h"
#include "runtime/checkpoint/index.h"
#include "runtime/data/image.h"
#include "runtime/data/loaders.h"
#include "tests/fuzz/target.h"
#include "tests/support/data_files.h"
#include "tests/support/peer_files.h"

namespace unity::fuzz {
namespace {

namespace fs = std::filesystem;

// safetensors

void run_safetensors(std::string_view input) {
  std::string path = scratch_file("a.safetensors", input);
  accepted([&] {
    SafetensorsFile file(path);
    std::uint64_t all = 0;
    std::vector<TensorInfo> infos;
    for (const TensorInfo& info : file.tensors()) {
      require(info.bytes() >= 0 && static_cast<std::uint64_t>(info.bytes()) <= input.size(), "a tensor is too large");
      all += static_cast<std::uint64_t>(info.bytes());
      std::vector<std::byte> bytes(static_cast<std::size_t>(info.bytes()));
      file.read(info, bytes.data());
      accepted([&] { require(file.reals(info).size() == file.floats(info).size(), "two sizes of one tensor"); });
      accepted([&] { (void)file.integers(info); });
      if (info.dtype != StoredType::f16 && info.dtype != StoredType::bf16) infos.push_back(info);
    }
    require(all <= input.size(), "tensors are larger than their file");
    SafetensorsWriter writer(scratch_folder() + "/b.safetensors", infos, file.metadata());
    for (const TensorInfo& info : infos) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(info.bytes()));
      file.read(info, bytes.data());
      writer.append(bytes);
    }
    writer.finish();
    SafetensorsFile again(scratch_folder() + "/b.safetensors");
    require(again.metadata() == file.metadata() && again.tensors().size() == infos.size(),
            "written, it is another file");
  });
}

std::string safetensors(const std::string& header, const std::string& data) {
  std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

std::vector<std::string> safetensors_seeds() {
  return {safetensors(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                      R"("b":{"dtype":"I64","shape":[],"data_offsets":[24,32]}})",
                      std::string(32, '\1')),
          safetensors(R"({"h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},"b":{"dtype":"BF16","shape":[1,2],)"
                      R"("data_offsets":[4,8]},"d":{"dtype":"F64","shape":[1],"data_offsets":[8,16]}})",
                      std::string(16, '\x3f')),
          safetensors("{}", "")};
}

// Data sources

const std::vector<ModelInput>& inputs() {
  static const std::vector<ModelInput> list = {{"x", {4, 3}, DType::f32, 0},
                                               {"tokens", {4, 3}, DType::i32, 100},
                                               {"image", {4, 3, 4, 5}, DType::f32, 0},
                                               {"sparse.3", {4, 1}, DType::i32, 10}};
  return list;
}

void read_rows(const DataSource& source) {
  std::int64_t rows = source.rows();
  require(rows > 0, "accepted data without rows");
  std::vector<std::int64_t> some = {0, rows / 2, rows - 1};
  require(!source.where(rows - 1).empty(), "a row has no place");
  accepted([&] {
    std::map<std::string, HostTensor> batch = source.read(some);
    for (const Field& field : source.fields()) {
      const HostTensor& t = batch.at(field.name);
      auto elements = static_cast<std::size_t>(3 * element_count(field.dims));
      require((field.dtype == DType::i32 ? t.indices.size() : t.reals.size()) == elements, "{} is short", field.name);
      if (field.dtype == DType::i32 && field.bound > 0)
        for (std::int32_t i : t.indices) require(i < field.bound, "{} holds {} of {}", field.name, i, field.bound);
    }
  });
}

void read_split(const DataSplit& data) {
  read_rows(*data.training);
  if (data.test) read_rows(*data.test);
}

void run_csv(std::string_view input) {
  std::string path = scratch_file("table.csv", input);
  accepted([&] { read_split(open_csv(path, inputs())); });
}

void run_criteo(std::string_view input) {
  std::string path = scratch_file("clicks.tsv", input);
  accepted([&] { read_split(open_criteo(path, inputs())); });
}

void run_tokens(std::string_view input) {
  accepted([&] { read_split(open_tokens(scratch_file("t.bin", input), inputs())); });
  accepted([&] { read_split(open_tokens(scratch_file("t.u32.bin", input), inputs())); });
}

void run_npy(std::string_view input) {
  static const std::string labels = scratch_file("npy/y.npy", test::npy("<i4", "(2,)", std::string(8, '\0')));
  std::string path = scratch_file("npy/x.npy", input);
  accepted([&] { read_split(open_npy(path, inputs())); });
}

void run_npz(std::string_view input) {
  std::string path = scratch_file("a.npz", input);
  accepted([&] { read_split(open_npz(path, {})); });
  accepted([&] { read_split(open_npz(path, inputs())); });
}

// The first half of the bytes are the images, the second the labels.
void run_idx(std::string_view input) {
  std::size_t half = input.find("----");
  std::string_view images = input.substr(0, half), labels = half == input.npos ? "" : input.substr(half + 4);
  scratch_file("idx/train-images-idx3-ubyte", images);
  scratch_file("idx/train-labels-idx1-ubyte", labels);
  accepted([&] { read_split(open_idx(scratch_folder() + "/idx", inputs())); });
}

void run_image(std::string_view input) {
  accepted([&] {
    Image image = decode_image("i", {reinterpret_cast<const std::uint8_t*>(input.data()), input.size()});
    require(image.width > 0 && image.height > 0, "accepted an image without pixels");
    require(image.rgb.size() == static_cast<std::size_t>(3 * image.width * image.height), "pixels are missing");
    std::vector<double> pixels(3 * 4 * 5);
    fit_image(image, 3, 4, 5, {}, pixels.data());
  });
}

std::string be32(std::uint32_t v) {
  std::string s(4, '\0');
  for (int i = 0; i < 4; ++i) s[static_cast<std::size_t>(i)] = static_cast<char>(v >> (24 - 8 * i));
  return s;
}

std::string png_chunk(const std::string& kind, const std::string& data) {
  std::string body = kind + data;
  auto sum =
      static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size())));
  return be32(static_cast<std::uint32_t>(data.size())) + body + be32(sum);
}

std::string deflated(const std::string& text, int bits) {
  std::string out(text.size() + 200, '\0');
  z_stream z{};
  if (deflateInit2(&z, 6, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY) != Z_OK) return "";
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::string png(std::uint32_t width, std::uint32_t height) {
  std::string rows;
  for (std::uint32_t y = 0; y < height; ++y) rows += std::string(1, '\0') + std::string(3 * std::size_t{width}, 'p');
  return "\x89PNG\r\n\x1a\n" + png_chunk("IHDR", be32(width) + be32(height) + std::string("\x08\x02\0\0\0", 5)) +
         png_chunk("IDAT", deflated(rows, 15)) + png_chunk("IEND", "");
}

// A JPEG of one grey pixel.
const std::string kJpeg = [] {
  std::string bytes("\xff\xd8\xff\xdb\0\x43\0", 7);
  bytes += std::string(64, '\1');
  bytes += std::string("\xff\xc0\0\x0b\x08\0\1\0\1\1\1\x11\0", 13);
  bytes += std::string("\xff\xc4\0\x14\0\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x03", 22);
  bytes += std::string("\xff\xc4\0\x14\x10\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22);
  bytes += std::string("\xff\xda\0\x08\1\1\0\0\x3f\0\x37\xff\xd9", 13);
  return bytes;
}();

// A zip archive of one stored member.
std::string zip(const std::string& name, const std::string& content, bool packed) {
  auto le = [](std::uint64_t v, int n) {
    std::string s;
    for (int i = 0; i < n; ++i) s += static_cast<char>(v >> (8 * i));
    return s;
  };
  std::string data = packed ? deflated(content, -15) : content;
  auto sum = crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size()));
  std::string common = le(20, 2) + le(0, 2) + le(packed ? 8 : 0, 2) + le(0, 4) + le(sum, 4) + le(data.size(), 4) +
                       le(content.size(), 4) + le(name.size(), 2) + le(0, 2);
  std::string local = le(0x04034b50, 4) + common + name + data;
  std::string central =
      le(0x02014b50, 4) + le(20, 2) + common + le(0, 2) + le(0, 2) + le(0, 2) + le(0, 4) + le(0, 4) + name;
  return local + central + le(0x06054b50, 4) + le(0, 4) + le(1, 2) + le(1, 2) + le(central.size(), 4) +
         le(local.size(), 4) + le(0, 2);
}

std::vector<std::string> npy_seeds() {
  using test::npy;
  return {npy("<f4", "(2, 3)", std::string(24, '\0')), npy("<f8", "(2, 1)", std::string(16, '\0'), 2),
          npy("<i8", "(2, 2)", std::string(32, '\0'), 1, true), npy("|u1", "(2,)", "ab"),
          npy("|b1", "(2, 2, 2)", std::string(8, '\1'))};
}

std::vector<std::string> npz_seeds() {
  using test::npy;
  return {zip("x.npy", npy("<f4", "(2, 3)", std::string(24, '\0')), false),
          zip("tokens.npy", npy("<i4", "(2, 3)", std::string(24, '\0')), true)};
}

std::vector<std::string> idx_seeds() {
  std::string images = be32(0x803) + be32(2) + be32(2) + be32(3) + std::string(12, '\x7f');
  std::string labels = be32(0x801) + be32(2) + "\1\2";
  return {images + "----" + labels, deflated(images, 31) + "----" + deflated(labels, 31)};
}

std::string click() {
  std::string line = "1";
  for (int i = 0; i < 13; ++i) line += fmt::format("\t{}", i - 2);
  for (int i = 0; i < 26; ++i) line += fmt::format("\t{:08x}", 0x9e3779b9u * static_cast<unsigned>(i));
  return line + "\n";
}

// Rules of TASO and FlexFlow

void run_peer_rules(std::string_view input) {
  accepted([&] {
    PeerFile file = parse_peer_rules(input, "f");
    for (const PeerRule& rule : file.rules)
      for (bool one_group : {false, true}) {
        Translation t = translate(rule, file.numbering, "r", one_group);
        if (t.kind != Translation::Kind::rule) continue;
        std::string text = print(t.rule);
        require_equal(print(parse_rules(text).at(0)), text, "a translated rule, parsed and printed");
      }
  });
}

std::vector<std::string> peer_seeds() {
  using namespace test;
  std::vector<PeerRule> rules = {
      peer_rule({linear({-1}, {-4}), partition(2, {0})}, {replicate(0, {-1}), partition(1, {-4}), linear({0}, {1})}),
      peer_rule({matmul({-1}, {-2}), matmul({0}, {-3})}, {matmul({-2}, {-3}), matmul({-1}, {0})}),
      peer_rule({conv2d({-1}, {-2}, 1), relu({0})}, {conv2d({-1}, {-2}, 1), relu({0})}),
      peer_rule({concat(1, 2, {-1}, {-2}), split(1, {0}), add({1, 0}, {1, 1})}, {add({-1}, {-2})})};
  std::vector<std::string> seeds = {tree_file("tests/data/rules/linear.json"), wire(rules), deflated(wire(rules), 31)};
  for (const PeerRule& rule : rules) seeds.push_back(wire({rule}));
  return seeds;
}

// Checkpoints. The index holds its own checksum, which an input would never match: it is computed anew.
void run_checkpoint_index(std::string_view input) {
  std::string text(input);
  nlohmann::json root = nlohmann::json::parse(input, nullptr, false);
  if (root.is_object() && root.contains("checksum")) {
    root.erase("checksum");
    std::string content = root.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    root["checksum"] =
        fmt::format("{:08x}", crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
    text = root.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  accepted([&] {
    CheckpointIndex index = index_from_json(text, "index.json");
    require_equal(index_to_json(index_from_json(index_to_json(index), "index.json")), index_to_json(index),
                  "an index that is written, read and written");
  });
}

std::vector<std::string> checkpoint_seeds() {
  CheckpointIndex index;
  index.position.model = "m";
  index.files = {{shard_name(0, 1), 100, 7, {{"w", StoredType::f32, {2, 3}, 0}}}};
  return {index_to_json(index)};
}

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> list = {
      {"safetensors", "no tensor is larger than the file; written again it is the same", run_safetensors,
       safetensors_seeds, 1024, "safetensors"},
      {"csv", "rows have their fields, labels are classes", run_csv,
       [] {
         return std::vector<std::string>{"a,b,label\n1,2.5,0\n-3e4, 4,2\n", "1,0\r\n2,1\r\n", deflated("1,0\n", 31)};
       },
       2048, "csv"},
      {"criteo", "rows have their fields, indices are below their bounds", run_criteo,
       [] {
         return std::vector{click(), click() + click()};
       },
       2048, ""},
      {"tokens", "rows have their fields", run_tokens, [] { return std::vector{std::string(40, '\1')}; }, 256, ""},
      {"npy", "rows have their fields", run_npy, npy_seeds, 1024, "npy"},
      {"npz", "rows have their fields", run_npz, npz_seeds, 1024, "npy"},
      {"idx", "rows have their fields, labels are below their bound", run_idx, idx_seeds, 512, "idx"},
      {"image", "as many pixels as the size says", run_image,
       [] {
         return std::vector{png(2, 3), png(1, 1), kJpeg};
       },
       2048, "image"},
      {"peer-rules", "a translated rule is printed and parsed to the same rule", run_peer_rules, peer_seeds, 2048,
       "peer-rules"},
      {"checkpoint-index", "written, read and written again it is the same", run_checkpoint_index, checkpoint_seeds,
       1024, "json"},
  };
  return list;
}

}  // namespace unity::fuzz
