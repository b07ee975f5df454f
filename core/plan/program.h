// A Program: per device, the ordered compute, communication and update tasks of one training iteration (or of several,
// repeat.h), with their dependencies and buffers. There is exactly one lowering (lower.h) and two executors: the
// simulator and the runtime.
//
// Order: tasks stand in one global order that respects dependencies; each stream of each device runs its tasks in that
// order. Hence no executor that follows it can deadlock: the unfinished task with the smallest id can always run.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/hash.h"
#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/machine/collectives.h"
#include "core/ops/operator.h"
#include "core/plan/optimizer.h"

namespace unity {

class Chain;

enum class BufferCategory : std::uint8_t { weight, gradient, optimizer_state, activation, input };
std::string_view to_string(BufferCategory category);

// A logical tensor of the program: a value of the PCG, a gradient, an optimizer state.
struct ProgramTensor {
  std::string name;
  Dims dims;
  DType dtype = DType::f32;
  OriginId origin;
  int leaf = -1;                // weights and inputs: index into Program::leaves
  bool full_precision = false;  // held in f32 in a run in bf16, too, though nothing in this program says so
};

// A weight or input of the model.
struct ProgramLeaf {
  std::string name;
  const Operator* op = nullptr;  // input or weight
  Attributes attributes;         // of the leaf; initial_weight() reads them
  OriginId origin;
};

// A dense block of a logical tensor on one device.
struct Buffer {
  std::int32_t tensor = -1;
  DeviceId device;
  Box box;
  BufferCategory category = BufferCategory::activation;
  std::int32_t partial = 0;  // which summand, where the tensor is held as partial sums
  bool on_host = false;      // in the memory of the device's host; only copies on the copy stream use it
  bool staged = false;       // an optimizer state: on the device for the update only, else on the host; not persistent
};

enum class TaskKind : std::uint8_t {
  compute,      // operands: the operator's inputs, then its outputs (a shape-only input is not read)
  copy,         // operands: source, target; the box is written in the target
  accumulate,   // operands: source, target; target[box] += source[box]
  zero,         // operands: target; all of it
  communicate,  // see Communication
  update,       // operands: weight, gradient, then optimizer states: the optimizer's step on this shard. With an op,
                // a gradient of tables: weight, then that operator's ids and dy (row_updates.h)
};
std::string_view to_string(TaskKind kind);

enum class Phase : std::uint8_t { forward, backward, update };
std::string_view to_string(Phase phase);

enum class Stream : std::uint8_t { compute, communication, copy };
std::string_view to_string(Stream stream);

struct Task {
  TaskKind kind = TaskKind::compute;
  Phase phase = Phase::forward;
  Stream stream = Stream::compute;
  std::uint8_t iteration = 0;  // of Program::iterations
  DeviceId device;             // communicate: of the first participant
  std::int32_t op = -1;        // compute: index into Program::ops; communicate: into Program::communications;
                               // copy and accumulate: into Program::boxes; update: -1, or as compute
  std::uint32_t operands_begin = 0, operands_end = 0;          // in Program::operands
  std::uint32_t dependencies_begin = 0, dependencies_end = 0;  // in Program::dependencies
  std::int32_t micro = 0;                                      // micro-batch
  double flops = 0;
  double bytes = 0;  // memory traffic: operands read and written
};

// An operator application shared by the tasks of its grid.
struct ProgramOp {
  const Operator* op = nullptr;
  Attributes attributes;
  OriginId origin;
  std::string name;
  std::uint32_t inputs = 0;      // number of input operands
  std::vector<bool> shape_only;  // per input
  // `op`, where it is a chain of operators (chain.h), with the origin and the name of the first; else null.
  std::shared_ptr<const Chain> chain = nullptr;
};

enum class CollectiveKind : std::uint8_t {
  send,       // participant 0 -> 1
  broadcast,  // root 0 -> all
  reduce,     // all -> root 0
  all_reduce,
  all_gather,      // participant i contributes piece i
  reduce_scatter,  // participant i receives piece i
  all_to_all,      // transfers as listed
};
std::string_view to_string(CollectiveKind kind);

struct Participant {
  DeviceId device;
  BufferId send;  // invalid: contributes nothing (broadcast: not the root; reduce: a root without a summand of its own)
  BufferId receive;  // invalid: receives nothing (reduce: not the root)
  // all_gather, reduce_scatter: this participant's piece. send, broadcast, reduce, all_reduce: the box moved (the same
  // for all).
  Box piece;
};

// all_to_all: from participant `from` to participant `to` (which may be the same: a local copy).
struct Exchange {
  std::int32_t from = 0, to = 0;
  Box box;
  std::int32_t part = 0;  // of the communication (Communication::joined)
};

// How the participants of a Communication pass on its data (collective_algorithms.h).
struct CommunicationAlgorithm {
  std::optional<CollectiveAlgorithm> name;  // binomial or hierarchical; none: the plain one of the kind
  // Hierarchical: so many participants after one another are of one node, and in how many chunks the data go.
  std::int32_t devices_per_node = 1, chunks = 1;
  bool operator==(const CommunicationAlgorithm&) const = default;
};

// One collective over a group of devices. Send and receive may be the same buffer in an all_reduce. Every box is in the
// coordinates of the logical tensor. Received data overwrite (never add to) the box in the receive buffer; reductions
// add up in the order of the algorithm (see runtime/comm).
struct Communication {
  CollectiveKind kind = CollectiveKind::send;
  Monoid monoid = Monoid::sum;
  std::vector<Participant> participants;
  std::vector<Exchange> exchanges;
  DType dtype = DType::f32;
  CommunicationAlgorithm algorithm;
  std::string name;  // of the tensor moved
  // Further tensors that the same call moves (join_communications.h), but for all_gather: for each, its
  // participants, the same devices in the same order. What they compute is what calls of their own would, bit for bit.
  std::vector<std::vector<Participant>> joined;

