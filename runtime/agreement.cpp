#include "runtime/agreement.h"

#include <algorithm>
#include <vector>

#include <fmt/ranges.h>

#include "core/base/error.h"
#include "runtime/data/file_bytes.h"

namespace unity {
namespace {

constexpr std::size_t kPiece = 64 << 10, kPieces = 4096;  // of a file that is larger, so many pieces are compared

Hash hash_of_pieces(std::span<const std::uint8_t> bytes) {
  if (bytes.size() <= kPiece * kPieces) return hash_bytes(std::as_bytes(bytes));
  Hash hash = bytes.size();
  for (std::size_t i = 0; i < kPieces; ++i) {
    const std::size_t begin = (bytes.size() - kPiece) / (kPieces - 1) * i;
    hash = combine(hash, hash_bytes(std::as_bytes(bytes.subspan(begin, kPiece))));
  }
  return combine(hash, hash_bytes(std::as_bytes(bytes.last(kPiece))));
}

std::string hexadecimal(Hash hash) { return fmt::format("contents {:016x}", hash); }

}  // namespace

std::string in_words(const TrainOptions& o) {
  const RateSchedule &s = o.schedule, plain;
  std::vector<std::string> words = {o.steps > 0 ? fmt::format("{} steps", o.steps) : fmt::format("{} epochs", o.epochs),
                                    is_built_in_data(o.data) ? o.data : "data of its own",
                                    fmt::format("rates {}", s.kind)};
  auto number = [&](const char* what, auto value, auto usual) {
    if (value != usual) words.push_back(fmt::format("{} {}", what, value));
  };
  auto flag = [&](const char* what, bool value) {
    if (value) words.emplace_back(what);
  };
  number("warm-up", s.warmup, plain.warmup), number("rates end at step", s.steps, plain.steps);
  number("least rate", s.min, plain.min), number("gamma", s.gamma, plain.gamma);
  number("rates change every", s.every, plain.every), number("power", s.power, plain.power);
  flag("rows in order", o.in_order), flag("initial values of a file", !o.weights_file.empty());
  flag("gradients written", !o.gradients_file.empty());
  flag("checkpoints", !o.checkpoint.folder.empty()), flag("resumed", o.checkpoint.resume);
  number("checkpoints every", o.checkpoint.every, 0), number("checkpoints kept", o.checkpoint.keep, 3);
  number("evaluations every", o.evaluate_every, 0), number("patience", o.patience, 0);
  flag("watching the loss", o.watch_loss), flag("traced", o.trace);
  number("copies of weights compared every", o.check_replicas_every, 0);
  return fmt::format("{}", fmt::join(words, ", "));
}

Agreement::Agreement(Processes* processes)
    : processes_(processes != nullptr && processes->size() > 1 ? processes : nullptr) {}

void Agreement::require_equal(const std::string& what, const std::string& value) {
  if (processes_) processes_->require_equal(what + ", expected the same everywhere", value);
}

void Agreement::require_equal_options(const TrainOptions& options) { require_equal("how to train", in_words(options)); }

void Agreement::require_equal_file(const std::string& what, const std::string& path) {
  if (processes_) require_equal(what, hexadecimal(hash_of_pieces(FileBytes(path, false).bytes())));
}

void Agreement::require_equal_batches(const std::string& what) { require_equal(what, hexadecimal(batches_)); }

void Agreement::add(const std::map<std::string, HostTensor>& batch) {
  if (!processes_) return;
  for (const auto& [name, tensor] : batch) {
    batches_ = combine(batches_, hash_bytes(std::as_bytes(std::span(tensor.reals))));
    batches_ = combine(batches_, hash_bytes(std::as_bytes(std::span(tensor.indices))));
  }
}

}  // namespace unity
