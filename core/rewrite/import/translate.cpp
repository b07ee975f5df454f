#include "core/rewrite/import/translate.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "core/base/text.h"
#include "core/rewrite/rule_text.h"

namespace unity {
namespace {

struct Unsupported {
  std::string why;
};
struct IllTyped {
  std::string why;
};

constexpr std::int64_t kMostPieces = 1000;  // of a size: joins of joins multiply them

// The size of a dimension in terms of the variables' sizes. One that a concat made knows its pieces.
struct Size {
  std::string text;
  std::vector<Size> pieces;
  std::int64_t count = 1;  // of pieces, and of theirs
};

// A value of one side: how it is written, and its dimensions.
struct Value {
  std::string term;
  std::vector<Size> dims;
};

std::string number(std::int64_t n) { return fmt::format("{}", n); }

// "2", "dim(x, 1)" or "(dim(x, 1) + 2)".
std::string atom(const Size& size) {
  return size.text.find_first_of("+-*/") == std::string::npos ? size.text : "(" + size.text + ")";
}

// Which sizes are equal.
class Equalities {
 public:
  // Sums are left alone unless they are single sizes.
  void add(const Size& a, const Size& b) {
    std::vector<std::string> x = addends(a), y = addends(b);
    if (x.size() == 1 && y.size() == 1) same_[x[0]] = y[0];
  }
  bool hold(const Size& a, const Size& b) const { return addends(a) == addends(b); }
  // What the size is a sum of, sorted; equal sizes have one name.
  std::vector<std::string> addends(const Size& size) const {
    std::vector<std::string> found;
    if (size.pieces.empty()) {
      found.push_back(name(size.text));
    } else {
      for (const Size& piece : size.pieces) {
        std::vector<std::string> of_piece = addends(piece);
        found.insert(found.end(), of_piece.begin(), of_piece.end());
      }
    }
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  std::string name(std::string size) const {
    for (auto next = same_.find(size); next != same_.end() && next->second != size; next = same_.find(size))
      size = next->second;
    return size;
  }
  std::map<std::string, std::string> same_;
};

class Translator {
 public:
  // `equal`: what an earlier translation of the rule found out about its sizes; `one_group`: convolutions have one.
  Translator(const PeerRule& rule, PeerNumbering numbering, int rank, Equalities equal, bool one_group)
      : rule_(rule),
        flexflow_(numbering == PeerNumbering::flexflow),
        rank_(rank),
        one_group_(one_group),
        equal_(std::move(equal)) {}

  const Equalities& equalities() const { return equal_; }

  void run(const std::string& name, Translation& result) {
    check_supported();
    std::vector<std::string> source, target;
    values_.assign(rule_.source.size(), {});
    in_source_ = true;
    find_scalars();
    for (const PeerMapping& m : rule_.outputs) {
      if (m.source.op < 0) throw IllTyped{"a variable is mapped as a result of the source"};
      source.push_back(value(m.source).term);
    }
    std::vector<std::vector<Size>> results;
    for (const PeerMapping& m : rule_.outputs) results.push_back(value(m.source).dims);
    values_.assign(rule_.target.size(), {});
    in_source_ = false;
    for (const PeerMapping& m : rule_.outputs) target.push_back(value(m.target).term);

    std::string text = "rule " + name + "\n";
    if (!lets_.empty()) text += "  let " + join(lets_, ", ") + "\n";
    text += fmt::format("  {} => {}\n", tuple(source), tuple(target));
    std::vector<std::string> conditions;
    for (const auto& [key, variable] : variables_)
      conditions.push_back(fmt::format("rank({}) == {}", variable.term, variable.dims.size()));
    conditions.insert(conditions.end(), conditions_.begin(), conditions_.end());
    result.text = text + "  where " + join(conditions) + "\n";
    result.groups = groups_;
    result.alike = alike_;
  }

 private:
  static std::string tuple(const std::vector<std::string>& terms) {
    return terms.size() == 1 ? terms[0] : "(" + join(terms) + ")";
  }

