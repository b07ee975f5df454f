// Where the CUDA backend's devices are, their memory, and what each task enqueues.
#include <algorithm>
#include <cstring>
#include <limits>

#include "core/base/text.h"
#include "core/ops/chain.h"
#include "core/plan/pieces_in_words.h"
#include "core/plan/row_updates.h"
#include "runtime/cuda/alignment.h"
#include "runtime/cuda/blocks.h"
#include "runtime/cuda/call.h"
#include "runtime/cuda/chain.h"
#include "runtime/cuda/cuda_backend.h"
#include "runtime/cuda/library/cublas_shapes.h"

namespace unity::cuda {
namespace {

// In which type its tensors are held.
DType moved_type(const Communication& c, const std::function<DType(BufferId)>& held) {
  DType type = DType::f32;
  for (const Participant& p : c.participants)
    if (p.send.valid()) type = held(p.send);
  return type;
}

Math math_of(Precision precision) {
  return precision == Precision::tf32 ? Math::tf32 : precision == Precision::bf16 ? Math::bf16 : Math::f32;
}

std::string what_fits(std::int64_t limit) {
  if (limit <= 0) return "take a smaller batch, or more devices";
  return fmt::format("a search with --memory-limit '{}' keeps to what is there", to_string(Bytes{limit}));
}

}  // namespace

std::string CudaBackend::describe(TaskId id) const {
  const Task& task = program_.tasks[id.index()];
  if (task.kind == TaskKind::communicate) {
    const Communication& c = program_.communications[static_cast<std::size_t>(task.op)];
    return fmt::format("task {} ({}) among devices {} of {}", id, program_.task_name(id),
                       fmt::join(program_.devices_of(id), ", "),
                       pieces_in_words(c, moved_type(c, [this](BufferId b) { return held(b); })));
  }
  std::string shapes;
  for (BufferId b : program_.operands_of(task))
    shapes += fmt::format("{}{}[{}]", shapes.empty() ? "" : ", ", to_string(held(b)),
                          fmt::join(program_.buffer(b).box.extent, ", "));
  return fmt::format("task {} ({}) on device {} of {}", id, program_.task_name(id), task.device, shapes);
}

// By device of this process. What the node's other processes see decides, too.
std::vector<std::size_t> CudaBackend::gpus_of_devices(const std::vector<Gpu>& gpus, bool one) const {
  if (one) return std::vector<std::size_t>(static_cast<std::size_t>(processes_.count(program_.devices)), 0);
  std::vector<std::uint64_t> seen = {static_cast<std::uint64_t>(processes_.node()),
                                     static_cast<std::uint64_t>(processes_.count(program_.devices))};
  for (const Gpu& gpu : gpus) seen.push_back(gpu.identity);
  std::vector<GpuView> node;
  std::size_t self = 0;
  auto all = processes_.all_gather(std::as_bytes(std::span(seen)), "the GPUs that it sees");
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    std::vector<std::uint64_t> theirs(all[rank].size() / sizeof(std::uint64_t));
    std::memcpy(theirs.data(), all[rank].data(), theirs.size() * sizeof(std::uint64_t));
    if (theirs.at(0) != seen[0]) continue;
    if (static_cast<int>(rank) == processes_.rank()) self = node.size();
    node.push_back({{theirs.begin() + 2, theirs.end()}, static_cast<int>(theirs.at(1))});
  }
  return share_gpus(node, self);
}

