// A rule of TASO or FlexFlow as a rule of ours.
//
// Reading: LINEAR(x, w) is matmul(x, w, transpose_w=1); convolutions infer their groups from the channels of x and w,
// as TASO does; ENLARGE pads a kernel with zeros on all sides; element-wise operators do not broadcast; the sizes of
// SPLIT are those of the concat that it undoes. FlexFlow's dimension 0 is the replica dimension: REPLICATE and REDUCE
// along it are replicate and reduce, CONCAT along it is stack_partials, and dimension i is dimension i - 1 of ours. The
// files do not say ranks: the first of 2, 4 and 3 in which the source can be read is taken, and the rule says so.
#pragma once

#include <string>
#include <vector>

#include "core/rewrite/import/peer_rules.h"
#include "core/rewrite/rule.h"

namespace unity {

struct Translation {
  enum class Kind : std::uint8_t {
    rule,
    unsupported,  // it has no meaning in our graphs, or needs an operator that there is not
    ill_typed,    // it is no rewriting: its sides do not fit each other or themselves
  } kind = Kind::rule;
  std::string why;   // where, and what was found
  std::string text;  // of the rule
  Rule rule;
  int rank = 0;                     // of its variables (but for scalars)
  std::vector<std::string> groups;  // attribute variables of convolutions
  std::vector<std::string> alike;   // conditions that what is concatenated has equal sizes
};

// With `one_group`, its convolutions have one group.
Translation translate(const PeerRule& rule, PeerNumbering numbering, const std::string& name, bool one_group = false);

}  // namespace unity