  // What has no meaning here is so whatever else is wrong.
  void check_supported() {
    static const std::set<std::string> kKnown = {"RELU",       "SIGMOID",   "TANH",    "EW_ADD",    "EW_MUL",
                                                 "MUL",        "MATMUL",    "LINEAR",  "CONV2D",    "POOL2D_MAX",
                                                 "POOL2D_AVG", "TRANSPOSE", "ENLARGE", "CONCAT",    "SPLIT",
                                                 "EMBEDDING",  "PARTITION", "COMBINE", "REPLICATE", "REDUCE"};
    for (bool source : {true, false}) {
      in_source_ = source;
      for (std::size_t i = 0; i < side().size(); ++i) {
        at(i);
        if (!kKnown.contains(op_->type)) throw Unsupported{fmt::format("{}: there is no such operator here", where_)};
        bool replicas = op_->type == "REPLICATE" || op_->type == "REDUCE";
        bool parts = op_->type == "PARTITION" || op_->type == "COMBINE";
        if ((replicas || parts) && !flexflow_)
          throw Unsupported{fmt::format("{}: not in TASO's numbering of dimensions", where_)};
        if (replicas && parameter("PARALLEL_DIM") != 0)
          throw Unsupported{
              fmt::format("{}: along dimension {}, which is not that of replicas", where_, parameter("PARALLEL_DIM"))};
        if (parts && parameter("PARALLEL_DIM") == 0)
          throw Unsupported{fmt::format("{}: along the dimension of replicas", where_)};
        if (op_->type == "SPLIT" && flexflow_ && parameter("AXIS") == 0)
          throw Unsupported{fmt::format("{}: along the dimension of replicas", where_)};
      }
    }
  }

  void at(std::size_t index) {
    op_ = &side()[index];
    where_ = fmt::format("{} operator {} ({})", in_source_ ? "source" : "target", index, op_->type);
  }

  const std::vector<PeerOperator>& side() const { return in_source_ ? rule_.source : rule_.target; }

  // ---- Values

  // Variables of rank 0: what MUL multiplies by.
  void find_scalars() {
    bool changed = true;
    auto mark = [&](PeerTensor v) {
      if (v.op >= 0 && !side()[static_cast<std::size_t>(v.op)].type.starts_with("EW_") &&
          side()[static_cast<std::size_t>(v.op)].type != "MUL")
        return;
      if (v.op < 0) {
        changed |= scalars_.insert(v).second;
        return;
      }
      changed |= scalar_operators_.insert(v.op).second;
    };
    while (changed) {
      changed = false;
      for (std::size_t i = 0; i < rule_.source.size(); ++i) {
        const PeerOperator& op = rule_.source[i];
        if (op.type == "MUL" && op.inputs.size() == 2) mark(op.inputs[1]);
        if (scalar_operators_.contains(static_cast<std::int64_t>(i)))
          for (PeerTensor v : op.inputs) mark(v);
      }
    }
  }

  const Value& value(PeerTensor v) {
    if (v.op < 0) return variable(v);
    auto& results = values_[static_cast<std::size_t>(v.op)];
    if (results.empty()) results = compute(static_cast<std::size_t>(v.op));
    return results.at(static_cast<std::size_t>(v.output));
  }

  const Value& variable(PeerTensor v) {
    auto known = variables_.find(v);
    if (known != variables_.end()) return known->second;
    std::uint64_t id = 0 - static_cast<std::uint64_t>(v.op);
    std::string name = v.output == 0 ? fmt::format("v{}", id) : fmt::format("v{}_{}", id, v.output);
    if (!in_source_) throw IllTyped{fmt::format("the target uses {}, which the source does not bind", name)};
    Value value{name, {}};
    int rank = scalars_.contains(v) ? 0 : rank_;
    for (int i = 0; i < rank; ++i) value.dims.push_back({fmt::format("dim({}, {})", name, i), {}});
    return variables_[v] = std::move(value);
  }

  std::size_t uses_of(std::size_t op) const {
    std::size_t count = 0;
    auto note = [&](PeerTensor v) { count += v.op == static_cast<std::int64_t>(op); };
    for (const PeerOperator& user : side())
      for (PeerTensor v : user.inputs) note(v);
    for (const PeerMapping& m : rule_.outputs) note(in_source_ ? m.source : m.target);
    return count;
  }

  // ---- Operators