// Which GPU each device of the program is on, those of other processes too.
void CudaBackend::place(bool one_device) {
  std::vector<Gpu> gpus = find_gpus();
  int runtime = 0;
  UNITY_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  if (processes_.size() > 1) {
    processes_.require_equal("UNITY_CUDA_LAYOUT, UNITY_CUDA_EAGER and UNITY_CUDA_SYNC, expected the same everywhere",
                             in_words(ways_));
    processes_.require_equal(
        "the versions of CUDA's libraries, expected the same everywhere",
        fmt::format("CUDA {}.{}, {}, {}", runtime / 1000, runtime % 1000 / 10, nccl_version(), library_versions()));
  }
  struct Place {
    std::int32_t device = 0, gpu = 0;
    Hash identity = 0;
  };
  std::vector<Place> mine;
  std::vector<std::size_t> shares = gpus_of_devices(gpus, one_device);
  for (int d = 0; d < program_.devices; ++d) {
    if (!processes_.has(DeviceId(d), program_.devices)) continue;
    const Gpu& gpu = gpus[shares[mine.size()]];
    mine.push_back({d, gpu.ordinal, gpu.identity});
    devices_[d].gpu = gpu.ordinal;
    OnGpu on(gpu.ordinal);
    require_code(gpu);
  }
  OnGpu::choose(devices_.begin()->second.gpu);
  placements_.resize(static_cast<std::size_t>(program_.devices));
  auto all = processes_.all_gather(std::as_bytes(std::span(mine)));
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    for (std::size_t i = 0; i < all[rank].size() / sizeof(Place); ++i) {
      Place p;
      std::memcpy(&p, all[rank].data() + i * sizeof p, sizeof p);
      placements_[static_cast<std::size_t>(p.device)] = {static_cast<int>(rank), p.gpu, p.identity};
    }
}

void CudaBackend::allocate(const BackendOptions& options) {
  std::vector<Bytes> bytes;
  for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
    BufferId id(static_cast<std::int64_t>(b));
    bytes.push_back({program_.buffers[b].box.elements() * size_of(held(id))});
  }
  plan_ = plan_memory(program_, bytes, {.alignment = kAlignment, .share = options.share_memory});
  for (const auto& [d, device] : devices_) {
    OnGpu on(device.gpu);
    std::size_t free = 0, total = 0;
    UNITY_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    Room& room = rooms_[device.gpu];
    room.bytes = static_cast<std::int64_t>(free), ++room.devices;
  }
  for (auto& [d, device] : devices_) {
    OnGpu on(device.gpu);
    device.arena = reserve(d, plan_.arenas[static_cast<std::size_t>(d)].count, "the plan's buffers");
    for (Lane& lane : device.lanes) lane.stream = make_stream();
    LibraryOptions of_libraries{.math = math_of(precision_), .choice = ways_.choice};
    device.workspace = reserve(d, of_libraries.workspace, "the workspace of CUDA's libraries", Memory::Contents::any);
    device.beyond_arena += of_libraries.workspace;
    device.libraries = std::make_unique<Libraries>(of_libraries, device.workspace.data());
    if (Bytes host = plan_.host_arenas[static_cast<std::size_t>(d)]; host.count > 0)
      device.host_arena = reserve_on_host(d, host.count);
    if (auto [gpu, fresh] = gpus_.try_emplace(device.gpu); fresh)
      gpu->second = {device.stream(unity::Stream::compute), Memory(static_cast<std::int64_t>(step_values_bytes())),
                     make_pinned(step_values_bytes()), make_event(false), make_event(true)};
  }
  for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
    BufferId id(static_cast<std::int64_t>(b));
    const Buffer& buffer = program_.buffers[b];
    if (!rounded_.has_copy[b] || !here(buffer.device)) continue;
    OnGpu on(devices_.at(buffer.device.value).gpu);
    std::int64_t bytes = buffer.box.elements() * size_of(DType::bf16);
    shadows_[id] = reserve(buffer.device.value, bytes, "weights rounded to bf16");
    devices_.at(buffer.device.value).beyond_arena += bytes;
  }
}

