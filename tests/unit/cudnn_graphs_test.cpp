// cuDNN takes our graphs: its heuristics are asked for a described H100, so that no device is needed. Nothing runs.
#include <cstdlib>

#include <catch2/catch.hpp>

#include "core/ops/operator.h"
#include "runtime/cuda/library/attention_graph.h"
#include "runtime/cuda/library/conv_graph.h"
#include "runtime/cuda/library/norm_graph.h"
#include "runtime/cuda/library/pool_graph.h"

using namespace unity;
using namespace unity::cuda;

namespace {

// As cuDNN 9.8 and newer write a device's properties.
constexpr std::string_view kH100 = R"({"deviceName":"NVIDIA H100 80GB HBM3","deviceVer":900,"driverVer":13000,
  "cudaDeviceId":0,"pciDeviceId":0,"multiProcessorCount":132,"warpSize":32,"maxGridSize":[2147483647,65535,65535],
  "maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"maxSharedMemoryPerBlock":49152,
  "maxSharedMemoryPerBlockOptin":232448,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,
  "maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"isTccDriver":0,"supportCoopLaunch":1,
  "smClockRateKHz":1980000,"memClockRateKHz":2619000,"l2CacheSize":52428800,"totalGlobalMem":85000000000})";

const Descriptor& h100() {
  static const Descriptor properties = [] {
    Descriptor d(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    d.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, std::span<const char>(kH100.data(), kH100.size()));
    return d.finalize();
  }();
  return properties;
}

Result<GraphPlan> plan(const std::vector<Descriptor>& graph, bool exact) {
  return GraphPlan::choose({nullptr, &h100()}, graph, {.workspace = std::int64_t{1} << 30, .exact = exact});
}

Operand block(Dims extent, Dims global) {
  return {nullptr, DType::f32, std::move(extent), Dims(4, 0), std::move(global)};
}
Operand whole(const Dims& dims) { return block(dims, dims); }
Attributes geometry(Dims stride, Dims padding, Dims dilation, std::int64_t groups) {
  return {std::move(stride), std::move(padding), std::move(dilation), groups};
}

// Whether cuDNN has engines for a graph, of which one would be taken where there is a driver. Some are compiled when a
// plan is made: without a driver it gets no further than that; with one that is played (fake_driver.cpp) it does.
void check_known(const std::vector<Descriptor>& graph, bool exact) {
  Result<GraphPlan> found = plan(graph, exact);
  if (found) return;
  INFO(found.error().message);
  CHECK(std::getenv("UNITY_FAKE_DRIVER") == nullptr);
  bool driver_missing = found.error().message.find("libcuda == nullptr") != std::string::npos ||
                        found.error().message.find("FAILED_CUDA_DRIVER") != std::string::npos;
  CHECK(driver_missing);
}

}  // namespace

TEST_CASE("cuDNN has a deterministic engine for every kind of convolution, block and element type") {
  Dims x = {8, 64, 56, 56}, w = {64, 64, 3, 3};
  Attributes plain = geometry({1, 1}, {1, 1, 1, 1}, {1, 1}, 1);
  std::vector<std::pair<const char*, Result<ConvShape>>> shapes = {
      {"plain", conv_shape(plain, whole(x), whole(w), whole(x))},
      {"strided", conv_shape(geometry({2, 2}, {3, 3, 3, 3}, {1, 1}, 1), whole({8, 3, 224, 224}), whole({64, 3, 7, 7}),
                             whole({8, 64, 112, 112}))},
      {"one by one",
       conv_shape(geometry({1, 1}, {0, 0, 0, 0}, {1, 1}, 1), whole(x), whole({32, 64, 1, 1}), whole({8, 32, 56, 56}))},
      {"grouped", conv_shape(geometry({1, 1}, {1, 1, 1, 1}, {1, 1}, 16), whole(x), whole({64, 4, 3, 3}), whole(x))},
      {"depthwise", conv_shape(geometry({1, 1}, {1, 1, 1, 1}, {1, 1}, 64), whole(x), whole({64, 1, 3, 3}), whole(x))},
      {"dilated", conv_shape(geometry({1, 1}, {2, 2, 2, 2}, {2, 2}, 1), whole(x), whole(w), whole(x))},
      {"of unequal pads", conv_shape(geometry({1, 1}, {2, 1, 0, 1}, {1, 1}, 1), whole(x), whole(w), whole(x))},
      {"with a halo", conv_shape(plain, block({8, 64, 29, 56}, x), whole(w), block({8, 64, 28, 56}, x))},
      {"of a part of the block", conv_shape(plain, block({8, 64, 40, 56}, x), whole(w), block({8, 64, 28, 56}, x))}};
  for (auto& [name, shape] : shapes)
    for (const char* op : {"conv2d", "conv2d_input_gradient", "conv2d_weight_gradient"})
      for (DType type : {DType::f32, DType::bf16, DType::f64})
        for (bool exact : {false, true})
          for (bool add : {false, true}) {
            if (type != DType::f32 && exact) continue;
            INFO(name << " " << op << " in " << to_string(type) << (exact ? " exactly" : "") << (add ? " adding" : ""));
            Result<GraphPlan> found = plan(conv_graph(op, shape.value(), type, add), exact);
            if (!found) FAIL(found.error().message);
            CHECK(found->workspace() <= std::int64_t{1} << 30);
          }
}