  std::vector<Value> compute(std::size_t index) {
    std::vector<Value> in;
    for (PeerTensor v : side()[index].inputs) in.push_back(value(v));
    at(index);
    std::vector<Value> results = operation(in);
    // Shared and several results have names.
    if (results.size() > 1) {
      std::vector<std::string> names;
      for (std::size_t i = 0; i < results.size(); ++i) names.push_back(fresh());
      lets_.push_back(fmt::format("({}) = {}", join(names), results[0].term));
      for (std::size_t i = 0; i < results.size(); ++i) results[i].term = names[i];
    } else if (uses_of(index) > 1) {
      std::string name = fresh();
      lets_.push_back(fmt::format("{} = {}", name, results[0].term));
      results[0].term = name;
    }
    return results;
  }

  std::vector<Value> operation(const std::vector<Value>& in) {
    const std::string& type = op_->type;
    if (type == "RELU" || type == "SIGMOID" || type == "TANH") return {unary(lower(type), arity(in, 1)[0])};
    if (type == "EW_ADD" || type == "EW_MUL") return {elementwise(type == "EW_ADD" ? "add" : "mul", arity(in, 2))};
    if (type == "MUL") return {{fmt::format("mul({}, {})", arity(in, 2)[0].term, in[1].term), in[0].dims}};
    if (type == "MATMUL" || type == "LINEAR") return {product(arity(in, 2))};
    if (type == "CONV2D") return {convolution(arity(in, 2))};
    if (type == "POOL2D_MAX" || type == "POOL2D_AVG") return {pooling(arity(in, 1)[0])};
    if (type == "TRANSPOSE") return {transposed(arity(in, 1)[0])};
    if (type == "ENLARGE") return {enlarged(arity(in, 1)[0])};
    if (type == "CONCAT") return {joined(in)};
    if (type == "SPLIT") return pieces(arity(in, 1)[0]);
    if (type == "EMBEDDING") return {embedded(arity(in, 2))};
    return {parallelized(arity(in, 1)[0])};
  }

  const std::vector<Value>& arity(const std::vector<Value>& in, std::size_t expected) const {
    if (in.size() != expected)
      throw IllTyped{fmt::format("{}: found {} inputs, expected {}", where_, in.size(), expected)};
    return in;
  }

  std::int64_t parameter(const std::string& key) const {
    auto found = op_->parameters.find(key);
    if (found == op_->parameters.end()) throw IllTyped{fmt::format("{}: there is no {}", where_, key)};
    return found->second;
  }
  std::int64_t parameter(const std::string& key, std::int64_t fallback) const {
    return op_->parameters.contains(key) ? parameter(key) : fallback;
  }

  void expect_rank(const Value& v, std::size_t rank) const {
    if (v.dims.size() != rank)
      throw IllTyped{fmt::format("{}: found an input of rank {}, expected {}", where_, v.dims.size(), rank)};
  }

  static std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(), [](char c) { return static_cast<char>(std::tolower(c)); });
    return text;
  }

  std::string fresh() { return fmt::format("y{}", ++names_); }

  // Where both sides are well-typed, these sizes are equal.
  void require_equal(const Size& a, const Size& b) {
    if (said_.hold(a, b)) return;
    said_.add(a, b);
    equal_.add(a, b);
    conditions_.push_back(fmt::format("{} == {}", a.text, b.text));
  }

  static Value unary(const std::string& op, const Value& x) { return {fmt::format("{}({})", op, x.term), x.dims}; }

  Value elementwise(const std::string& op, const std::vector<Value>& in) {
    if (in[0].dims.size() != in[1].dims.size())
      throw IllTyped{fmt::format("{}: found inputs of ranks {} and {}", where_, in[0].dims.size(), in[1].dims.size())};
    Value result{fmt::format("{}({}, {})", op, in[0].term, in[1].term), in[0].dims};
    for (std::size_t i = 0; i < in[0].dims.size(); ++i) {
      require_equal(in[0].dims[i], in[1].dims[i]);
      if (result.dims[i].pieces.empty()) result.dims[i] = in[1].dims[i];
    }
    return result;
  }

  // Fused where our operator can do that, else after it.
  Value activated(Value result, bool fuses, const std::string& more) {
    std::int64_t activation = parameter("ACTI", 0);
    constexpr std::array<std::string_view, 4> kNames = {"none", "sigmoid", "relu", "tanh"};
    if (activation < 0 || activation > 3) throw Unsupported{fmt::format("{}: ACTI is {}", where_, activation)};
    std::string name(kNames[static_cast<std::size_t>(activation)]);
    bool fused = fuses && name == "relu";
    result.term += more + (fused ? ", activation=\"relu\")" : ")");
    return activation == 0 || fused ? result : unary(name, result);
  }

