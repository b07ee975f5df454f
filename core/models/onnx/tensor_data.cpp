#include "core/models/onnx/tensor_data.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>

#include "core/base/error.h"

namespace unity {
namespace {

namespace fs = std::filesystem;
using Proto = onnx::TensorProto;

std::string subject(const Proto& tensor, const fs::path& model) {
  return fmt::format("{}: tensor '{}'", model.string(), tensor.name());
}

float from_half(std::uint16_t h) {
  float magnitude = 0;
  int exponent = (h >> 10) & 31, mantissa = h & 1023;
  if (exponent == 31)
    magnitude = mantissa ? NAN : INFINITY;
  else
    magnitude = std::ldexp(static_cast<float>(exponent ? mantissa + 1024 : mantissa), (exponent ? exponent : 1) - 25);
  return h & 0x8000 ? -magnitude : magnitude;
}

float from_bfloat(std::uint16_t b) { return std::bit_cast<float>(std::uint32_t{b} << 16); }

// The bytes of a tensor that lies in a file of its own.
std::string external_bytes(const Proto& tensor, const fs::path& model) {
  std::string location;
  std::uint64_t offset = 0, length = 0;
  bool whole = true;
  for (const auto& entry : tensor.external_data()) {
    const std::string& text = entry.value();
    if (entry.key() == "location") {
      location = text;
      continue;
    }
    if (entry.key() != "offset" && entry.key() != "length") continue;
    std::uint64_t& number = entry.key() == "offset" ? offset : length;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size())
      throw_input_error("{}: external data: {} is '{}', expected a whole number", subject(tensor, model), entry.key(),
                        text);
    if (entry.key() == "length") whole = false;
  }
  fs::path folder = fs::weakly_canonical(fs::absolute(model).parent_path());
  fs::path file = fs::weakly_canonical(folder / location);
  fs::path relative = file.lexically_relative(folder);
  if (location.empty() || fs::path(location).is_absolute() || relative.empty() || *relative.begin() == "..")
    throw_input_error("{}: external data: found location '{}', expected a file in the model's folder",
                      subject(tensor, model), location);
  std::ifstream in;
  if (std::error_code error; fs::is_regular_file(file, error)) in.open(file, std::ios::binary | std::ios::ate);
  if (!in.is_open())
    throw_input_error("{}: external data: '{}' cannot be read; expected beside the model", subject(tensor, model),
                      location);
  auto size = static_cast<std::uint64_t>(in.tellg());
  if (whole && offset <= size) length = size - offset;
  if (offset > size || length > size - offset)
    throw_input_error("{}: external data: '{}' has {} bytes, expected at least {} + {}", subject(tensor, model),
                      location, size, offset, length);
  std::string bytes(static_cast<std::size_t>(length), '\0');
  in.seekg(static_cast<std::streamoff>(offset));
  in.read(bytes.data(), static_cast<std::streamsize>(length));
  if (!in) throw_input_error("{}: external data: '{}' cannot be read", subject(tensor, model), location);
  return bytes;
}

class Decoder {
 public:
  Decoder(const Proto& tensor, const fs::path& model) : proto_(tensor), model_(model) {
    if (!known_element_type(proto_.data_type(), tensor_.integral))
      throw_input_error("{}: found element type {}, expected a real or integer type", subject(proto_, model_),
                        element_type_name(proto_.data_type()));
    std::int64_t elements = 1;
    for (std::int64_t d : proto_.dims()) {
      tensor_.dims.push_back(d);
      if (d < 0 || __builtin_mul_overflow(elements, d, &elements))
        throw_input_error("{}: found shape [{}], expected sizes of at least 0 and fewer than 2^63 elements",
                          subject(proto_, model_), fmt::join(proto_.dims(), ", "));
    }
    elements_ = elements;
  }

  OnnxTensorRef run() {
    if (proto_.data_location() == Proto::EXTERNAL)
      from_bytes(external_bytes(proto_, model_));
    else if (proto_.has_raw_data())
      from_bytes(proto_.raw_data());
    else
      from_fields();
    return std::make_shared<const OnnxTensor>(std::move(tensor_));
  }

