// Movement of data between where a value is produced and where it is used. A value is held in pieces (a box of it, on a
// device, possibly one of several summands or copies). Given what consumers require, this finds what must move,
// recognises collectives (all-reduce, all-gather, reduce-scatter, all-to-all, broadcast, reduce, send), emits their
// tasks, and records each step, so that the backward pass can emit the adjoint of each:
//
//   all-gather <-> reduce-scatter    all-reduce <-> all-reduce    all-to-all <-> reversed    broadcast <-> reduce
//   send <-> send back and add       slice <-> add into the slice     local copy <-> add
//
// The parallelization operators of a PCG say what layouts and sums there are; movement needs only the layouts
// themselves.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/machine/topology.h"
#include "core/ops/box_index.h"
#include "core/plan/device_blocks.h"
#include "core/plan/emit.h"

namespace unity {

struct Contribution {
  BufferId buffer;
  Box box;  // the part of the piece it is a gradient of
  TaskList writers;
  bool shared = false;  // others read the buffer too, so it must not be added into
};

// A box of a value on a device, and what is known of its gradient.
struct Piece {
  DeviceId device;
  Box box;
  int partial = 0;
  int copy = 0;
  BufferId buffer;
  TaskList writers;
  bool needs_gradient = false;
  std::vector<Contribution> contributions;
};
using PieceIndex = std::int32_t;

// A piece within a value; summand and copy may differ from the piece's own (stack_partials renumbers them). For each
// box and summand of a value, every copy has another number.
struct PieceRef {
  PieceIndex piece = -1;
  int partial = 0;
  int copy = 0;
};

// Where a piece is, before there is one.
struct Held {
  DeviceId device;
  Box box;
  int partial = 0;
  int copy = 0;
};

// A value of the PCG and where it is held. Partial maxima (monoid) are of values through which no gradient flows.
struct Placement {
  std::string name;
  Dims dims;
  DType dtype = DType::f32;
  std::int32_t tensor = -1;           // of the value
  std::int32_t gradient_tensor = -1;  // made when first needed
  bool needs_gradient = false;
  std::vector<PieceRef> pieces;
  Monoid monoid = Monoid::sum;  // of summands
  // Where only some devices are lowered: what the others hold; absent when it is not known, or is in `pieces`.
  std::function<std::vector<Held>()> elsewhere;
  bool known_elsewhere = false;  // it is in `pieces`
};
using PlacementIndex = std::int32_t;

struct Requirement {
  DeviceId device;
  Box box;
  int partial = 0;
};

// One thing that was done in the forward pass, and what it did it with.
struct Movement {
  enum class Kind : std::uint8_t { local, collective, add_up } kind = Kind::local;
  // local: target box copied from sources[0]; add_up: target = sum of the sources (all on one device)
  // collective: sources and targets per participant (-1: none)
  CollectiveKind collective = CollectiveKind::send;
  std::vector<PieceIndex> sources, targets;
  std::vector<Box> pieces;  // per participant, or [0] for local
  std::vector<Exchange> exchanges;
  PlacementIndex placement = -1;
};

class Movements {
 public:
  Movements(Emitter& emitter, const Topology& topology, LoweredBlocks blocks = {})
      : emitter_(emitter), topology_(topology), blocks_(std::move(blocks)), alike_(blocks_.alike()) {}

  PlacementIndex add_placement(Placement placement);
  PieceIndex add_piece(Piece piece);
  Placement& placement(PlacementIndex i) { return placements_[static_cast<std::size_t>(i)]; }
  Piece& piece(PieceIndex i) { return pieces_[static_cast<std::size_t>(i)]; }

  // Pieces that satisfy the requirements, in their order. `sum` > 1: every `sum` consecutive summands are added up, and
  // Requirement::partial counts the results. Equal requirements of one value are met once.
  std::vector<PieceIndex> provide(PlacementIndex value, int sum, const std::vector<Requirement>& requirements);

  // Between these, the sends of values that an operator's operands are made of wait for one another, and are emitted in
  // rounds, in each of which a device sends or receives once: value by value, all would wait for those that receive
  // much before they send. Anything else that is emitted ends the wait.
  void begin_rounds() { in_rounds_ = true; }
  void end_rounds();
  void emit_waiting();

  // Where only some blocks of devices are lowered: whether a device is one of them; pieces elsewhere have no buffers.
  bool here(DeviceId device) const { return blocks_.contains(device); }
  bool here(PieceIndex i) { return here(piece(i).device); }
  // Whether each of these requirements is met by pieces of its own block; else provide() has to be asked for those of
  // all devices.
  bool within_block(PlacementIndex value, int sum, const std::vector<Requirement>& requirements);
  // Adds the pieces of the other devices to a value. False when it does not know them.
  bool add_elsewhere(PlacementIndex value);
  // The same, where it is needed; throws Unclear when it does not know them.
  void know_elsewhere(PlacementIndex value);
  // Throws Unclear when a communication joins some blocks but not all of a kind: others would join these.
  void check_blocks(const Communication& communication) const;
  // Throws Unclear unless what lowered blocks of several kinds sent to one another all others of these kinds did, too,
  // each to a block of its own, through links of their own. After that, nothing may be sent so.
  void check_crossings();
  // Throws Unclear when a value of this size, its parts on devices 0, 1, .. in their order, does not repeat by blocks.
  void check_natural_order(const TaskGrid& parts, const Dims& dims) const;
  // Thrown when what the lowered devices do cannot be told from them alone.
  struct Unclear {};
  // Thrown when a value would take more than some millions of transfers from where it is to where it is wanted.
  struct TooMany {
    std::string value;
    std::size_t transfers;
  };

