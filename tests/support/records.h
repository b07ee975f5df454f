// What a search or simulation gives, word by word, recorded under tests/golden: whoever changes it sees where. Records
// say what is, not what is right. UNITY_RECORD=1 writes them anew.
#pragma once

#include <map>
#include <string>

namespace unity::test {

// A file of records: "== name", then its lines.
class Records {
 public:
  explicit Records(std::string file);  // under tests/golden
  ~Records();                          // writes, where that is asked for
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  // A check of Catch2: the record of this name is this text, each line of which ends in a newline.
  void check(const std::string& name, const std::string& text);

 private:
  std::string path_;
  std::map<std::string, std::string> records_;
  bool writing_;
};

}  // namespace unity::test