  Value product(const std::vector<Value>& in) {
    expect_rank(in[0], 2);
    expect_rank(in[1], 2);
    bool linear = op_->type == "LINEAR";
    Value result{fmt::format("matmul({}, {}", in[0].term, in[1].term), {in[0].dims[0], in[1].dims[linear ? 0 : 1]}};
    return activated(std::move(result), true, linear ? ", transpose_w=1" : "");
  }

  struct Geometry {
    std::array<std::int64_t, 2> kernel, stride, before, after;
    std::string text() const {
      std::string text;
      if (stride != std::array<std::int64_t, 2>{1, 1}) text += fmt::format(", stride=[{}, {}]", stride[0], stride[1]);
      if (before[0] + before[1] + after[0] + after[1] > 0)
        text += fmt::format(", padding=[{}, {}, {}, {}]", before[0], before[1], after[0], after[1]);
      return text;
    }
  };

  Geometry geometry() const {
    Geometry g{{parameter("KERNEL_H"), parameter("KERNEL_W")},
               {parameter("STRIDE_H", 1), parameter("STRIDE_W", 1)},
               {0, 0},
               {0, 0}};
    std::int64_t padding = parameter("PAD", 1);
    if (padding != 0 && padding != 1) throw Unsupported{fmt::format("{}: PAD is {}", where_, padding)};
    for (std::size_t i : {0, 1}) {
      if (g.kernel[i] < 1 || g.stride[i] < 1)
        throw IllTyped{fmt::format("{}: kernel {} and stride {}", where_, g.kernel[i], g.stride[i])};
      if (padding != 0) continue;
      if (g.stride[i] != 1)
        throw Unsupported{fmt::format("{}: with stride {}, 'same' padding depends on sizes", where_, g.stride[i])};
      g.before[i] = (g.kernel[i] - 1) / 2;
      g.after[i] = g.kernel[i] - 1 - g.before[i];
    }
    return g;
  }

  // Of the two spatial dimensions.
  static void slide(const Geometry& g, std::vector<Size>& dims) {
    for (std::size_t i : {0, 1}) {
      std::int64_t less = g.kernel[i] - g.before[i] - g.after[i];
      if (less != 1) dims[i + 2] = {fmt::format("{} - {}", dims[i + 2].text, less - 1), {}};
      if (g.stride[i] != 1) dims[i + 2] = {fmt::format("({} - 1) / {} + 1", dims[i + 2].text, g.stride[i]), {}};
    }
  }

  Value convolution(const std::vector<Value>& in) {
    expect_rank(in[0], 4);
    expect_rank(in[1], 4);
    Geometry g = geometry();
    if (in_source_)
      for (std::size_t i : {0, 1}) require_equal(in[1].dims[i + 2], {number(g.kernel[i]), {}});
    std::string groups = groups_of(in[0].dims[1], in[1].dims[1]);
    Value result{fmt::format("conv2d({}, {}", in[0].term, in[1].term), in[0].dims};
    result.dims[1] = in[1].dims[0];
    slide(g, result.dims);
    return activated(std::move(result), true, g.text() + (groups == "1" ? "" : ", groups=" + groups));
  }

  // Channels of x over those of a filter.
  std::string groups_of(const Size& x, const Size& w) {
    if (std::int64_t given = parameter("GROUP", 0); given > 0) return number(given);
    if (one_group_ && in_source_) {
      equal_.add(x, w);
      return "1";
    }
    std::vector<std::string> channels = equal_.addends(x), filter = equal_.addends(w);
    if (filter == std::vector<std::string>(filter.size(), channels[0]) &&
        channels == std::vector<std::string>(channels.size(), channels[0]) && channels.size() % filter.size() == 0)
      return number(static_cast<std::int64_t>(channels.size() / filter.size()));
    if (channels == filter) return "1";
    auto key = std::make_pair(channels, filter);
    if (auto known = group_variables_.find(key); known != group_variables_.end()) return known->second;
    if (!in_source_) return fmt::format("{}/{}", atom(x), atom(w));
    groups_.push_back(fmt::format("g{}", groups_.size() + 1));
    return group_variables_[key] = groups_.back();
  }

