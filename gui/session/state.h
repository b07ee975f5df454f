// What is restored at the next start: open files, looks, and what each panel wants to keep.
//
// A plan that was found by a search or edited is in no file of the user's: a copy of it is kept in a folder beside the
// state file, as long as it is open, or could not be opened.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gui/session/document.h"

namespace unity::gui {

struct SavedDocument {
  OpenRequest request;
  // Where the request does not say all, else empty.
  std::string title;
  std::string plan;                 // the file that has it, in the folder of plans
  std::vector<std::string> scales;  // as Scale::text() says them
  bool edited = false;
  bool found = false;  // by a search whose settings the request does not say
  bool operator==(const SavedDocument&) const = default;
};

struct SavedState {
  static constexpr int kVersion = 2;
  std::vector<SavedDocument> open;
  std::size_t active = 0;
  bool dark = false;
  std::string selected;                       // label of an operator of the active document
  std::map<std::string, double> splits;       // by splitter: its place, a fraction of the window
  std::map<std::string, bool> visible;        // by panel
  std::map<std::string, std::string> tabs;    // by area: the panel in front
  std::map<std::string, std::string> panels;  // by panel: what Panel::save() says
  bool operator==(const SavedState&) const = default;
};

// The same from any folder: the next start may be in another one.
OpenRequest with_whole_paths(OpenRequest request);

std::string to_json(const SavedState& state);
// InputError on what is no such file, or a newer one.
SavedState state_from_json(const std::string& text, const std::string& file);
// Renames a state that cannot be read, with its plans, so that it is not written over; its new path. InputError.
std::string move_state_aside(const std::string& path);

// Writes the state, and the plans of documents that no request says, beside it; plans that are of no document any more
// are removed. `documents` come before those of `state.open`. InputError where that cannot be written. Of one program
// at a time (state_lock.h).
void write_session(SavedState state, const std::vector<Snapshot>& documents, const std::string& path);

// The copy of its plan; empty where there is none, or it is gone.
std::string copy_of(const SavedDocument& saved, const std::string& state_path);

// One that was open. `note` says why it is not as it was: its plan is gone, and it was opened from the request anew.
// InputError also on a copy that is there and cannot be read: it stays.
Snapshot restore_document(const SavedDocument& saved, const std::string& state_path,
                          const std::function<void(double, const std::string&)>& progress,
                          const std::atomic<bool>* stop, std::string& note);

// $XDG_STATE_HOME/unity/gui.json, else ~/.local/state/unity/gui.json; empty where neither is known.
std::string default_state_path();

}  // namespace unity::gui
