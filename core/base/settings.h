// Small settings in one line of text: "adamw 1e-3 beta1=0.9 weight_decay=0.01", "cosine warmup=100 min=1e-5".
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace unity {

struct Settings {
  std::string kind;
  std::vector<double> numbers;           // those without a key
  std::map<std::string, double> values;  // a key without '=' is 1
  // The value of a key, or what it is when not given.
  double value(const std::string& key, double otherwise) const {
    auto it = values.find(key);
    return it == values.end() ? otherwise : it->second;
  }
};

// Reads "KIND [NUMBER] [KEY=NUMBER ...]" separated by blanks. `keys` has the kinds and the keys of each. InputError
// (begins with `subject`) on unknown kinds and keys, a key given twice, and values that are not finite numbers of at
// least 0.
Settings parse_settings(std::string_view subject, std::string_view text,
                        const std::map<std::string, std::vector<std::string>>& keys);

// "0.01", "1e-05": the shortest text that reads back as the same number.
std::string number_text(double number);

}  // namespace unity
