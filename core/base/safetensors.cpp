#include "core/base/safetensors.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <set>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/nesting.h"
#include "core/base/text.h"

namespace unity {
namespace {

static_assert(std::endian::native == std::endian::little, "data are read and written as they lie in memory");

using nlohmann::json;

// As in the reference implementation: a longer header is taken for damage.
constexpr std::uint64_t kLongestHeader = 100'000'000;

struct TypeName {
  StoredType type;
  const char* name;
  std::int64_t bytes;
};
constexpr TypeName kTypes[] = {{StoredType::f16, "F16", 2}, {StoredType::bf16, "BF16", 2}, {StoredType::f32, "F32", 4},
                               {StoredType::f64, "F64", 8}, {StoredType::i32, "I32", 4},   {StoredType::i64, "I64", 8},
                               {StoredType::u64, "U64", 8}};

// IEEE 754 half precision, subnormals, infinities and NaN included.
float from_f16(std::uint16_t h) {
  std::uint32_t sign = std::uint32_t{h & 0x8000u} << 16, exponent = (h >> 10) & 0x1f, mantissa = h & 0x3ffu;
  if (exponent == 0) {
    float magnitude = static_cast<float>(mantissa) * 0x1.0p-24f;
    return sign ? -magnitude : magnitude;
  }
  std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

float from_bf16(std::uint16_t b) { return std::bit_cast<float>(std::uint32_t{b} << 16); }

// One entry of the header; its offset is relative to the data.
TensorInfo read_entry(const std::string& file, const std::string& name, const json& entry, std::uint64_t& end) {
  auto wrong = [&](const char* key, const std::string& expected) {
    throw_input_error("{}: tensor '{}': {}: found {}, expected {}", file, name, key,
                      entry.contains(key) ? entry[key].dump().substr(0, 60) : "nothing", expected);
  };
  auto whole = [](const json& value) {
    return value.is_number_unsigned() && value.get<std::uint64_t>() <= std::uint64_t{INT64_MAX};
  };
  if (!entry.is_object())
    throw_input_error("{}: tensor '{}': found {}, expected an object", file, name, entry.type_name());
  TensorInfo info;
  info.name = name;
  const json dtype = entry.value("dtype", json());
  auto type = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeName& t) { return dtype == t.name; });
  if (type == std::end(kTypes)) wrong("dtype", "one of F16, BF16, F32, F64, I32, I64, U64");
  info.dtype = type->type;
  const json shape = entry.value("shape", json()), offsets = entry.value("data_offsets", json());
  if (!shape.is_array() || !std::all_of(shape.begin(), shape.end(), whole)) wrong("shape", "a list of whole numbers");
  std::int64_t bytes = type->bytes;
  for (const json& d : shape) {
    info.dims.push_back(d.get<std::int64_t>());
    if (__builtin_mul_overflow(bytes, info.dims.back(), &bytes)) wrong("shape", "less than 2^63 bytes");
  }
  if (!offsets.is_array() || offsets.size() != 2 || !whole(offsets[0]) || !whole(offsets[1]))
    wrong("data_offsets", "two whole numbers");
  info.offset = offsets[0].get<std::uint64_t>(), end = offsets[1].get<std::uint64_t>();
  if (end < info.offset || end - info.offset != static_cast<std::uint64_t>(bytes))
    wrong("data_offsets",
          fmt::format("{} bytes, as the shape [{}] of {} says", bytes, fmt::join(info.dims, ", "), type->name));
  return info;
}

}  // namespace

std::string_view to_string(StoredType type) { return kTypes[static_cast<std::size_t>(type)].name; }
std::int64_t bytes_of(StoredType type) { return kTypes[static_cast<std::size_t>(type)].bytes; }

std::int64_t TensorInfo::elements() const {
  std::int64_t n = 1;
  for (std::int64_t d : dims) n *= d;
  return n;
}

SafetensorsFile::SafetensorsFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  try {
    if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0)
      throw_input_error("{}: cannot be read: {}", path_.string(), std::strerror(errno));
    if (!S_ISREG(status.st_mode)) throw_input_error("{}: is not a file", path_.string());
    parse_header(static_cast<std::uint64_t>(status.st_size));
  } catch (...) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

