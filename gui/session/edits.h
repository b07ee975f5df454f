// Edits: values that turn a snapshot into another one. Nothing else changes documents, so that what an edit did can be
// undone, repeated and written down.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gui/session/document.h"

namespace unity::gui {

using Arguments = std::map<std::string, std::string>;

struct Edit {
  std::string name;
  Arguments arguments;
  bool operator==(const Edit&) const = default;
};

// Error: the edit is unknown, an argument is missing or wrong, or it does not fit the document.
//   apply_rule    rule: its name; match: number of the match (find_matches); parameters: "d=2", where it has some
//   set_mapping   nodes: numbers or labels, separated by blanks, all with one grid; start; strides: numbers
//   set_scale     what: as in core/machine/scale.h ("link:infiniband", "device"); factor: 1 takes it back
//   reset_scales  nothing
Result<Document> apply(const Document& document, const Edit& edit);

struct EditInfo {
  std::string_view name, label;
};
const std::vector<EditInfo>& edits();

// The snapshots of a document, with what led from one to the next.
class History {
 public:
  explicit History(Snapshot first) : states_{std::move(first)} {}
  const Snapshot& now() const { return states_[at_]; }
  const Snapshot* before() const { return at_ == 0 ? nullptr : &states_[at_ - 1]; }
  bool can_undo() const { return at_ > 0; }
  bool can_redo() const { return at_ + 1 < states_.size(); }
  void undo() { at_ -= can_undo() ? 1 : 0; }
  void redo() { at_ += can_redo() ? 1 : 0; }
  // Drops what could be redone. The oldest state goes when there are more than kMost.
  void push(Snapshot next, Edit edit);
  const std::vector<Edit>& edits() const { return edits_; }
  std::size_t position() const { return at_; }

  static constexpr std::size_t kMost = 1000;

 private:
  std::vector<Snapshot> states_;
  std::vector<Edit> edits_;  // by state but the first
  std::size_t at_ = 0;
};

}  // namespace unity::gui
