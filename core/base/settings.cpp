#include "core/base/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/text.h"

namespace unity {
namespace {

double number(std::string_view subject, std::string_view word, std::string_view text) {
  double value = 0;
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size() || !std::isfinite(value) || value < 0)
    throw_input_error("{}: found '{}', expected a number of at least 0", subject, word);
  return value;
}

}  // namespace

Settings parse_settings(std::string_view subject, std::string_view text,
                        const std::map<std::string, std::vector<std::string>>& keys) {
  std::vector<std::string_view> words;
  for (std::size_t begin = text.find_first_not_of(' '); begin < text.size();
       begin = text.find_first_not_of(' ', begin)) {
    std::size_t end = std::min(text.find(' ', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  std::vector<std::string> kinds;
  kinds.reserve(keys.size());
  for (const auto& [kind, names] : keys) kinds.push_back(kind);
  Settings s{words.empty() ? "" : std::string(words[0]), {}, {}};
  auto known = keys.find(s.kind);
  if (known == keys.end())
    throw_input_error("{}: found '{}', expected one of {}{}", subject, s.kind, join(kinds),
                      nearest_name(s.kind, kinds).empty() ? "" : suggestion(s.kind, kinds));
  for (std::size_t i = 1; i < words.size(); ++i) {
    std::size_t equals = words[i].find('=');
    std::string key(words[i].substr(0, equals));
    bool named = std::find(known->second.begin(), known->second.end(), key) != known->second.end();
    if (equals == std::string_view::npos && !named) {
      s.numbers.push_back(number(subject, words[i], words[i]));
      continue;
    }
    if (!named) throw_input_error("{}: {} has no '{}'{}", subject, s.kind, key, suggestion(key, known->second));
    double value = equals == std::string_view::npos ? 1 : number(subject, words[i], words[i].substr(equals + 1));
    if (!s.values.emplace(key, value).second) throw_input_error("{}: found '{}' twice, expected once", subject, key);
  }
  return s;
}

std::string number_text(double number) { return fmt::format("{}", number); }

}  // namespace unity
