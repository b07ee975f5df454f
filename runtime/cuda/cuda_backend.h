// The CUDA backend. Every logical device has a stream on its GPU for each of the Program's: compute, communication, and
// copies between the GPU's memory and pinned memory of the host, where buffers lie that wait there. Tasks are enqueued
// in the Program's order, and events make a stream wait for what another one does. The first iteration is enqueued task
// by task; the second is captured as a CUDA graph, which later ones launch, where that cannot hang (collective.h).
//
// prepare.cpp: where devices are, their memory, and what each task enqueues; join.cpp: small tasks in one launch;
// backend.cpp: iterations, values read and written.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/does_not_fit.h"
#include "core/plan/memory_plan.h"
#include "runtime/backend.h"
#include "runtime/cuda/blocks.h"
#include "runtime/cuda/collective.h"
#include "runtime/cuda/devices.h"
#include "runtime/cuda/image_layout.h"
#include "runtime/cuda/library/library.h"
#include "runtime/cuda/optimizers.h"
#include "runtime/cuda/resources.h"
#include "runtime/cuda/ways.h"
#include "runtime/held_types.h"

namespace unity::cuda {

// A stream with what its tasks share: they run one after another.
struct Lane {
  StreamHandle stream;
  Memory scratch;
  std::int64_t scratch_bytes = 0;  // what its tasks need
};

struct LogicalDevice {
  int gpu = 0;
  Memory arena;
  Memory workspace;               // of `libraries`
  std::int64_t beyond_arena = 0;  // bytes of rounded weights, workspace and scratch
  PinnedHandle host_arena;        // of its buffers on the host; null where there are none
  std::array<Lane, 3> lanes;      // by unity::Stream
  std::unique_ptr<Libraries> libraries;

  Lane& lane(unity::Stream which) { return lanes[static_cast<std::size_t>(which)]; }
  Stream stream(unity::Stream which) const { return lanes[static_cast<std::size_t>(which)].stream.get(); }
};

// What the logical devices of one GPU share.
struct SharedGpu {
  Stream stream = nullptr;   // the compute stream of the first of them
  Memory step_values;        // by iteration of the Program
  PinnedHandle next_values;  // what goes there before the next step
  EventHandle sent;          // they have
  EventHandle origin;        // from which the events of a traced step count
};

class CudaBackend final : public Backend {
 public:
  CudaBackend(const Program& program, Processes& processes, const BackendOptions& options)
      : ways_(ways_of_environment(options.precision)),
        layout_(image_layout(program, ways_.channels_last)),
        program_(layout_.program ? *layout_.program : program),
        processes_(processes),
        precision_(options.precision),
        types_(held_types(program_, options.precision)),
        rounded_(rounded_weights(program_, options.precision, types_)) {
    try {
      place(options.one_device);
      collectives_.emplace(program_, placements_, processes);  // before the rest: NCCL takes memory, too
      allocate(options);
      prepare();
    } catch (const OutOfDeviceMemory& error) {
      throw too_large(error.what());
    }
    open_channel();
  }

  ~CudaBackend() override;

  std::vector<Span> step(const StepInfo& info) override;
  void read(BufferId buffer, void* to) override;
  void write(BufferId buffer, const void* from) override;
  bool write_repeated(BufferId buffer, const void* from, std::int64_t count) override;
  std::vector<std::byte> held_form(BufferId buffer, std::vector<std::byte> values) const override;
  void write_held(BufferId buffer, const std::vector<std::byte>& values) override;
  bool leaves_host_free() const override { return true; }
  bool tracing_costs() const override { return true; }  // no graph, no joined updates
  std::vector<Bytes> memory() const override {
    std::vector<Bytes> bytes = plan_.arenas;
    for (const auto& [d, device] : devices_) bytes[static_cast<std::size_t>(d)].count += device.beyond_arena;
    return bytes;
  }

 private:
  // One task of this process's devices, ready to be enqueued.
  struct Work {
    TaskId task;
    std::int64_t device = 0;  // whose stream it is on
    unity::Stream lane = unity::Stream::compute;
    std::vector<std::size_t> after;  // works on other streams that it waits for
    bool awaited = false;            // by a work on another stream
    std::function<void()> enqueue;
    std::optional<ParameterShard> shard;  // of an update
    std::optional<RowsStep> rows;         // of an update by rows
    std::optional<FlatCopy> copy;         // of a copy of little memory
    std::function<void()> joined;         // in place of enqueue, when not traced: of several works at once
  };