  // The movements in the order in which they were emitted; the caller interleaves them with its own tape.
  std::size_t movement_count() const { return movements_.size(); }
  // Emits the adjoint of a movement: turns gradients of its targets into contributions to its sources.
  void emit_adjoint(std::size_t movement);

  // The summed gradient of a piece, or an invalid buffer when nothing contributed (it is zero).
  struct Gradient {
    BufferId buffer;
    TaskList writers;
    bool shared = false;
  };
  Gradient gradient(PlacementIndex value, PieceIndex piece);
  // The same, with a zeroed buffer where nothing contributed.
  Gradient gradient_or_zero(PlacementIndex value, PieceIndex piece);
  std::int32_t gradient_tensor(PlacementIndex value);

 private:
  class Spread;
  struct Key {
    std::int32_t device, partial;
    Box box;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  static constexpr std::size_t kFewOfADevice = 4;  // pieces, which are soon looked at one by one
  struct Met {                                     // requirements of one (value, sum) that are met already
    std::unordered_map<Key, PieceIndex, KeyHash> met;
    std::vector<PieceRef> summed;
  };
  struct Transfer {
    PieceIndex source;
    std::size_t requirement;
    Box box;
  };

  Met& met(PlacementIndex value, int sum);
  PieceIndex new_piece(PlacementIndex value, DeviceId device, const Box& box, int partial, int copy);
  bool add_up_everywhere(PlacementIndex value, int sum, const std::vector<Requirement>& open,
                         std::vector<PieceRef>& summed, std::vector<PieceIndex>& result);
  void add_up_partials(PlacementIndex value, int sum, const std::vector<Requirement>& open,
                       std::vector<PieceRef>& summed);
  void add_up_here(PlacementIndex value, const std::vector<PieceIndex>& summands, PieceIndex target);
  bool gather(PlacementIndex value, const std::vector<PieceRef>& sources, const BoxIndex& boxes,
              const std::vector<Requirement>& open, std::vector<PieceIndex>& result);
  bool send_and_gather(PlacementIndex value, const std::vector<PieceRef>& sources, const BoxIndex& boxes,
                       const std::vector<Requirement>& open, std::vector<PieceIndex>& result);
  void redistribute(PlacementIndex value, const std::vector<PieceRef>& sources, const std::vector<Requirement>& open,
                    std::vector<PieceIndex>& result);
  void emit_component(PlacementIndex value, const std::vector<Requirement>& open,
                      const std::vector<PieceIndex>& targets, const std::vector<Transfer>& transfers);
  bool takes_part(PlacementIndex value, CollectiveKind kind, const std::vector<PieceIndex>& sources,
                  const std::vector<PieceIndex>& targets, const std::vector<Box>& pieces);
  bool all_alike_join(const std::vector<DeviceId>& devices) const;
  void note_crossing(Hash what, std::int64_t elements, const std::vector<DeviceId>& devices);
  void check_links() const;
  void emit_local(PlacementIndex value, PieceIndex source, PieceIndex target, const Box& box);
  void emit_send(PlacementIndex value, PieceIndex source, PieceIndex target, const Box& box);
  void emit_collective(PlacementIndex value, CollectiveKind kind, std::vector<PieceIndex> sources,
                       std::vector<PieceIndex> targets, std::vector<Box> pieces, std::vector<Exchange> exchanges = {},
                       Monoid monoid = Monoid::sum);

  Emitter& emitter_;
  const Topology& topology_;
  LoweredBlocks blocks_;
  std::vector<int> alike_;  // by block: how many it stands for
  // Communications between blocks of which each joins only some of a kind.
  struct Crossing {
    std::map<int, int> times;          // by the block of the first device
    std::int64_t least = 0, most = 0;  // elements
  };
  std::map<Hash, Crossing> crossings_;                // by what moves from where to where, in lowered blocks
  std::map<std::pair<int, int>, int> partners_;       // of a block, by kind: the block that it exchanges with
  std::set<std::pair<DeviceId, DeviceId>> crossing_;  // devices that exchange something across blocks, both ways
  bool crossings_checked_ = false;
  // They stay where they are, and are found at once.
  template <class T>
  class List {
   public:
    void push_back(T value) {
      if (size_ % kChunk == 0) chunks_.emplace_back().reserve(kChunk);
      chunks_.back().push_back(std::move(value));
      ++size_;
    }
    T& operator[](std::size_t i) { return chunks_[i / kChunk][i % kChunk]; }
    const T& operator[](std::size_t i) const { return chunks_[i / kChunk][i % kChunk]; }
    std::size_t size() const { return size_; }

   private:
    static constexpr std::size_t kChunk = 64;
    std::vector<std::vector<T>> chunks_;
    std::size_t size_ = 0;
  };
  List<Placement> placements_;
  List<Piece> pieces_;
  List<Movement> movements_;
  std::unordered_map<std::int64_t, Met> met_;
  std::int32_t maximum_ = -1;  // of Program::ops, once made
  struct Waiting {
    PlacementIndex value;
    PieceIndex source, target;
    Box box;
  };
  std::vector<Waiting> waiting_;  // sends to be emitted in rounds
  bool in_rounds_ = false;
};

}  // namespace unity
