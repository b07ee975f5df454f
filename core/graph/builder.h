// Builds PCGs in C++: thin typed calls over Pcg::try_add. Wrong operands throw InputError with the operator's message.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/graph/pcg.h"

namespace unity {

class Builder {
 public:
  explicit Builder(std::string name);

  // Labels of what is built while a scope is open are prefixed "outer.inner.".
  class Scope {
   public:
    Scope(Builder& builder, const std::string& name);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Builder& builder_;
    std::size_t length_;
  };

  ValueRef input(const std::string& name, Dims shape, DType dtype = DType::f32);
  ValueRef weight(const std::string& name, Dims shape, const std::string& init = "uniform", double scale = 0);
  // Any operator: missing optional attributes take their defaults. Multi-result operators: results(..).
  ValueRef apply(std::string_view op, Attributes attributes, std::vector<ValueRef> inputs,
                 const std::string& name = {});
  std::vector<ValueRef> results(std::string_view op, Attributes attributes, std::vector<ValueRef> inputs,
                                const std::string& name = {});

  // x with a share of `rate` of its elements dropped and the others scaled by 1 / (1 - rate): a product with a mask
  // leaf, which is drawn by (seed, origin, step, logical index), the same under every plan.
  ValueRef dropout(double rate, ValueRef x, const std::string& name = "dropout");

  const ParallelShape& shape(ValueRef v) const { return pcg_.shape(v); }
  Dims dims(ValueRef v) const { return pcg_.shape(v).shape().dims; }
  // Finishes: the outputs of the graph, the loss first.
  Pcg finish(std::vector<ValueRef> outputs) &&;

 private:
  Pcg pcg_;
  std::string prefix_;
  std::int64_t next_origin_ = 0;
  std::map<std::string, int> used_;
};

}  // namespace unity