Memory CudaBackend::reserve(std::int64_t device, std::int64_t bytes, std::string_view what,
                            Memory::Contents contents) const {
  try {
    return Memory(bytes, contents);
  } catch (const OutOfDeviceMemory&) {
    cudaGetLastError();  // or the next call would report it
    const LogicalDevice& of = devices_.at(device);
    std::size_t free = 0, total = 0;
    UNITY_CUDA_CHECK(cudaMemGetInfo(&free, &total));
    const std::int64_t limit = limit_of(device, of.arena.data() ? bytes : 0);
    throw DoesNotFit(
        fmt::format("device {} needs {} of memory for {}{}, but GPU {} has {} free of {}; {}", device,
                    to_string(Bytes{bytes}), what,
                    of.arena.data() ? fmt::format(" beside {} of the plan's buffers",
                                                  to_string(plan_.arenas[static_cast<std::size_t>(device)]))
                                    : std::string(),
                    of.gpu, to_string(Bytes{static_cast<std::int64_t>(free)}),
                    to_string(Bytes{static_cast<std::int64_t>(total)}), what_fits(limit)),
        limit);
  }
}

std::int64_t CudaBackend::limit_of(std::int64_t device, std::int64_t bytes) const {
  const LogicalDevice& of = devices_.at(device);
  const auto room = rooms_.find(of.gpu);
  if (room == rooms_.end()) return 0;
  return std::max<std::int64_t>(0, room->second.bytes / room->second.devices / 10 * 9 - of.beyond_arena - bytes);
}

DoesNotFit CudaBackend::too_large(const std::string& what) const {
  cudaGetLastError();  // or the next call would report it
  // CUDA does not say of which GPU: the one with the least left. The plan's buffers had room, others had not.
  std::int64_t limit = std::numeric_limits<std::int64_t>::max(), least = limit;
  std::string gpu = "GPUs have no room for what CUDA itself needs";
  for (const auto& [d, device] : devices_) {
    std::size_t free = 0, total = 0;
    if (cudaSetDevice(device.gpu) != cudaSuccess) continue;
    OnGpu on(device.gpu);
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) continue;
    const std::int64_t arena = device.arena.data() ? plan_.arenas[static_cast<std::size_t>(d)].count : 0;
    limit = std::min({limit, limit_of(d, 0), arena / 10 * 9});
    if (static_cast<std::int64_t>(free) >= least) continue;
    least = static_cast<std::int64_t>(free);
    gpu = fmt::format("GPU {} has {} free of {}{}", device.gpu, to_string(Bytes{least}),
                      to_string(Bytes{static_cast<std::int64_t>(total)}),
                      arena > 0 ? fmt::format(", beside {} of the plan's buffers", to_string(Bytes{arena})) : "");
  }
  cudaGetLastError();
  if (limit == std::numeric_limits<std::int64_t>::max()) limit = 0;
  return {fmt::format("memory ran out: {}; {}; {}", what, gpu, what_fits(limit)), limit};
}

PinnedHandle CudaBackend::reserve_on_host(std::int64_t device, std::int64_t bytes) const {
  try {
    PinnedHandle pinned = make_pinned(static_cast<std::size_t>(bytes));
    std::memset(pinned.get(), 0, static_cast<std::size_t>(bytes));
    return pinned;
  } catch (const OutOfPinnedMemory&) {
    cudaGetLastError();  // or the next call would report it
    throw_input_error(
        "device {} needs {} of pinned memory on the host for what the plan's schedule moves there, which the host does "
        "not give; expected less of --offload, or more memory",
        device, to_string(Bytes{bytes}));
  }
}

void CudaBackend::prepare_compute(Work& work, const Task& task) {
  const ProgramOp& op = program_.ops[static_cast<std::size_t>(task.op)];
  auto ids = program_.operands_of(task);
  std::vector<Operand> operands;
  How how;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    Operand& o = operands.emplace_back(operand(ids[i], i < op.inputs));
    if (i < op.inputs && op.shape_only[i]) o.data = nullptr;
    if (op.chain || !channels_last(ids[i]) || !is_image_operator(*op.op)) continue;
    for (Dims* dims : {&o.extent, &o.offset, &o.global}) *dims = from_channels_last(*dims);
    how.channels_last = true;
  }
  // What is broadcast over images, such as a bias for each channel.
  if ((op.chain || is_elementwise(*op.op)) &&
      std::any_of(ids.begin(), ids.end(), [&](BufferId b) { return channels_last(b); }))
    for (Operand& o : operands) {
      if (o.extent.size() == 4) continue;
      for (Dims* dims : {&o.extent, &o.global}) *dims = to_channels_last(*dims);
      o.offset = Dims(4, 0);
    }
  work.enqueue = op.chain ? chain_enqueuer(work, *op.chain, operands)
                          : enqueuer(work, *op.op, op.attributes, op.origin, std::move(operands), op.inputs, how);
}

