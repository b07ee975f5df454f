#include "runtime/data/npy_array.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

namespace unity {
namespace {

struct Header {
  std::string descr;
  std::optional<bool> fortran;
  std::optional<Dims> shape;
};

// Reads the header, a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  HeaderParser(const std::string& name, std::string_view text) : name_(name), all_(text), text_(text) {}

  Header parse() {
    Header h;
    expect('{');
    while (!take('}')) {
      std::string key = quoted();
      expect(':');
      if (key == "descr")
        h.descr = quoted();
      else if (key == "fortran_order")
        h.fortran = boolean();
      else if (key == "shape")
        h.shape = tuple();
      else
        fail_here();
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    if (h.descr.empty() || !h.fortran || !h.shape) fail_here();
    return h;
  }

 private:
  [[noreturn]] void fail_here() const {
    throw_input_error("{}: npy header is \"{}\", expected descr, fortran_order and shape of a plain array", name_,
                      printable(all_.substr(0, 120)));
  }

  static std::string printable(std::string_view text) {
    std::string out(text);
    for (char& c : out)
      if (c < ' ' || c > '~') c = c == '\n' ? ' ' : '?';
    return out;
  }

  void skip() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) text_.remove_prefix(1);
  }
  bool take(char c) {
    skip();
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail_here();
  }
  std::string quoted() {
    char quote = take('\'') ? '\'' : '"';
    if (quote == '"') expect('"');
    std::size_t end = text_.find(quote);
    if (end == std::string_view::npos) fail_here();
    std::string value(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return value;
  }
  bool boolean() {
    skip();
    for (bool value : {true, false}) {
      std::string_view word = value ? "True" : "False";
      if (!text_.starts_with(word)) continue;
      text_.remove_prefix(word.size());
      return value;
    }
    fail_here();
  }
  Dims tuple() {
    Dims dims;
    expect('(');
    while (!take(')')) {
      skip();
      std::int64_t value = 0;
      auto [rest, error] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
      if (error != std::errc() || value < 0) fail_here();
      text_.remove_prefix(static_cast<std::size_t>(rest - text_.data()));
      dims.push_back(value);
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return dims;
  }

  const std::string& name_;
  std::string_view all_, text_;
};

std::size_t size_of(NpyType type) {
  switch (type) {
    case NpyType::f8:
    case NpyType::i8:
      return 8;
    case NpyType::f4:
    case NpyType::i4:
      return 4;
    default:
      return 1;
  }
}

NpyType parse_type(const std::string& name, const std::string& descr) {
  constexpr std::pair<const char*, NpyType> kTypes[] = {{"<f4", NpyType::f4}, {"<f8", NpyType::f8},
                                                        {"<i4", NpyType::i4}, {"<i8", NpyType::i8},
                                                        {"|u1", NpyType::u1}, {"|b1", NpyType::b1}};
  for (const auto& [text, type] : kTypes)
    if (descr == text) return type;
  throw_input_error("{}: dtype is '{}', expected <f4, <f8, <i4, <i8, |u1 or |b1", name, descr);
}

// Calls use(value) for each element.
template <class Use>
void for_each(NpyType type, std::span<const std::uint8_t> data, Use use) {
  auto walk = [&]<class T>(T value) {
    for (std::size_t at = 0; at < data.size(); at += sizeof value) {
      std::memcpy(&value, data.data() + at, sizeof value);
      use(value);
    }
  };
  switch (type) {
    case NpyType::f4:
      return walk(float());
    case NpyType::f8:
      return walk(double());
    case NpyType::i4:
      return walk(std::int32_t());
    case NpyType::i8:
      return walk(std::int64_t());
    default:
      return walk(std::uint8_t());
  }
}

// The first index runs fastest in Fortran's order, the last in C's.
std::shared_ptr<std::vector<std::uint8_t>> to_c_order(std::span<const std::uint8_t> data, const Dims& dims,
                                                      std::size_t size) {
  auto out = std::make_shared<std::vector<std::uint8_t>>(data.size());
  Dims index(dims.size(), 0), stride(dims.size(), 1);
  for (std::size_t d = 1; d < dims.size(); ++d) stride[d] = stride[d - 1] * dims[d - 1];
  std::int64_t from = 0;
  for (std::size_t to = 0; to < out->size(); to += size) {
    std::memcpy(out->data() + to, data.data() + static_cast<std::size_t>(from) * size, size);
    for (std::size_t d = dims.size(); d-- > 0;) {
      from += stride[d];
      if (++index[d] < dims[d]) break;
      from -= stride[d] * dims[d];
      index[d] = 0;
    }
  }
  return out;
}

}  // namespace

NpyArray parse_npy(std::string name, std::span<const std::uint8_t> bytes, std::shared_ptr<const void> owner) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with("\x93NUMPY")) throw_input_error("{}: found no npy magic, expected an npy file", name);
  std::size_t major = bytes.size() > 6 ? bytes[6] : 0, start = major == 1 ? 10 : 12, length = 0;
  if (bytes.size() < start) throw_input_error("{}: cut off in the npy header", name);
  if (major < 1 || major > 3) throw_input_error("{}: npy version is {}, expected 1, 2 or 3", name, major);
  for (std::size_t i = start; i-- > 8;) length = length << 8 | bytes[i];
  if (length > bytes.size() - start)
    throw_input_error("{}: npy header is {} bytes long, found {}", name, length, bytes.size() - start);
  Header header = HeaderParser(name, text.substr(start, length)).parse();
  const auto type = parse_type(name, header.descr);
  NpyArray array{std::move(name), type, *header.shape, bytes.subspan(start + length), owner};
  if (array.dims.empty()) throw_input_error("{}: found a single number, expected rows", array.name);
  std::int64_t size = static_cast<std::int64_t>(size_of(array.type));
  for (std::int64_t n : array.dims)
    if (n == 0 || __builtin_mul_overflow(size, n, &size))
      throw_input_error("{}: shape is ({}), expected sizes above 0 that memory can hold", array.name,
                        fmt::join(array.dims, ", "));
  if (static_cast<std::uint64_t>(size) != array.data.size())
    throw_input_error("{}: found {} bytes of data, expected {} for shape ({})", array.name, array.data.size(), size,
                      fmt::join(array.dims, ", "));
  if (*header.fortran && array.dims.size() > 1) {
    auto data = to_c_order(array.data, array.dims, size_of(array.type));
    array.data = *data;
    array.owner = data;
  }
  return array;
}

std::int64_t NpyArray::row_elements() const { return element_count(row_dims()); }

void NpyArray::read_reals(std::int64_t row, double* out) const {
  std::size_t bytes = static_cast<std::size_t>(row_elements()) * size_of(type);
  for_each(type, data.subspan(static_cast<std::size_t>(row) * bytes, bytes),
           [&](auto value) { *out++ = static_cast<double>(value); });
}

bool NpyArray::read_indices(std::int64_t row, std::int32_t* out) const {
  std::size_t bytes = static_cast<std::size_t>(row_elements()) * size_of(type);
  bool fits = true;
  for_each(type, data.subspan(static_cast<std::size_t>(row) * bytes, bytes), [&](auto value) {
    auto index = static_cast<std::int32_t>(value);
    fits = fits && static_cast<decltype(value)>(index) == value;
    *out++ = index;
  });
  return fits;
}

std::int64_t NpyArray::bound() const {
  std::int64_t largest = 0;
  for_each(type, data, [&](auto value) { largest = std::max(largest, static_cast<std::int64_t>(value)); });
  return largest < std::numeric_limits<std::int32_t>::max() ? largest + 1 : 0;
}

}  // namespace unity
