// The text form of rules. Their terms are those of PCG text (core/graph/text.h), with variables for values and
// attributes:
//
//   rule matmul_reduction
//     matmul(x, w) => reduce(d, matmul(partition(1, d, x), partition(0, d, w)))
//     where divides(d, dim(x, 1)), rank(x) == 2
//
//   rule merge_matmuls
//     let y1 = matmul(x, w1), y2 = matmul(x, w2)
//     (y1, y2) => split(1, [dim(w1, 1), dim(w2, 1)], matmul(x, concat(1, w1, w2)))
//
// * A call lists the required attributes, then the operands, then optional attributes as name=value. In the source, an
//   optional attribute that is not written must have its default.
// * `let` names the results of a call: for sharing, for tuples (`let (a, b) = split(1, [m, n], x)`), and for
// conditions. A
//   named result of the source may also be used in the target: it is then kept.
// * Attributes are integers, reals, "texts", [lists], attribute variables, and + - * / over numbers, % over integers,
// and
//   rank(x), dim(x, i), degree(x, i), copies(x), partials(x) of values that the source binds.
// * An attribute variable that no source attribute binds is a parameter, chosen at application (a degree).
// * Conditions: divides(a, b), near(a, b) (numbers that differ by rounding alone), == != < <= > >=, separated by
// commas; all must hold. `#` starts a comment.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/rewrite/rule.h"

namespace unity {

// Throws InputError "file:line:column: ..." on malformed text, unknown operators (with the nearest name), wrong arity,
// unbound names, leaves (rules never replace them), and rules of the same name.
std::vector<Rule> parse_rules(std::string_view text, const std::string& file = "<rules>");

// Axioms are written like rules, but as equations between logical tensors: `axiom NAME` instead of `rule NAME`, and `=`
// instead of `=>`. With `<=` they are equal where the right side is defined, and the left one may be so elsewhere, too:
// where more indices are in range.
std::vector<Rule> parse_axioms(std::string_view text, const std::string& file = "<axioms>");

std::vector<Rule> load_rules(const std::string& path);

}  // namespace unity
