#include "core/base/read_yaml.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <vector>

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>

#include "core/base/nesting.h"

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

// Nothing but comments is a document, too.
YAML::Node only_document(const std::vector<YAML::Node>& documents, const std::string& file) {
  YAML::Node only;
  for (const YAML::Node& document : documents) {
    if (document.IsNull()) continue;
    if (!only.IsNull())
      throw_input_error("{}:{}:{}: found a second document, expected the end of the file", file,
                        document.Mark().line + 1, document.Mark().column + 1);
    only.reset(document);
  }
  return only;
}

}  // namespace

YAML::Node read_yaml(const std::string& text, const std::string& file) {
  try {
    if (text.find('&') != std::string::npos && text.find('*') != std::string::npos) {
      std::istringstream in(text);
      YAML::Parser parser(in);
      Counter counter(file);
      while (parser.HandleNextDocument(counter)) continue;
    }
    YAML::Node document = only_document(YAML::LoadAll(text), file);
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