std::function<void()> CudaBackend::enqueuer(const Work& work, const Operator& op, const Attributes& attributes,
                                            OriginId origin, std::vector<Operand> operands, std::size_t inputs,
                                            const How& how) {
  std::span<const Operand> all(operands);
  LogicalDevice& device = devices_.at(work.device);
  Lane& lane = lane_of(work);
  Prepared prepared = device.libraries->prepare(op, attributes, all.first(inputs), all.subspan(inputs), how.epilogue,
                                                how.channels_last);
  LibraryKernel kernel = prepared.kernel;
  if (!kernel) {
    if (how.epilogue.any()) return {};
    Kernel own = find_kernel(op);
    UNITY_CHECK(own, "the cuda backend has no kernel for {}", op.name());
    kernel = own;
  }
  lane.scratch_bytes = std::max(lane.scratch_bytes, prepared.scratch);
  return [this, kernel, operands = std::move(operands), inputs, &op, &attributes, origin, &lane, device = work.device,
          step = step_values(work), last = how.channels_last] {
    std::function<void*(std::int64_t)> scratch = [&](std::int64_t bytes) -> void* {
      if (bytes > lane.scratch_bytes) {
        UNITY_CHECK(!capturing_, "scratch of {} bytes while a graph is captured", bytes);
        wait_for_all();
        lane.scratch = {};
        lane.scratch = reserve(device, bytes, "scratch of " + op.name(), Memory::Contents::any);
        devices_.at(device).beyond_arena += bytes - std::exchange(lane.scratch_bytes, bytes);
      }
      return lane.scratch.data();
    };
    std::span<const Operand> view(operands);
    kernel({attributes, view.first(inputs), view.subspan(inputs),
            RandomKey(seed_).with(static_cast<std::uint64_t>(origin.value)), step, lane.stream.get(), scratch, last});
  };
}

// A product that leads the chain, with as much of it as the library computes; then one kernel for the rest.
std::function<void()> CudaBackend::chain_enqueuer(const Work& work, const Chain& chain,
                                                  const std::vector<Operand>& operands) {
  std::vector<DType> held;
  for (const ChainStep& step : chain.steps()) held.push_back(types_[static_cast<std::size_t>(step.tensor)]);
  Stream stream = lane_of(work).stream.get();
  if (!chain.led_by_product()) return [kernel = chain_kernel(chain, operands, held), stream] { kernel(stream); };

  const ChainStep& product = chain.steps()[0];
  // Where the result of a step goes that others read, or the last of them; if the types differ, to a place of its own.
  auto result_of = [&](std::size_t step) {
    const int kept = chain.steps()[step].kept;
    Operand result = kept == ChainStep::kNotKept ? operands.back() : operands[static_cast<std::size_t>(kept)];
    if (result.dtype != held[step]) {
      result.dtype = held[step];
      const std::int64_t bytes = result.elements() * size_of(result.dtype);
      products_.push_back(reserve(work.device, bytes, "a product between operators", Memory::Contents::any));
      devices_.at(work.device).beyond_arena += bytes;
      result.data = products_.back().data();
    }
    return result;
  };
  auto lead = [&](const EpilogueSteps& with, const Operand& result) {
    std::vector<Operand> of;
    for (int i : product.operands) of.push_back(operands[static_cast<std::size_t>(i)]);
    if (with.bias >= 0) of.push_back(operands[static_cast<std::size_t>(with.bias)]);
    const std::size_t inputs = of.size();
    of.push_back(result);
    return enqueuer(work, *product.op, product.attributes, product.origin, std::move(of), inputs,
                    {.epilogue = {with.bias >= 0, with.relu}});
  };
  EpilogueSteps with = epilogue_of(chain, operands);
  Operand result = result_of(with.steps - 1);
  std::function<void()> first = lead(with, result);
  if (!first) {
    with = {}, result = result_of(0);
    first = lead(with, result);
  }
  if (with.steps == chain.steps().size()) return first;
  return [first, kernel = chain_kernel(chain, operands, held, {with.steps, result}), stream] {
    first();
    kernel(stream);
  };
}

