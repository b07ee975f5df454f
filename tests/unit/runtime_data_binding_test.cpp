#include <cmath>

#include <catch2/catch.hpp>

#include "core/graph/builder.h"
#include "core/plan/lower.h"
#include "runtime/data/binding.h"
#include "runtime/train.h"
#include "tests/support/data_files.h"
#include "tests/support/plan_builder.h"
#include "tests/support/stub_cost_model.h"

using namespace unity;
using namespace unity::test;

namespace {

// One row, with these fields; every element is `value`.
class OneRow : public DataSource {
 public:
  OneRow(std::vector<Field> fields, double value) : DataSource("memory", std::move(fields)), value_(value) {}
  std::int64_t rows() const override { return 1; }

 protected:
  void load(std::span<const std::int64_t>, std::map<std::string, HostTensor>& batch) const override {
    for (auto& [name, t] : batch) {
      std::fill(t.reals.begin(), t.reals.end(), value_);
      std::fill(t.indices.begin(), t.indices.end(), static_cast<std::int32_t>(value_));
    }
  }

 private:
  double value_;
};

Field real(const std::string& name, Dims dims) { return {name, std::move(dims), DType::f64, 0}; }
Field whole(const std::string& name, Dims dims, std::int64_t bound = 0) {
  return {name, std::move(dims), DType::i32, bound};
}
ModelInput x(const std::string& name, Dims dims) { return {name, std::move(dims), DType::f32, 0}; }
ModelInput i(const std::string& name, Dims dims, std::int64_t bound = 0) {
  return {name, std::move(dims), DType::i32, bound};
}

// "input<-field .."
std::string bound(const std::vector<ModelInput>& inputs, const std::vector<Field>& fields) {
  std::string out;
  for (const BoundInput& b : bind_inputs(inputs, OneRow(fields, 0)).inputs)
    out += (out.empty() ? "" : " ") + b.input.name + "<-" + b.field.name;
  return out;
}

std::map<std::string, HostTensor> read_one(const ModelInput& input, const Field& field, double value) {
  OneRow source({field}, value);
  std::vector<std::int64_t> rows = {0};
  return read_batch(bind_inputs({input}, source), source, rows);
}

}  // namespace

TEST_CASE("fields feed the inputs of their name, then those of their size, then the labels") {
  CHECK(bound({x("a", {4, 2}), x("b", {4, 2}), i("c", {4})}, {whole("c", {}), real("b", {2}), real("a", {2})}) ==
        "a<-a b<-b c<-c");
  CHECK(bound({x("x", {4, 1, 2, 3}), i("labels", {4})}, {real("image", {2, 3}), whole("labels", {})}) ==
        "x<-image labels<-labels");
  CHECK(bound({x("x", {4, 6}), i("target", {4})}, {real("features", {6}), whole("y", {})}) == "x<-features target<-y");
  CHECK(bound({x("x", {4, 6}), i("target", {4})}, {real("features", {6}), whole("class", {})}) ==
        "x<-features target<-class");
  CHECK(bound({x("x", {4, 6}), x("t", {4, 1})}, {real("features", {6}), real("label", {1})}) == "x<-features t<-label");
  CHECK(bound({x("x", {4, 1}), i("labels", {4})}, {real("features", {1}), real("y", {})}) == "x<-features labels<-y");
  CHECK(bound({i("tokens", {4, 8}), i("target", {4, 8})}, {whole("tokens", {8}), whole("labels", {8})}) ==
        "tokens<-tokens target<-labels");
  CHECK(bound({x("x", {4, 6})}, {real("x", {6}), whole("labels", {})}) == "x<-x");
}

