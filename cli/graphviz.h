// Drawings by Graphviz, as a child process: its layout can take minutes on long skip edges, and must be stoppable.
#pragma once

#include <string>

namespace unity::cli {

// Lays out DOT text and writes it as SVG. std::runtime_error when Graphviz is not installed (says how to get it),
// fails, or does not finish within a minute.
void write_svg(const std::string& dot, const std::string& path);

}  // namespace unity::cli