 private:
  void from_bytes(const std::string& bytes) {
    switch (proto_.data_type()) {
      case Proto::FLOAT:
        return convert<float>(bytes, tensor_.reals);
      case Proto::DOUBLE:
        return convert<double>(bytes, tensor_.reals);
      case Proto::FLOAT16:
        return convert<std::uint16_t>(bytes, tensor_.reals, from_half);
      case Proto::BFLOAT16:
        return convert<std::uint16_t>(bytes, tensor_.reals, from_bfloat);
      case Proto::INT64:
        return convert<std::int64_t>(bytes, tensor_.integers);
      case Proto::INT32:
        return convert<std::int32_t>(bytes, tensor_.integers);
      case Proto::INT8:
        return convert<std::int8_t>(bytes, tensor_.integers);
      default:  // UINT8, BOOL
        return convert<std::uint8_t>(bytes, tensor_.integers);
    }
  }

  struct Same {
    template <class T>
    T operator()(T x) const {
      return x;
    }
  };
  template <class Stored, class List, class F = Same>
  void convert(const std::string& bytes, List& to, F f = {}) {
    require(static_cast<std::int64_t>(bytes.size() / sizeof(Stored)), bytes.size() % sizeof(Stored) == 0);
    to.resize(static_cast<std::size_t>(elements_));
    for (std::size_t i = 0; i < to.size(); ++i) {
      Stored value;
      std::memcpy(&value, bytes.data() + i * sizeof(Stored), sizeof(Stored));
      to[i] = static_cast<typename List::value_type>(f(value));
    }
  }

  void from_fields() {
    auto take = [&](const auto& field, auto& to, auto f) {
      require(field.size(), true);
      for (auto value : field) to.push_back(f(value));
    };
    auto to_float = [](auto x) { return static_cast<float>(x); };
    auto to_integer = [](auto x) { return static_cast<std::int64_t>(x); };
    switch (proto_.data_type()) {
      case Proto::FLOAT:
        return take(proto_.float_data(), tensor_.reals, to_float);
      case Proto::DOUBLE:
        return take(proto_.double_data(), tensor_.reals, to_float);
      case Proto::FLOAT16:
        return take(proto_.int32_data(), tensor_.reals,
                    [](auto x) { return from_half(static_cast<std::uint16_t>(x)); });
      case Proto::BFLOAT16:
        return take(proto_.int32_data(), tensor_.reals,
                    [](auto x) { return from_bfloat(static_cast<std::uint16_t>(x)); });
      case Proto::INT64:
        return take(proto_.int64_data(), tensor_.integers, to_integer);
      default:
        return take(proto_.int32_data(), tensor_.integers, to_integer);
    }
  }

  void require(std::int64_t found, bool whole) const {
    if (found != elements_ || !whole)
      throw_input_error("{}: found data of {} elements, expected {} for shape [{}]; is the file truncated?",
                        subject(proto_, model_), found, elements_, fmt::join(tensor_.dims, ", "));
  }

  const Proto& proto_;
  const fs::path& model_;
  OnnxTensor tensor_;
  std::int64_t elements_ = 1;
};

}  // namespace

bool known_element_type(int type, bool& integral) {
  switch (type) {
    case Proto::FLOAT:
    case Proto::DOUBLE:
    case Proto::FLOAT16:
    case Proto::BFLOAT16:
      integral = false;
      return true;
    case Proto::INT64:
    case Proto::INT32:
    case Proto::INT8:
    case Proto::UINT8:
    case Proto::BOOL:
      integral = true;
      return true;
    default:
      return false;
  }
}

std::string element_type_name(int type) {
  return Proto::DataType_IsValid(type) ? Proto::DataType_Name(static_cast<Proto::DataType>(type))
                                       : fmt::format("number {}", type);
}

OnnxTensorRef read_tensor(const onnx::TensorProto& tensor, const fs::path& model) {
  return Decoder(tensor, model).run();
}

}  // namespace unity
