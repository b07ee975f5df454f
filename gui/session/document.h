// What a file or model is in the GUI: an immutable snapshot. An edit makes a new one, which shares with the old one all
// that it did not change, so that undo is a pointer.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/machine/scale.h"
#include "core/plan/plan.h"
#include "core/report/experiment.h"
#include "core/report/results.h"
#include "core/trace/trace.h"

namespace unity::gui {

// Enough to open a document again.
struct OpenRequest {
  std::string source;                      // a model's name, a model file (YAML, ONNX), a plan, trace or sweep
  std::string topology = {};               // of a model: makes a plan of it; empty: the graph alone
  int nodes = 0, devices = 0;              // 0: as the topology says, all
  std::string strategy = "data-parallel";  // that finds the plan
  bool operator==(const OpenRequest&) const = default;
};
// Whether it is a model and a machine, so that opening it searches for a plan.
bool is_searched(const OpenRequest& request);
// Whether it is something that can be read again: a file, or the folder of a sweep.
bool names_file(const OpenRequest& request);

// What `unity sweep` has written.
struct Sweep {
  report::Results results;
  std::vector<report::Figure> figures;  // that its experiment declares
  std::string note;                     // why there are none
};

struct Document {
  std::string title;
  OpenRequest request;
  std::shared_ptr<const Pcg> model;          // a model that has no plan; else null
  std::shared_ptr<const Plan> plan;          // else null
  std::shared_ptr<const Trace> trace;        // of a document that is a trace alone; its graph is empty
  std::shared_ptr<const Sweep> sweep;        // of one that is the result of a sweep; its graph is empty
  std::shared_ptr<const Topology> topology;  // the plan's machine, as its file says
  std::vector<Scale> scales;                 // what the user asks: what if the machine were so much faster
  bool edited = false;                       // the plan is not the one that was opened or found
  bool found = false;                        // by a search whose settings the request does not say

  const Pcg& graph() const { return plan ? plan->pcg : *model; }
};
using Snapshot = std::shared_ptr<const Document>;

// All that an edit can change, as text: equal texts are equal documents.
std::string to_text(const Document& document);

// A plan is checked against its machine. InputError says what is wrong with the file or name. `progress` gets a
// fraction and what is being done; `stop`, once set, ends a search early.
Snapshot open_document(const OpenRequest& request, const std::function<void(double, const std::string&)>& progress = {},
                       const std::atomic<bool>* stop = nullptr);

// What the first start shows.
OpenRequest sample_request();

}  // namespace unity::gui