// By the GPU's copy engines, beside what its other streams do. Whole buffers, as offload.h makes no others.
void CudaBackend::prepare_host_copy(Work& work, const Task& task) {
  auto ids = program_.operands_of(task);
  const Buffer &from = program_.buffer(ids[0]), &to = program_.buffer(ids[1]);
  UNITY_CHECK(from.box == to.box && from.box == program_.boxes[static_cast<std::size_t>(task.op)] &&
                  held(ids[0]) == held(ids[1]),
              "{}: found a part of a buffer, or two types", describe(work.task));
  work.enqueue = [stream = lane_of(work).stream.get(), target = data(ids[1]), source = data(ids[0]),
                  bytes = static_cast<std::size_t>(from.box.elements() * size_of(held(ids[0]))),
                  kind = to.on_host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice] {
    UNITY_CUDA_CHECK(cudaMemcpyAsync(target, source, bytes, kind, stream));
  };
}

void CudaBackend::prepare_update(Work& work, const Task& task) {
  auto ids = program_.operands_of(task);
  Lane& lane = lane_of(work);
  const StepValues* values = step_values(work);
  if (is_row_update(task)) {
    RowsStep step{operand(ids[0], false), operand(ids[1], true), operand(ids[2], true), shadow(ids[0]),
                  program_.optimizer.learning_rate * row_update_factor(program_, task)};
    work.rows = step;
    work.enqueue = update_rows_of({step}, lane, values);
    return;
  }
  ParameterShard shard;
  shard.weight = data(ids[0]);
  shard.gradient = data(ids[1]);
  for (std::size_t s = 0; s + 2 < ids.size(); ++s) shard.states[s] = data(ids[s + 2]);
  shard.rounded = shadow(ids[0]);
  shard.elements = program_.buffer(ids[0]).box.elements();
  shard.half_gradient = held(ids[1]) == DType::bf16;
  work.shard = shard;
  work.enqueue = update_of({shard}, held(ids[0]), lane.stream.get(), values);
}

// What kernels read while the program runs.
const void* CudaBackend::keep_list(std::span<const std::byte> list, Stream stream) {
  const auto bytes = static_cast<std::int64_t>(list.size());
  if (bytes == 0) return nullptr;
  lists_.emplace_back(bytes);
  UNITY_CUDA_CHECK(cudaMemcpyAsync(lists_.back().data(), list.data(), list.size(), cudaMemcpyHostToDevice, stream));
  UNITY_CUDA_CHECK(cudaStreamSynchronize(stream));
  return lists_.back().data();
}

// One launch for all these shards, which must be ready by then.
std::function<void()> CudaBackend::update_of(std::vector<ParameterShard> shards, DType type, Stream stream,
                                             const StepValues* values) {
  ShardList list;
  list.chunks = number_chunks(shards);
  list.count = static_cast<int>(shards.size());
  list.shards = static_cast<const ParameterShard*>(keep_list(std::as_bytes(std::span(shards)), stream));
  const OptimizerSpec& how = program_.optimizer;
  if (how.name == "sgd") return [=, &how] { sgd_step(stream, list, how, values, type); };
  return [=, &how] { adam_step(stream, list, how, values, type); };
}

// The same of updates by rows.
std::function<void()> CudaBackend::update_rows_of(const std::vector<RowsStep>& steps, Lane& lane,
                                                  const StepValues* values) {
  RowsSteps all(steps);
  lane.scratch_bytes = std::max(lane.scratch_bytes, all.scratch());
  return [all, values, list = keep_list(all.list(), lane.stream.get()), &lane] {
    all.run(lane.stream.get(), list, values, lane.scratch.data());
  };
}