SafetensorsFile::SafetensorsFile(SafetensorsFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      tensors_(std::move(other.tensors_)),
      index_(std::move(other.index_)),
      metadata_(std::move(other.metadata_)) {}

namespace {

void read_at(int descriptor, const std::string& file, std::uint64_t offset, void* to, std::uint64_t size) {
  auto* out = static_cast<char*>(to);
  while (size > 0) {
    ssize_t n = ::pread(descriptor, out, size, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_input_error("{}: cannot be read: {}", file, std::strerror(errno));
    if (n == 0) throw_input_error("{}: ends at byte {}, expected {} more; is it truncated?", file, offset, size);
    out += n, offset += static_cast<std::uint64_t>(n), size -= static_cast<std::uint64_t>(n);
  }
}

json parse_json(const std::string& file, const std::string& text) {
  std::set<std::string> names;
  std::string twice;
  auto see = [&](int depth, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::key && depth == 1 && !names.insert(parsed.get<std::string>()).second)
      twice = parsed.get<std::string>();
    return true;
  };
  refuse_deep_json(text, file);
  json header;
  try {
    header = json::parse(text, see);
  } catch (const json::exception&) {
    throw_input_error("{}: header: found '{}', expected a JSON object; is this a safetensors file?", file,
                      json(text.substr(0, 20)).dump(-1, ' ', true, json::error_handler_t::replace));
  }
  if (!header.is_object()) throw_input_error("{}: header: found {}, expected an object", file, header.type_name());
  if (!twice.empty()) throw_input_error("{}: tensor '{}': found twice, expected once", file, twice);
  return header;
}

}  // namespace

void SafetensorsFile::parse_header(std::uint64_t file_bytes) {
  const std::string file = path_.string();
  std::uint64_t length = 0;
  if (file_bytes < sizeof length)
    throw_input_error("{}: found {} bytes, expected at least 8; is this a safetensors file?", file, file_bytes);
  read_at(descriptor_, file, 0, &length, sizeof length);
  if (length > std::min(file_bytes - sizeof length, kLongestHeader))
    throw_input_error("{}: header: found a length of {}, expected at most {}; is this a complete safetensors file?",
                      file, length, std::min(file_bytes - sizeof length, kLongestHeader));
  std::string text(static_cast<std::size_t>(length), '\0');
  read_at(descriptor_, file, sizeof length, text.data(), length);
  const json header = parse_json(file, text);
  const std::uint64_t begin = sizeof length + length;
  std::vector<std::pair<std::uint64_t, TensorInfo>> ends;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      if (!entry.is_object())
        throw_input_error("{}: __metadata__: found {}, expected an object", file, entry.type_name());
      for (const auto& [key, value] : entry.items()) {
        if (!value.is_string()) throw_input_error("{}: __metadata__.{}: expected a text", file, key);
        metadata_[key] = value.get<std::string>();
      }
      continue;
    }
    std::uint64_t end = 0;
    TensorInfo info = read_entry(file, name, entry, end);
    ends.emplace_back(end, std::move(info));
  }
  std::sort(ends.begin(), ends.end(), [](const auto& a, const auto& b) {
    return std::tie(a.second.offset, a.first, a.second.name) < std::tie(b.second.offset, b.first, b.second.name);
  });
  std::uint64_t filled = 0;
  for (auto& [end, info] : ends) {
    if (end > file_bytes - begin)
      throw_input_error("{}: tensor '{}': found data up to byte {} of {}; is the file truncated?", file, info.name,
                        begin + end, file_bytes);
    if (info.offset != filled)
      throw_input_error("{}: tensor '{}': found data from {}, expected from {}, where those before end ({})", file,
                        info.name, info.offset, filled, info.offset < filled ? "they overlap" : "a hole");
    filled = end, info.offset += begin;
    index_.emplace(info.name, tensors_.size());
    tensors_.push_back(std::move(info));
  }
  if (begin + filled != file_bytes)
    throw_input_error("{}: found {} bytes, expected {}, where the data end", file, file_bytes, begin + filled);
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

const TensorInfo& SafetensorsFile::at(std::string_view name) const {
  if (const TensorInfo* info = find(name)) return *info;
  std::vector<std::string> names;
  for (const TensorInfo& info : tensors_) names.push_back(info.name);
  std::string near = nearest_name(name, names);
  throw_input_error("{}: no tensor '{}' among {}{}", path_.string(), name, names.size(),
                    near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near));
}

void SafetensorsFile::read(const TensorInfo& info, void* to) const {
  read_at(descriptor_, path_.string(), info.offset, to, static_cast<std::uint64_t>(info.bytes()));
}

template <class T>
std::vector<T> SafetensorsFile::convert(const TensorInfo& info) const {
  auto converted = [&]<class Stored>(Stored, auto&& value) {
    std::vector<Stored> stored(static_cast<std::size_t>(info.elements()));
    read(info, stored.data());
    std::vector<T> out(stored.size());
    std::transform(stored.begin(), stored.end(), out.begin(), [&](Stored x) { return static_cast<T>(value(x)); });
    return out;
  };
  auto same = [](auto x) { return x; };
  switch (info.dtype) {
    case StoredType::f16:
      return converted(std::uint16_t{}, from_f16);
    case StoredType::bf16:
      return converted(std::uint16_t{}, from_bf16);
    case StoredType::f32:
      return converted(float{}, same);
    case StoredType::f64:
      return converted(double{}, same);
    case StoredType::i32:
      return converted(std::int32_t{}, same);
    default:
      throw_input_error("{}: tensor '{}': found {}, expected real numbers or I32", path_.string(), info.name,
                        to_string(info.dtype));
  }
}

std::vector<double> SafetensorsFile::reals(const TensorInfo& info) const { return convert<double>(info); }
std::vector<float> SafetensorsFile::floats(const TensorInfo& info) const { return convert<float>(info); }

std::vector<std::int64_t> SafetensorsFile::integers(const TensorInfo& info) const {
  std::vector<std::int64_t> values(static_cast<std::size_t>(info.elements()));
  if (info.dtype == StoredType::i32) {
    std::vector<std::int32_t> stored(values.size());
    read(info, stored.data());
    std::copy(stored.begin(), stored.end(), values.begin());
  } else if (info.dtype == StoredType::i64 || info.dtype == StoredType::u64) {
    read(info, values.data());
    if (info.dtype == StoredType::u64 && std::any_of(values.begin(), values.end(), [](auto x) { return x < 0; }))
      throw_input_error("{}: tensor '{}': found a number above 2^63, expected less", path_.string(), info.name);
  } else {
    throw_input_error("{}: tensor '{}': found {}, expected I32, I64 or U64", path_.string(), info.name,
                      to_string(info.dtype));
  }
  return values;
}

}  // namespace unity