  std::vector<std::size_t> gpus_of_devices(const std::vector<Gpu>& gpus, bool one) const;
  void place(bool one_device);
  void open_channel();
  void allocate(const BackendOptions& options);
  void write_first(BufferId buffer, const void* from, std::int64_t n);
  // InputError with what would fit, where there is too little.
  Memory reserve(std::int64_t device, std::int64_t bytes, std::string_view what,
                 Memory::Contents contents = Memory::Contents::zeros) const;
  PinnedHandle reserve_on_host(std::int64_t device, std::int64_t bytes) const;  // zeros; InputError
  // What is left for the plan's buffers, when all the rest is as large as it is now and `bytes`.
  std::int64_t limit_of(std::int64_t device, std::int64_t bytes) const;
  // Of memory that ran out otherwise, in the call that `what` tells of.
  DoesNotFit too_large(const std::string& what) const;
  void prepare();
  void prepare(TaskId id);
  void prepare_compute(Work& work, const Task& task);
  // Enqueues one operator, by a library or our own kernel; null where `epilogue` is more than the libraries do.
  struct How {
    Epilogue epilogue;
    bool channels_last = false;
  };
  std::function<void()> enqueuer(const Work& work, const Operator& op, const Attributes& attributes, OriginId origin,
                                 std::vector<Operand> operands, std::size_t inputs, const How& how);
  std::function<void()> chain_enqueuer(const Work& work, const Chain& chain, const std::vector<Operand>& operands);
  void prepare_host_copy(Work& work, const Task& task);
  void prepare_update(Work& work, const Task& task);
  const void* keep_list(std::span<const std::byte> list, Stream stream);
  std::function<void()> update_of(std::vector<ParameterShard> shards, DType type, Stream stream,
                                  const StepValues* values);
  std::function<void()> update_rows_of(const std::vector<RowsStep>& steps, Lane& lane, const StepValues* values);
  std::optional<FlatCopy> flat_copy(const Task& task);
  bool independent(const Work& first, const Work& second) const;
  void join(const std::vector<std::size_t>& run);
  void join_works();
  void order_nccl();
  void prepare_communication(std::size_t index, TaskId id);
  std::function<void()> renewal(BufferId weight, Stream stream);
  void enqueue(bool timed);
  GraphHandle capture(bool timed);
  void record_time(const EventHandle& event, Stream stream) const;
  void set_step_values(const StepInfo& info);
  void wait();
  cudaError_t wait_for(int gpu, Stream stream);
  void wait_for_all();
  void keep_for_ever();
  std::vector<Span> run_step(const StepInfo& info);

  bool channels_last(BufferId b) const {
    return layout_.channels_last[static_cast<std::size_t>(program_.buffer(b).tensor)];
  }
  DType held(BufferId b) const { return types_[static_cast<std::size_t>(program_.buffer(b).tensor)]; }
  bool here(DeviceId d) const { return devices_.contains(d.value); }
  void* data(BufferId b) {
    const Buffer& buffer = program_.buffer(b);
    const LogicalDevice& device = devices_.at(buffer.device.value);
    std::int64_t offset = plan_.offsets[b.index()];
    if (offset < 0) return nullptr;
    return buffer.on_host ? static_cast<std::byte*>(device.host_arena.get()) + offset : device.arena.at(offset);
  }
  // What compute tasks read in place of a weight (RoundedWeights), or null.
  BFloat16* shadow(BufferId b) {
    auto found = shadows_.find(b);
    return found == shadows_.end() ? nullptr : static_cast<BFloat16*>(found->second.data());
  }
  Operand operand(BufferId b, bool as_read_by_compute) {
    const Buffer& buffer = program_.buffer(b);
    UNITY_CHECK(!buffer.on_host, "buffer {} lies on the host, where only copies use it", b);
    Operand o{data(b), held(b), buffer.box.extent, buffer.box.offset, program_.tensor_of(b).dims};
    if (BFloat16* half = as_read_by_compute ? shadow(b) : nullptr) o.data = half, o.dtype = DType::bf16;
    return o;
  }
  Lane& lane_of(const Work& w) { return devices_.at(w.device).lane(w.lane); }
  // Of its iteration, on its GPU.
  const StepValues* step_values(const Work& w) const {
    const SharedGpu& gpu = gpus_.at(devices_.at(w.device).gpu);
    return static_cast<const StepValues*>(gpu.step_values.data()) + program_.tasks[w.task.index()].iteration;
  }
  std::size_t step_values_bytes() const { return static_cast<std::size_t>(program_.iterations) * sizeof(StepValues); }
  void copy(BufferId buffer, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
  std::string describe(TaskId id) const;

  const Ways ways_;
  const ImageLayout layout_;
  const Program& program_;  // as the layout has it
  Processes& processes_;
  Precision precision_;
  std::vector<DType> types_;  // by tensor
  RoundedWeights rounded_;
  std::vector<Placement> placements_;              // by device of the program
  std::map<std::int64_t, LogicalDevice> devices_;  // of this process
  MemoryPlan plan_;
  // Of a GPU: what was free at first, and how many devices of the program share it.
  struct Room {
    std::int64_t bytes = 0;
    int devices = 0;
  };
  std::map<int, Room> rooms_;
  std::map<BufferId, Memory> shadows_;
  std::optional<Collectives> collectives_;
  std::map<int, SharedGpu> gpus_;
  std::vector<Memory> lists_;     // of updates
  std::vector<Memory> products_;  // of chains, where they have no place of their own
  std::uint64_t seed_ = 0;
  std::vector<Work> works_;
  std::vector<EventHandle> events_;  // by work that is awaited
  EventHandle begin_;
  std::vector<EventHandle> ends_;                  // by lane
  std::vector<std::array<EventHandle, 2>> times_;  // by work: start and end, when traced
  std::array<GraphHandle, 2> graphs_;              // of an iteration, and of one that is traced
  bool capturing_ = false;
  int channel_ = -1;                        // of `processes_`, which it tells what is waited for
  std::atomic<std::int64_t> waits_in_{-1};  // the step that is waited for
  std::int64_t steps_ = 0;
};

}  // namespace unity::cuda
