// What became of each candidate, on disk: a generation that is cut off goes on where it stood.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>

#include "core/rewrite/rule.h"

namespace unity {

struct JournalEntry {
  enum class Verdict : std::uint8_t { kept, unproved, contradicted };
  Verdict verdict = Verdict::contradicted;
  std::string rule;    // its text, of a kept or unproved one
  std::string why;     // of the others
  bool wrong = false;  // an unproved rule was refuted; of contradicted ones always
};

class Journal {
 public:
  // Reads what is in `directory` ("" : no journal is kept). Entries count only for the same key of options; one that
  // was cut off while it was written is left out. InputError when the directory can not be made or read.
  Journal(const std::string& directory, std::uint64_t options);

  const JournalEntry* find(const std::string& candidate) const;
  // Appends, unless it is there.
  void write(const std::string& candidate, const JournalEntry& entry);
  static Rule parse(const JournalEntry& entry);
  std::size_t size() const { return entries_.size(); }

 private:
  Hash key(const std::string& candidate) const;

  std::string path_;
  std::uint64_t options_ = 0;
  std::unordered_map<Hash, JournalEntry> entries_;
};

}  // namespace unity
