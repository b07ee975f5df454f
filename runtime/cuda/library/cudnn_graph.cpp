#include "runtime/cuda/library/cudnn_graph.h"

#include <algorithm>

namespace unity::cuda {
namespace {

template <class T>
std::vector<T> read(const Descriptor& d, cudnnBackendAttributeName_t name, std::int64_t most) {
  std::vector<T> values(static_cast<std::size_t>(most));
  std::int64_t count = 0;
  UNITY_LIBRARY_CHECK(cudnnBackendGetAttribute(d.get(), name, detail::kAttributeType<T>, most, &count, values.data()));
  values.resize(static_cast<std::size_t>(std::min(count, most)));
  return values;
}

// Descriptors that cuDNN fills: `type` says of what kind they are.
std::vector<Descriptor> read_descriptors(const Descriptor& d, cudnnBackendAttributeName_t name,
                                         cudnnBackendDescriptorType_t type, std::int64_t most) {
  std::vector<Descriptor> values;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < most; ++i) raw.push_back(values.emplace_back(type).get());
  std::int64_t count = 0;
  UNITY_LIBRARY_CHECK(cudnnBackendGetAttribute(d.get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &count, raw.data()));
  values.erase(values.begin() + std::min(count, most), values.end());
  return values;
}

std::vector<Descriptor> propose(const PlanTarget& target, const Descriptor& graph, cudnnBackendHeurMode_t mode) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph).set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (target.properties) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.properties);
  heuristics.finalize();
  std::int64_t count = 0;
  UNITY_LIBRARY_CHECK(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr));
  if (count == 0) return {};
  return read_descriptors(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, count);
}

// Why the limits rule an engine out.
std::optional<std::string> excluded(const Descriptor& engine, const PlanLimits& limits) {
  auto notes =
      read<cudnnBackendNumericalNote_t>(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  auto has = [&](cudnnBackendNumericalNote_t note) {
    return std::find(notes.begin(), notes.end(), note) != notes.end();
  };
  if (limits.deterministic && has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return "not deterministic";
  if (has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)) return "sums in less than f32";
  if (has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) return "rounds its operands";
  if (limits.exact && has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)) return "uses tensor cores";
  if (limits.exact && (has(CUDNN_NUMERICAL_NOTE_WINOGRAD) || has(CUDNN_NUMERICAL_NOTE_FFT)))
    return "transforms its operands";
  return std::nullopt;
}

}  // namespace

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) : raw_(std::make_shared<Raw>()) {
  UNITY_LIBRARY_CHECK(cudnnBackendCreateDescriptor(type, &raw_->handle));
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, const Descriptor& value) {
  return set(name, std::vector{value});
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, const std::vector<Descriptor>& values) {
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const Descriptor& d : values) {
    raw.push_back(d.get());
    raw_->attributes.push_back(d.raw_);
  }
  UNITY_LIBRARY_CHECK(cudnnBackendSetAttribute(get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                               static_cast<std::int64_t>(raw.size()), raw.data()));
  return *this;
}

Descriptor& Descriptor::finalize() {
  UNITY_LIBRARY_CHECK(cudnnBackendFinalize(get()));
  return *this;
}

cudnnDataType_t cudnn_type(DType type) {
  switch (type) {
    case DType::f32:
      return CUDNN_DATA_FLOAT;
    case DType::f64:
      return CUDNN_DATA_DOUBLE;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    default:
      UNITY_CHECK(false, "cuDNN is not given {}", to_string(type));
  }
}

Descriptor describe(const GraphTensor& t) {
  Descriptor d(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, t.id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, t.type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const std::int64_t>(t.sizes))
      .set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const std::int64_t>(t.strides))
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, t.alignment)
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, t.inner);
  if (t.by_value) d.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
  return d.finalize();
}

Descriptor pointwise(const PointwiseOp& p) {
  Descriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR), op(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  how.set(CUDNN_ATTR_POINTWISE_MODE, p.mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, p.precision);
  if (p.axis >= 0) how.set(CUDNN_ATTR_POINTWISE_AXIS, p.axis);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how.finalize())
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, p.x)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, p.y);
  if (p.b) op.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *p.b);
  if (p.t) op.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *p.t);
  return op.finalize();
}

Result<GraphPlan> GraphPlan::choose(const PlanTarget& target, const std::vector<Descriptor>& operations,
                                    const PlanLimits& limits) {
  return UNITY_TRY(candidates(target, operations, limits, 1))[0];
}

Result<std::vector<GraphPlan>> GraphPlan::candidates(const PlanTarget& target,
                                                     const std::vector<Descriptor>& operations,
                                                     const PlanLimits& limits, std::size_t most) {
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (target.handle) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, target.handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations).finalize();
  std::string reasons;
  std::vector<GraphPlan> plans;
  for (cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    std::vector<Descriptor> configurations;
    try {
      configurations = propose(target, graph, mode);
      if (configurations.empty()) {
        char reason[4096] = "";
        cudnnGetLastErrorString(reason, sizeof reason);
        reasons += fmt::format("; {}", reason);
      }
    } catch (const LibraryError& e) {
      if (!e.unsupported) throw;
      reasons += fmt::format("; {}", e.what());
    }
    for (const Descriptor& configuration : configurations) {
      if (plans.size() == most) break;
      Descriptor engine =
          read_descriptors(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1).at(0);
      std::string name = fmt::format("engine {}", read<std::int64_t>(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1).at(0));
      if (std::optional<std::string> why = excluded(engine, limits)) {
        reasons += fmt::format("; {}: {}", name, *why);
        continue;
      }
      try {
        Descriptor built(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        if (target.handle) built.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
        if (target.properties) built.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
        built.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration).finalize();
        GraphPlan plan(built);
        plan.workspace_ = read<std::int64_t>(built, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 1).at(0);
        plan.name_ = std::move(name);
        if (plan.workspace_ > limits.workspace)
          reasons += fmt::format("; {}: wants {} bytes", plan.name_, plan.workspace_);
        else
          plans.push_back(std::move(plan));
      } catch (const LibraryError& e) {
        // An engine that cannot be built after all is passed over, whatever its reason: others follow.
        reasons += fmt::format("; {}: {}", name, e.what());
      } catch (const OutOfDeviceMemory& e) {
        reasons += fmt::format("; {}: {}", name, e.what());
      }
    }
    if (!plans.empty()) return plans;
  }
  return fail("no engine{}", reasons);
}

void GraphPlan::run(cudnnHandle_t handle, std::span<const std::int64_t> ids, std::span<void* const> data,
                    void* workspace) const {
  Descriptor arguments(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  arguments.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, data)
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace)
      .finalize();
  UNITY_LIBRARY_CHECK(cudnnBackendExecute(handle, plan_.get(), arguments.get()));
}

}  // namespace unity::cuda
