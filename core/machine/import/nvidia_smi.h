// The matrix of `nvidia-smi topo -m`.
#pragma once

#include <string>

#include "core/machine/import/imported_node.h"

namespace unity {

// Reads the text: rows and columns of GPUs and NICs; NV# (bonded NVLinks), PIX, PXB, PHB, NODE and SYS (ways over PCIe,
// from one switch to another NUMA node) between them; affinities; the legend. What it does not say is taken from the
// generation of the GPUs: rates of NVLink, PCIe and network. The generation is that of `device`, else the one with so
// many NVLinks.
//   NVLinks that add up to more than a GPU has come from a switch, else they join pairs.
//   Vertices that are PIX of one another hang on a PCIe switch, such switches with PXB on another, then (PHB, NODE) on
//   hosts, which are joined (SYS); a GPU whose way over PCIe nothing tells hangs on the host of its NUMA affinity.
// InputError with file, line, found and expected: damaged tables, relations that differ with the order, or that no tree
// has.
ImportedNode import_nvidia_smi(const std::string& text, const std::string& file, const std::string& device = "");

}  // namespace unity
