#include "core/base/read_yaml.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>

#include "core/base/nesting.h"
#include "core/base/utf8.h"

namespace unity {
namespace {

constexpr std::int64_t kMostNodes = 1'000'000;

// Counts what the document is with every alias replaced by what it stands for. An alias costs yaml-cpp nothing, but
// those who walk through the document meet it as often as it is named: ten lines can stand for 10^10 nodes.
class Counter : public YAML::EventHandler {
 public:
  explicit Counter(const std::string& file) : file_(file) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { leaf(mark, anchor); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor, const std::string&) override {
    leaf(mark, anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const Size& size = of(anchor);
    if (size.nodes == 0) fail(mark, "found an alias inside what it stands for");
    add(mark, size);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    start(mark, anchor);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    start(mark, anchor);
  }
  void OnMapEnd() override { end(); }

 private:
  struct Size {
    std::int64_t nodes = 0;  // 0: not known yet
    int depth = 0;
  };
  struct Open {
    YAML::anchor_t anchor = 0;
    Size size;
  };

  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& message) const {
    throw_input_error("{}:{}:{}: {}", file_, mark.line + 1, mark.column + 1, message);
  }
  Size& of(YAML::anchor_t anchor) {
    if (anchors_.size() <= anchor) anchors_.resize(anchor + 1);
    return anchors_[anchor];
  }
  // A part of this size, within what is open.
  void add(const YAML::Mark& mark, Size part) {
    nodes_ += part.nodes;
    if (nodes_ > kMostNodes)
      fail(mark, fmt::format("found more than {} nodes, aliases replaced by what they stand for", kMostNodes));
    if (static_cast<int>(open_.size()) + part.depth > kDeepestFile)
      fail(mark, fmt::format("found lists and maps nested deeper than {}, expected a file of Unity's", kDeepestFile));
    if (open_.empty()) return;
    Size& whole = open_.back().size;
    whole.nodes += part.nodes;
    whole.depth = std::max(whole.depth, part.depth + 1);
  }
  void leaf(const YAML::Mark& mark, YAML::anchor_t anchor) {
    add(mark, {1, 0});
    if (anchor) of(anchor) = {1, 0};
  }
  void start(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor) of(anchor) = {};
    if (static_cast<int>(open_.size()) >= kDeepestFile) add(mark, {1, 1});
    open_.push_back({anchor, {1, 1}});
    ++nodes_;
  }
  void end() {
    Open ended = open_.back();
    open_.pop_back();
    if (ended.anchor) of(ended.anchor) = ended.size;
    if (open_.empty()) return;
    Size& whole = open_.back().size;  // its nodes are counted already
    whole.nodes += ended.size.nodes;
    whole.depth = std::max(whole.depth, ended.size.depth + 1);
  }

  const std::string& file_;
  std::vector<Size> anchors_;
  std::vector<Open> open_;
  std::int64_t nodes_ = 0;
};

// yaml-cpp keeps both, and finds the first.
void refuse_keys_twice(const YAML::Node& node, const std::string& file) {
  if (node.IsSequence())
    for (const YAML::Node& item : node) refuse_keys_twice(item, file);
  if (!node.IsMap()) return;
  std::set<std::string> keys;
  for (const auto& entry : node) {
    if (entry.first.IsScalar() && !keys.insert(entry.first.Scalar()).second)
      throw_input_error("{}:{}:{}: key '{}' is given twice", file, entry.first.Mark().line + 1,
                        entry.first.Mark().column + 1, entry.first.Scalar());
    refuse_keys_twice(entry.second, file);
  }
}

// Where a document begins, and whether there is anything in it.
class Document : public YAML::EventHandler {
 public:
  YAML::Mark start, first;
  bool full = false;

  void OnDocumentStart(const YAML::Mark& mark) override { start = mark, full = false; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t, const std::string&) override { meet(mark); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { meet(mark); }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    meet(mark);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    meet(mark);
  }
  void OnMapEnd() override {}

 private:
  void meet(const YAML::Mark& mark) {
    if (!std::exchange(full, true)) first = mark;
  }
};

// Of several documents yaml-cpp reads the first. What is in none it leaves where it is, however often it is asked.
void refuse_more_documents(const std::string& text, const std::string& file) {
  std::istringstream in(text);
  YAML::Parser parser(in);
  Document document;
  for (int last = -1; parser.HandleNextDocument(document); last = document.start.pos) {
    if (last < 0) continue;
    if (!document.full && document.start.pos > last) continue;
    const YAML::Mark& mark = document.full ? document.first : document.start;
    throw_input_error("{}:{}:{}: found {}, expected the end of the file", file, mark.line + 1, mark.column + 1,
                      document.full ? "a second document" : "what belongs to nothing");
  }
}

// yaml-cpp knows UTF-16 and UTF-32 by their first bytes, and takes all else for UTF-8 without a look.
void refuse_other_encodings(const std::string& text, const std::string& file) {
  if (text.starts_with("\xFE\xFF") || text.starts_with("\xFF\xFE") || text.find('\0') != std::string::npos) return;
  const std::optional<std::size_t> at = first_not_utf8(text);
  if (!at) return;
  const auto lines = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(*at), '\n');
  const std::size_t line_start = text.rfind('\n', *at) + 1;  // 0 where there is none
  throw_input_error("{}:{}:{}: found byte 0x{:02x}, expected text in UTF-8", file, lines + 1, *at - line_start + 1,
                    static_cast<unsigned char>(text[*at]));
}

}  // namespace

YAML::Node read_yaml(const std::string& text, const std::string& file) {
  refuse_other_encodings(text, file);
  try {
    if (text.find('&') != std::string::npos && text.find('*') != std::string::npos) {
      std::istringstream in(text);
      YAML::Parser parser(in);
      Counter counter(file);
      parser.HandleNextDocument(counter);
    }
    refuse_more_documents(text, file);
    YAML::Node document = YAML::Load(text);
    refuse_keys_twice(document, file);
    return document;
  } catch (const YAML::DeepRecursion& e) {  // its own bound, of some hundred levels
    throw_input_error("{}:{}:{}: found lists and maps nested too deep, expected a file of Unity's", file,
                      e.mark.line + 1, e.mark.column + 1);
  } catch (const YAML::Exception& e) {
    throw_input_error("{}:{}:{}: malformed YAML: {}", file, e.mark.line + 1, e.mark.column + 1, e.msg);
  }
}

}  // namespace unity