  std::size_t part_count() const { return 1 + joined.size(); }
  const std::vector<Participant>& part(std::size_t i) const { return i == 0 ? participants : joined[i - 1]; }
};

// Elements of the tensor pieces that it moves, of all parts: of the whole piece for all_reduce, broadcast, reduce and
// send, of all participants' pieces for all_gather and reduce_scatter, of all exchanges for all_to_all.
std::int64_t elements_moved(const Communication& communication);

// Bytes that leave their source devices: ring algorithms for n participants and S bytes (of the whole tensor piece):
// all_reduce 2(n-1)S, all_gather and reduce_scatter (n-1)S, broadcast, reduce (n-1)S, send S, all_to_all what crosses.
Bytes communication_bytes(const Communication& communication);

// Where an output of the PCG (loss, logits) ends up: add up partials of copy 0.
struct ProgramOutput {
  std::string name;
  Dims dims;
  std::vector<BufferId> buffers;  // copy 0 only: all summands and shards
  int iteration = 0;
};

class Program {
 public:
  std::string name;
  int devices = 1;
  int iterations = 1;
  OptimizerSpec optimizer;
  std::vector<ProgramTensor> tensors;
  std::vector<ProgramLeaf> leaves;
  std::vector<ProgramOp> ops;
  std::vector<Buffer> buffers;
  std::vector<Communication> communications;
  std::vector<Box> boxes;
  std::vector<Task> tasks;
  std::vector<BufferId> operands;
  std::vector<TaskId> dependencies;
  std::vector<ProgramOutput> outputs;  // by iteration, the loss first

  std::span<const BufferId> operands_of(const Task& t) const {
    return {operands.data() + t.operands_begin, operands.data() + t.operands_end};
  }
  std::span<const TaskId> dependencies_of(const Task& t) const {
    return {dependencies.data() + t.dependencies_begin, dependencies.data() + t.dependencies_end};
  }
  const Buffer& buffer(BufferId id) const { return buffers[id.index()]; }
  const ProgramTensor& tensor_of(BufferId id) const {
    return tensors[static_cast<std::size_t>(buffers[id.index()].tensor)];
  }
  Bytes bytes_of(BufferId id) const { return {buffer(id).box.elements() * size_of(tensor_of(id).dtype)}; }
  // A copy between the memory of a device and that of its host.
  bool copies_to_host(const Task& t) const;
  bool copies_from_host(const Task& t) const;
  std::string task_name(TaskId id) const;  // "matmul encoder.3.attention.query", "all_reduce ...gradient"

  // The devices a task occupies: one, or the participants of a communication.
  std::vector<DeviceId> devices_of(TaskId id) const;
  Bytes communicated() const;  // sum of communication_bytes
};

// By task id: "matmul layer.0.matmul", and what it is counted under: "forward matmul", "backward all_reduce", "update
// sgd".
std::vector<std::string> task_names(const Program& program);
std::vector<std::string> task_groups(const Program& program);

// Buffer life within an iteration, as tasks in global order: first writer and last reader. Weights, optimizer states,
// inputs and outputs live throughout (persistent).
struct BufferLife {
  TaskId first, last;
  bool persistent = false;
};
std::vector<BufferLife> buffer_lives(const Program& program);
std::vector<bool> persistent_buffers(const Program& program);  // by buffer: BufferLife::persistent

// Checks order, dependencies, operands and boxes: what lowering ends with.
Result<void> check_program(const Program& program);

Hash program_hash(const Program& program);

}  // namespace unity