  Value pooling(const Value& x) {
    expect_rank(x, 4);
    Geometry g = geometry();
    Value result{fmt::format("{}([{}, {}], {}", op_->type == "POOL2D_MAX" ? "max_pool2d" : "avg_pool2d", g.kernel[0],
                             g.kernel[1], x.term),
                 x.dims};
    slide(g, result.dims);
    return activated(std::move(result), false, g.text());
  }

  Value transposed(const Value& x) const {
    auto n = static_cast<std::int64_t>(x.dims.size());
    if (parameter("NUMDIM", n) != n)
      throw IllTyped{fmt::format("{}: NUMDIM is {}, expected {}", where_, parameter("NUMDIM"), n)};
    std::int64_t digits = parameter("PERM");
    if (digits < 0) throw IllTyped{fmt::format("{}: PERM is {}, which is no permutation", where_, digits)};
    std::vector<std::string> perm(x.dims.size());
    Value result;
    result.dims = x.dims;
    for (std::size_t i = x.dims.size(); i-- > 0; digits /= n) {
      perm[i] = number(digits % n);
      result.dims[i] = x.dims[static_cast<std::size_t>(digits % n)];
    }
    if (digits != 0 || std::set<std::string>(perm.begin(), perm.end()).size() != perm.size())
      throw IllTyped{fmt::format("{}: PERM is {}, which is no permutation", where_, parameter("PERM"))};
    result.term = fmt::format("transpose([{}], {})", join(perm), x.term);
    return result;
  }

  // Zeros around a kernel; the larger half before it.
  Value enlarged(const Value& w) {
    expect_rank(w, 4);
    std::array<std::int64_t, 2> kernel = {parameter("KERNEL_H"), parameter("KERNEL_W")};
    std::array<std::string, 2> before, after;
    Value result;
    result.dims = w.dims;
    for (std::size_t i : {0, 1}) {
      std::string less = fmt::format("{} - {}", kernel[i], atom(w.dims[i + 2]));
      before[i] = fmt::format("({} + 1)/2", less);
      after[i] = fmt::format("({})/2", less);
      if (in_source_) conditions_.push_back(fmt::format("{} <= {}", w.dims[i + 2].text, kernel[i]));
      result.dims[i + 2] = {number(kernel[i]), {}};
    }
    result.term =
        fmt::format("pad([0, 0, {}, {}], [0, 0, {}, {}], {})", before[0], before[1], after[0], after[1], w.term);
    return result;
  }

  Value embedded(const std::vector<Value>& in) {
    expect_rank(in[1], 2);
    Value result{fmt::format("embedding({}, {})", in[0].term, in[1].term), in[0].dims};
    result.dims.push_back(in[1].dims[1]);
    return result;
  }

  // ---- Dimensions of tensors and of layouts

  // Our dimension; -1: the replica dimension.
  int dimension(std::int64_t dim, std::size_t rank) const {
    std::int64_t ours = flexflow_ ? dim - 1 : dim;
    if (ours >= static_cast<std::int64_t>(rank) || dim < 0)
      throw IllTyped{fmt::format("{}: there is no dimension {} of {}", where_, dim, rank + (flexflow_ ? 1 : 0))};
    return static_cast<int>(ours);
  }

