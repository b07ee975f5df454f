#include "core/machine/import/nccl_tests.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <sstream>

#include "core/base/text.h"

namespace unity {
namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

class TableReader {
 public:
  TableReader(const std::string& text, const std::string& file, int devices) {
    table_.file = file;
    std::istringstream stream(text);
    std::set<std::string> hosts;
    for (std::string line; std::getline(stream, line);) {
      ++line_;
      std::vector<std::string> words = words_of(line);
      if (words.empty()) continue;
      if (words[0][0] != '#') {
        if (!columns_.empty() && words[0].find_first_not_of("0123456789") == std::string::npos) read_row(words);
        continue;
      }
      if (words[0] == "#") words.erase(words.begin());
      if (words.empty()) continue;
      if (words[0] == "Rank") {
        ++table_.ranks;
        auto on = std::find(words.begin(), words.end(), "on");
        if (on != words.end() && on + 1 != words.end()) hosts.insert(on[1]);
      } else if (words[0] == "size") {
        columns_ = words;
        head_ = line_;
      }
    }
    if (columns_.empty()) fail(1, "found no line '# size count ...', expected the table of a program of nccl-tests");
    if (table_.times.empty()) fail(head_, "found no rows of at least one byte below this head");
    table_.hosts = static_cast<int>(hosts.size());
    if (table_.ranks == 0) table_.ranks = devices;
    constexpr int kMostRanks = 1 << 20;
    if (table_.ranks < 2 || table_.ranks > kMostRanks)
      fail(head_,
           fmt::format("found {} ranks, expected 2 to {} (lines '#  Rank', or --devices)", table_.ranks, kMostRanks));
    classify();
  }

  NcclTable take() && { return std::move(table_); }

 private:
  [[noreturn]] void fail(int line, const std::string& message) const {
    throw_input_error("{}:{}: {}", table_.file, line, message);
  }

  double number(const std::string& word, const std::string& column) const {
    constexpr double kMost = 1e18;
    char* end = nullptr;
    double value = std::strtod(word.c_str(), &end);
    if (*end != '\0' || !(value >= 0 && value <= kMost))
      fail(line_, fmt::format("{}: found '{}', expected a number from 0 to {:g}", column, word, kMost));
    return value;
  }

  void read_row(const std::vector<std::string>& words) {
    if (words.size() < columns_.size())
      fail(line_, fmt::format("found {} columns, expected {} as in the head", words.size(), columns_.size()));
    double bytes = number(words[0], "size"), algorithm = 0;
    if (bytes == 0) return;
    for (std::size_t c = 1; c < columns_.size(); ++c) {
      if (columns_[c] == "time") {
        double microseconds = number(words[c], "time");
        if (microseconds <= 0) fail(line_, fmt::format("time: found '{}', expected more than 0", words[c]));
        table_.times.push_back({bytes, microseconds * 1e-6});
      } else if (columns_[c] == "algbw") {
        algorithm = number(words[c], "algbw");
      } else if (columns_[c] == "busbw" && algorithm > largest_algbw_) {
        largest_algbw_ = algorithm;  // of which rounding spoils the ratio least
        ratio_ = number(words[c], "busbw") / algorithm;
      } else if (columns_[c] == "root") {
        rooted_ = words[c] != "-1";
      } else if (columns_[c] == "redop") {
        reduces_ = words[c] != "none";
      }
    }
  }

  void classify() {
    double n = table_.ranks, whole = 2 * (n - 1) / n, part = (n - 1) / n;
    auto near = [&](double factor) { return std::abs(ratio_ - factor) <= 0.02 * factor; };
    if (largest_algbw_ <= 0) fail(head_, "found no algbw above 0, which would tell the collective");
    if (near(whole) && reduces_ && !rooted_) {
      table_.collective = "all_reduce", table_.bytes_factor = whole, table_.steps = 2 * (table_.ranks - 1);
    } else if (near(part)) {
      table_.collective = "all_gather or alike", table_.bytes_factor = part, table_.steps = table_.ranks - 1;
    } else if (near(1)) {
      table_.collective = rooted_ ? "broadcast or alike" : "sendrecv";
      table_.steps = rooted_ ? table_.ranks - 1 : 1;
    } else {
      fail(head_, fmt::format("busbw / algbw is {:.3f}, expected {:.3f}, {:.3f} or 1 for {} ranks", ratio_, whole, part,
                              table_.ranks));
    }
  }

  NcclTable table_;
  std::vector<std::string> columns_;
  int line_ = 0, head_ = 0;
  double largest_algbw_ = 0, ratio_ = 0;
  bool rooted_ = false, reduces_ = false;
};

}  // namespace

NcclTable read_nccl_tests(const std::string& text, const std::string& file, int devices) {
  return TableReader(text, file, devices).take();
}

}  // namespace unity
