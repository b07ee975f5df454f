// A PCG as a graph in the DOT language of Graphviz.
#pragma once

#include <string>

#include "core/graph/pcg.h"

namespace unity {

struct DotOptions {
  bool clusters = true;  // boxes around the nodes of one block: labels with the same prefix ("encoder.3", "head")
  bool leaves = true;    // show inputs and weights
};

// Nodes show label and operator with its attributes; edges show parallel shapes with degrees, copies and partials. The
// text is valid whatever the labels hold, and depends on nothing but graph and options.
std::string to_dot(const Pcg& pcg, const DotOptions& options = {});

}  // namespace unity
