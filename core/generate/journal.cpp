#include "core/generate/journal.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "core/base/text.h"
#include "core/rewrite/rule_text.h"

namespace unity {
namespace {

constexpr std::array<std::string_view, 4> kVerdicts = {"kept", "unproved", "contradicted", "refuted"};

// An entry is "candidate HASH VERDICT LINES", the reason on one line, the rule's LINES lines, and "end HASH".
std::string print_entry(Hash key, const JournalEntry& e) {
  std::string why = e.why;
  std::replace(why.begin(), why.end(), '\n', ' ');
  auto lines = std::count(e.rule.begin(), e.rule.end(), '\n');
  return fmt::format(
      "candidate {:016x} {} {}\n{}\n{}end {:016x}\n", key,
      kVerdicts[e.verdict == JournalEntry::Verdict::unproved && e.wrong ? 3 : static_cast<std::size_t>(e.verdict)],
      lines, why, e.rule, key);
}

}  // namespace

Journal::Journal(const std::string& directory, std::uint64_t options) : options_(options) {
  if (directory.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw_input_error("{}: cannot be made: {}", directory, error.message());
  path_ = (std::filesystem::path(directory) / "candidates.journal").string();
  if (!std::filesystem::exists(path_)) return;
  std::istringstream in(read_file(path_));
  std::string line, word, verdict;
  while (std::getline(in, line)) {
    std::istringstream head(line);
    Hash key = 0;
    int lines = 0;
    if (!(head >> word >> std::hex >> key >> verdict >> std::dec >> lines) || word != "candidate") continue;
    JournalEntry entry;
    auto found = std::find(kVerdicts.begin(), kVerdicts.end(), verdict);
    bool whole = found != kVerdicts.end() && static_cast<bool>(std::getline(in, entry.why));
    for (int i = 0; whole && i < lines; ++i) {
      whole = static_cast<bool>(std::getline(in, line));
      entry.rule += line + "\n";
    }
    if (!whole || !std::getline(in, line) || line != fmt::format("end {:016x}", key)) continue;
    entry.wrong = found - kVerdicts.begin() > 1;
    entry.verdict = static_cast<JournalEntry::Verdict>(found - kVerdicts.begin() == 3 ? 1 : found - kVerdicts.begin());
    entries_[key] = std::move(entry);
  }
}

Hash Journal::key(const std::string& candidate) const { return combine(hash_text(candidate), options_); }

const JournalEntry* Journal::find(const std::string& candidate) const {
  auto found = entries_.find(key(candidate));
  return found == entries_.end() ? nullptr : &found->second;
}

void Journal::write(const std::string& candidate, const JournalEntry& entry) {
  Hash k = key(candidate);
  if (path_.empty() || !entries_.emplace(k, entry).second) return;
  const std::string text = "\n" + print_entry(k, entry);
  std::FILE* out = std::fopen(path_.c_str(), "a");
  bool written = out && std::fwrite(text.data(), 1, text.size(), out) == text.size() && std::fflush(out) == 0;
  int why = errno;
  if (out) std::fclose(out);
  if (!written) throw_input_error("{}: cannot be written: {}", path_, std::strerror(why));
}

Rule Journal::parse(const JournalEntry& entry) { return std::move(parse_rules(entry.rule, "generated").front()); }

}  // namespace unity
