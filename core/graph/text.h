// The text form of PCGs, also the language of rules and axioms (core/rewrite). It prints and parses; parse(print(g)) ==
// g.
//
//   pcg mlp {
//     x = input([64, 784])                       # f32[64, 784]
//     w = weight([784, 512], init="normal")
//     h = relu(matmul(partition(0, 2, x), replicate(2, w)))
//     (a, b) @ 7 "halves" = split(1, [256, 256], h)
//     return a
//   }
//
// A call lists the required attributes, then the operands, then optional attributes as name=value. Calls nest. `#`
// starts a comment. `@ 7` after a node's name gives its origin id (`@ none`: it has none); without it, the origin is
// the position of the node in the graph. The label of a node is the quoted text after its name, else its name (of
// several results: the first one's); nested nodes have no label, but leaves that of their operator. The printer writes
// one node a line.
#pragma once

#include <string>
#include <string_view>

#include "core/graph/pcg.h"

namespace unity {

std::string print(const Pcg& pcg);

// Throws InputError "file:line:column: ..." on malformed text, unknown operators (with the nearest name) and type
// errors.
Pcg parse_pcg(std::string_view text, const std::string& file = "<pcg>");

}  // namespace unity