  Value joined(const std::vector<Value>& in) {
    std::size_t rank = in.empty() ? 0 : in[0].dims.size();
    if (in.empty()) throw IllTyped{fmt::format("{}: found no inputs", where_)};
    auto expected = static_cast<std::int64_t>(rank) + (flexflow_ ? 1 : 0);
    if (parameter("NUMDIM", expected) != expected)
      throw IllTyped{fmt::format("{}: NUMDIM is {}, expected {}", where_, parameter("NUMDIM"), expected)};
    int axis = dimension(parameter("AXIS"), rank);
    std::vector<std::string> terms;
    for (const Value& v : in) {
      expect_rank(v, rank);
      terms.push_back(v.term);
      for (std::size_t i = 0; i < rank; ++i)
        if (static_cast<int>(i) != axis) require_equal(in[0].dims[i], v.dims[i]);
    }
    Value result = in[0];
    if (axis < 0) {
      result.term = fmt::format("stack_partials({})", join(terms));
      return result;
    }
    Size all;
    std::vector<std::string> sizes;
    all.count = 0;
    for (const Value& v : in) all.count += v.dims[static_cast<std::size_t>(axis)].count;
    if (all.count > kMostPieces)
      throw Unsupported{fmt::format("{}: found {} joined pieces, expected at most {}", where_, all.count, kMostPieces)};
    for (const Value& v : in) {
      all.pieces.push_back(v.dims[static_cast<std::size_t>(axis)]);
      sizes.push_back(all.pieces.back().text);
      std::string same = fmt::format("{} == {}", sizes[0], sizes.back());
      if (sizes.back() != sizes[0] && std::find(alike_.begin(), alike_.end(), same) == alike_.end())
        alike_.push_back(same);
    }
    all.text = join(sizes, " + ");
    result.dims[static_cast<std::size_t>(axis)] = std::move(all);
    result.term = fmt::format("concat({}, {})", axis, join(terms));
    return result;
  }

  std::vector<Value> pieces(const Value& x) {
    int axis = dimension(parameter("AXIS"), x.dims.size());
    const std::vector<Size>& sizes = x.dims[static_cast<std::size_t>(axis)].pieces;
    if (sizes.empty()) throw Unsupported{fmt::format("{}: it undoes no concat, which would say its sizes", where_)};
    if (static_cast<std::int64_t>(sizes.size()) != parameter("NUM_OUTPUTS", 2))
      throw IllTyped{fmt::format("{}: NUM_OUTPUTS is {}, but the concat before it has {} inputs", where_,
                                 parameter("NUM_OUTPUTS", 2), sizes.size())};
    std::vector<std::string> texts;
    std::vector<Value> results;
    for (const Size& size : sizes) {
      texts.push_back(size.text);
      results.push_back(x);
      results.back().dims[static_cast<std::size_t>(axis)] = size;
    }
    for (Value& result : results) result.term = fmt::format("split({}, [{}], {})", axis, join(texts), x.term);
    return results;
  }

  Value parallelized(const Value& x) {
    std::string op = lower(op_->type);
    int dim = dimension(parameter("PARALLEL_DIM"), x.dims.size());
    std::int64_t degree = parameter("PARALLEL_DEGREE");
    return {dim < 0 ? fmt::format("{}({}, {})", op, degree, x.term)
                    : fmt::format("{}({}, {}, {})", op, dim, degree, x.term),
            x.dims};
  }

  const PeerRule& rule_;
  bool flexflow_;
  int rank_;
  bool one_group_;
  bool in_source_ = true;
  const PeerOperator* op_ = nullptr;
  std::string where_;
  std::vector<std::vector<Value>> values_;  // by operator of the side at hand
  std::map<PeerTensor, Value> variables_;
  std::set<PeerTensor> scalars_;
  std::set<std::int64_t> scalar_operators_;
  std::vector<std::string> lets_, conditions_, groups_, alike_;
  std::map<std::pair<std::vector<std::string>, std::vector<std::string>>, std::string> group_variables_;
  Equalities said_, equal_;
  int names_ = 0;
};

}  // namespace

Translation translate(const PeerRule& rule, PeerNumbering numbering, const std::string& name, bool one_group) {
  std::optional<Translation> first;
  for (int rank : {2, 4, 3}) {
    Translation result;
    result.rank = rank;
    try {
      // What the target says about sizes tells which convolutions of the source have the same groups.
      Translator first(rule, numbering, rank, {}, one_group);
      first.run(name, result);
      Translator(rule, numbering, rank, first.equalities(), one_group).run(name, result);
    } catch (const Unsupported& why) {
      // What has no meaning has none in any rank.
      result.kind = Translation::Kind::unsupported;
      result.why = why.why;
      return result;
    } catch (const IllTyped& why) {
      result.kind = Translation::Kind::ill_typed;
      result.why = why.why;
    }
    if (result.kind == Translation::Kind::rule) {
      try {
        result.rule = parse_rules(result.text, name).front();
      } catch (const InputError& why) {
        result.kind = Translation::Kind::unsupported;
        result.why = why.what();
      }
      return result;
    }
    if (!first) first = std::move(result);
  }
  return *first;
}

}  // namespace unity