TEST_CASE("cuDNN knows the graphs of attention and its gradient") {
  for (bool causal : {false, true})
    for (const char* what : {"result", "result with sums", "gradient"}) {
      AttentionShape a{.batch = 2, .heads = 4, .s = 128, .t = 128, .e = 64, .f = 64, .causal = causal};
      std::string_view name = what;
      INFO((causal ? "causal " : "plain ") << what);
      check_known(name == "gradient" ? attention_gradient_graph(a) : attention_graph(a, name != "result"), false);
    }
}

TEST_CASE("cuDNN has deterministic engines for the norms of our models and their gradients") {
  struct Rows {
    const char* model;
    bool centred;
    std::int64_t rows, columns;
  };
  for (Rows r : {Rows{"bert-large", true, 8 * 512, 1024},
                 {"gpt2-xl", true, 4 * 1024, 1600},
                 {"vit-b16", true, 64 * 197, 768},
                 {"t5-small", false, 8 * 512, 512},
                 {"one short row", true, 1, 3},
                 {"one short row", false, 1, 3}})
    for (bool backward : {false, true})
      for (DType type : {DType::f32, DType::bf16}) {
        NormShape shape{r.centred, backward, r.rows, r.columns, type};
        INFO(r.model << ": " << to_string(shape));
        check_known(norm_graph(shape), type == DType::f32);
      }
}

TEST_CASE("cuDNN has deterministic engines for the pooling of our models, in every element type") {
  std::vector<std::pair<const char*, PoolShape>> shapes = {
      {"resnet-50, stem", {8, 64, 112, 112, 56, 56, {3, 3}, {2, 2}, {1, 1}}},
      {"vgg-16", {8, 64, 224, 224, 112, 112, {2, 2}, {2, 2}, {0, 0}}},
      {"inception-v3, a stride that does not divide", {8, 192, 71, 71, 35, 35, {3, 3}, {2, 2}, {0, 0}}},
      {"inception-v3, beside convolutions", {8, 192, 35, 35, 35, 35, {3, 3}, {1, 1}, {1, 1}}},
      {"the mean of an image", {8, 2048, 7, 7, 1, 1, {7, 7}, {1, 1}, {0, 0}}}};
  for (auto& [name, shape] : shapes)
    for (Pooling pooling : {Pooling::max, Pooling::mean, Pooling::mean_inside})
      for (bool backward : {false, true})
        for (DType type : {DType::f32, DType::bf16, DType::f64}) {
          if (pooling == Pooling::max && backward) continue;
          INFO(name << (backward ? " gradient" : "") << " in " << to_string(type) << ", " << static_cast<int>(pooling));
          Result<GraphPlan> found = plan(pool_graph(shape, pooling, backward, type), type == DType::f32);
          if (!found) FAIL(found.error().message);
          CHECK(found->workspace() <= std::int64_t{64} << 20);
        }
}