TEST_CASE("data that do not suit a model are refused with what each side has") {
  CHECK_THROWS_WITH(bound({x("x", {4, 6}), i("labels", {4})}, {real("features", {5}), whole("labels", {}, 3)}),
                    Catch::Equals("data memory: 5 features (real), 1 labels (i32 below 3) per row do not suit the "
                                  "model's inputs (x f32[4, 6], labels i32[4]): nothing for input x"));
  CHECK_THROWS_WITH(bound({x("x", {4, 6})}, {real("x", {5})}), Catch::Contains("input x takes 6 elements per row"));
  CHECK_THROWS_WITH(bound({x("a", {4, 6}), x("b", {4, 6})}, {real("features", {6})}),
                    Catch::Contains("nothing for input a"));
  CHECK_THROWS_WITH(bound({x("x", {4, 6}), i("labels", {2})}, {real("x", {6}), whole("labels", {})}),
                    Catch::Contains("input labels has no batch as its first dimension"));
  OneRow labels({whole("labels", {}, 11)}, 10);
  CHECK_THROWS_WITH(bind_inputs({i("labels", {1})}, labels, 10),
                    Catch::Contains("labels up to 10, expected below the model's 10 classes"));
  CHECK_THROWS_WITH(bind_inputs({i("ids", {1}, 7)}, OneRow({whole("ids", {}, 8)}, 7)),
                    Catch::Contains("ids up to 7, expected below the 7 of the model's input ids"));
}

TEST_CASE("numbers are taken as indices and back where they are whole, and checked against the bounds") {
  auto batch = read_one(x("t", {1, 1}), whole("t", {}), 5);
  CHECK(batch.at("t") == HostTensor{{1, 1}, DType::f64, {5}, {}});
  batch = read_one(i("t", {1, 2}, 6), real("t", {2}), 5);
  CHECK(batch.at("t") == HostTensor{{1, 2}, DType::i32, {}, {5, 5}});
  CHECK_THROWS_WITH(read_one(i("t", {1}), real("t", {}), 0.5),
                    Catch::Contains("memory: row 0: t is 0.5, expected a whole number"));
  CHECK_THROWS_WITH(read_one(i("t", {1, 2}, 5), whole("t", {2}), 5),
                    Catch::Contains("memory: row 0: t is 5, expected from 0 to 4 for the model's input t"));
  CHECK_THROWS_WITH(read_one(i("t", {1}), whole("t", {}), -1), Catch::Contains("t is -1, expected from 0 to"));
}

TEST_CASE("a batch goes on from the start of the order, and predictions are counted for its own rows only") {
  OneRow source({whole("labels", {})}, 1);
  Binding binding = bind_inputs({i("labels", {3})}, source);
  CHECK(binding.labels == "labels");
  std::vector<std::int64_t> order = {5, 6, 7, 8};
  CHECK(batch_rows(binding, order, 2) == std::vector<std::int64_t>{7, 8, 5});
  std::map<std::string, HostTensor> batch = {{"labels", index_tensor({3})}};
  batch.at("labels").indices = {1, 0, 1};
  HostTensor logits = real_tensor({3, 2});
  logits.reals = {0, 1, 0, 1, 0, 1};  // says 1 each time
  Predictions p = count_predictions(binding, batch, logits, 2);
  CHECK(p.right == 1);
  CHECK(p.all == 2);
  CHECK(count_predictions(binding, batch, real_tensor({2, 2}), 2).all == 0);
  // Of what is no number there is no largest.
  logits.reals = {0, std::nan(""), std::nan(""), 1, 0, 1};
  p = count_predictions(binding, batch, logits, 3);
  CHECK(p.right == 1);
  CHECK(p.all == 3);
}

TEST_CASE("a model with two inputs trains on the arrays of their names, and refuses an index beyond its table") {
  Builder b("lookup");
  ValueRef ids = b.input("ids", {2}, DType::i32), t = b.input("t", {2, 3}), table = b.weight("table", {8, 3});
  Pcg g =
      std::move(b).finish({b.apply("mean_squared_error", {}, {b.apply("embedding", {}, {ids, table}, "lookup"), t})});
  Program training = lower(g, natural_mappings(g), uniform_topology(1), {}).value();
  DataFolder f;
  TrainOptions options;
  options.data = f.write("x.npy", npy("<f4", "(5, 3)", bytes_of<float>(std::vector<float>(15, 1))));
  options.index_bounds = {{"ids", 8}};
  f.write("y.npy", npy("<i4", "(5,)", bytes_of<std::int32_t>({7, 0, 1, 2, 3})));
  TrainResult result = train(training, nullptr, options);
  CHECK(result.losses.size() == 2);  // 4 of 5 rows train, in batches of 2
  CHECK_FALSE(result.accuracy.has_value());
  f.write("y.npy", npy("<i4", "(5,)", bytes_of<std::int32_t>({8, 0, 1, 2, 3})));
  CHECK_THROWS_WITH(train(training, nullptr, options), Catch::Contains("labels up to 8, expected below"));
}