// A work for each participant of this process; what is enqueued is the last one's.
void CudaBackend::prepare_communication(std::size_t index, TaskId id) {
  const Communication& c = program_.communications[index];
  std::vector<std::vector<LocalParticipant>> mine(c.part_count());
  const DType type = moved_type(c, [this](BufferId b) { return held(b); });
  for (std::size_t i = 0; i < c.participants.size(); ++i) {
    DeviceId device = c.participants[i].device;
    if (!here(device)) continue;
    Lane& lane = devices_.at(device.value).lane(unity::Stream::communication);
    for (std::size_t k = 0; k < mine.size(); ++k) {
      const Participant& p = c.part(k)[i];
      LocalParticipant local;
      local.index = i;
      if (p.send.valid()) local.send = data(p.send), local.send_box = program_.buffer(p.send).box;
      if (p.receive.valid()) local.receive = data(p.receive), local.receive_box = program_.buffer(p.receive).box;
      local.stream = lane.stream.get(), local.gpu = devices_.at(device.value).gpu;
      mine[k].push_back(local);
    }
    works_.push_back(
        {id, device.value, unity::Stream::communication, {}, collectives_->on_one_gpu(index), {}, {}, {}, {}, {}});
    lane.scratch_bytes = std::max(lane.scratch_bytes, collectives_->scratch_bytes(index, type));
  }
  if (mine[0].empty()) return;
  const LocalParticipant& first = mine[0][0];
  std::vector<std::function<void()>> renewals;
  for (BufferId b : rounded_.renewed[id.index()]) {
    auto device = devices_.find(program_.buffer(b).device.value);
    if (device == devices_.end()) continue;
    bool one = collectives_->on_one_gpu(index);
    renewals.push_back(renewal(b, one ? first.stream : device->second.stream(unity::Stream::communication)));
  }
  works_.back().enqueue = [this, index, type, mine, renewals, &c]() mutable {
    for (std::vector<LocalParticipant>& part : mine)
      for (LocalParticipant& p : part)
        p.scratch = devices_.at(c.participants[p.index].device.value).lane(unity::Stream::communication).scratch.data();
    collectives_->run(index, type, mine);
    for (const std::function<void()>& renew : renewals) renew();
  };
}

// Of a weight's rounded copy, by what is on its device.
std::function<void()> CudaBackend::renewal(BufferId weight, Stream stream) {
  const Box& box = program_.buffer(weight).box;
  return [stream, box, gpu = devices_.at(program_.buffer(weight).device.value).gpu, from = data(weight),
          to = shadow(weight)] {
    OnGpu on(gpu);
    copy_block(stream, {to, box, DType::bf16}, {from, box, DType::f32}, box);
  };
}

// The works of one task, behind the others.
void CudaBackend::prepare(TaskId id) {
  const Task& task = program_.tasks[id.index()];
  if (task.kind == TaskKind::communicate) {
    prepare_communication(static_cast<std::size_t>(task.op), id);
    return;
  }
  if (!here(task.device)) return;
  OnGpu on(devices_.at(task.device.value).gpu);
  Work work{id, task.device.value, task.stream, {}, false, {}, {}, {}, {}, {}};
  auto ids = program_.operands_of(task);
  Stream stream = lane_of(work).stream.get();
  auto box = [&](std::size_t i) { return program_.buffer(ids[i]).box; };
  switch (task.kind) {
    case TaskKind::compute:
      prepare_compute(work, task);
      break;
    case TaskKind::copy:
      if (program_.copies_to_host(task) || program_.copies_from_host(task)) {
        prepare_host_copy(work, task);
        break;
      }
      work.copy = flat_copy(task);
      work.enqueue = [=, this, b = program_.boxes[static_cast<std::size_t>(task.op)], from = operand(ids[0], false),
                      to = operand(ids[1], false), from_box = box(0), to_box = box(1)] {
        copy_block(stream, {to.data, to_box, to.dtype}, {from.data, from_box, from.dtype}, b);
      };
      break;
    case TaskKind::accumulate:
      work.enqueue = [=, this, b = program_.boxes[static_cast<std::size_t>(task.op)], from = operand(ids[0], false),
                      to = operand(ids[1], false), from_box = box(0), to_box = box(1)] {
        accumulate_block(stream, {to.data, to_box, to.dtype}, {from.data, from_box, from.dtype}, b);
      };
      break;
    case TaskKind::zero:
      work.enqueue = [=, target = operand(ids[0], false)] {
        zero_block(stream, target.data, target.elements(), target.dtype);
      };
      break;
    case TaskKind::update:
      prepare_update(work, task);
      break;
    case TaskKind::communicate:
      break;
  }
  const std::vector<BufferId>& renewed = rounded_.renewed[id.index()];
  if (!renewed.empty()) work.copy.reset();
  for (BufferId b : renewed)
    work.enqueue = [enqueue = std::move(work.enqueue), renew = renewal(b, stream)] { enqueue(), renew(); };
  works_.push_back(std::move(work));
}

// NCCL's kernels wait on a GPU for those on others, and neither streams nor graphs promise that two kernels of a GPU
// run side by side: if one GPU took two of them in one order and another in the other, neither would end. Of devices
// that share a GPU they follow one another, in the Program's order.
void CudaBackend::order_nccl() {
  std::map<int, std::size_t> last;  // by GPU
  for (std::size_t w = 0; w < works_.size(); ++w) {
    Work& work = works_[w];
    const Task& task = program_.tasks[work.task.index()];
    if (task.kind != TaskKind::communicate || collectives_->on_one_gpu(static_cast<std::size_t>(task.op))) continue;
    auto [before, first] = last.try_emplace(devices_.at(work.device).gpu, w);
    if (!first && works_[before->second].device != work.device) {
      work.after.push_back(before->second);
      works_[before->second].awaited = true;
    }
    before->second = w;
  }
}

void CudaBackend::prepare() {
  std::vector<std::vector<std::size_t>> works_of(program_.tasks.size());
  for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
    TaskId id(static_cast<std::int64_t>(t));
    const std::size_t first = works_.size();
    try {
      prepare(id);
    } catch (const InputError&) {
      throw;
    } catch (const OutOfDeviceMemory& e) {
      throw OutOfDeviceMemory(fmt::format("{}: {}", describe(id), e.what()));
    } catch (const std::exception& e) {
      throw std::runtime_error(fmt::format("{}: {}", describe(id), e.what()));
    }
    for (std::size_t w = first; w < works_.size(); ++w) works_of[t].push_back(w);
  }
  for (Work& work : works_)
    for (TaskId d : program_.dependencies_of(program_.tasks[work.task.index()]))
      for (std::size_t before : works_of[d.index()]) {
        Work& other = works_[before];
        if (other.device == work.device && other.lane == work.lane) continue;
        work.after.push_back(before);
        other.awaited = true;
      }
  order_nccl();
  join_works();
  events_.resize(works_.size());
  for (auto& [d, device] : devices_) {
    OnGpu on(device.gpu);
    for (Lane& lane : device.lanes) {
      if (lane.scratch_bytes == 0) continue;
      lane.scratch = reserve(d, lane.scratch_bytes, "scratch of its tasks", Memory::Contents::any);
      device.beyond_arena += lane.scratch_bytes;
    }
  }
  for (std::size_t w = 0; w < works_.size(); ++w)
    if (works_[w].awaited) {
      OnGpu on(devices_.at(works_[w].device).gpu);
      events_[w] = make_event(false);
    }
  LogicalDevice& first = devices_.begin()->second;
  OnGpu on(first.gpu);
  begin_ = make_event(false);
  for (auto& [d, device] : devices_)
    for (std::size_t l = 0; l < device.lanes.size(); ++l) {
      OnGpu its(device.gpu);
      ends_.push_back(make_event(false));
    }
}

}  // namespace unity::cuda
