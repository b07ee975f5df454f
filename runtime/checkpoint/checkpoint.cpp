#include "runtime/checkpoint/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "core/base/path_inside.h"
#include "core/base/text.h"
#include "runtime/checkpoint/folder.h"

namespace unity {
namespace {

namespace fs = std::filesystem;

// Which tensors go to which file: in order, a new file where the next one would exceed the size.
std::vector<CheckpointFile> shards(const Executor& executor, std::int64_t shard_bytes) {
  StoredType type = executor.options().precision == Precision::f64 ? StoredType::f64 : StoredType::f32;
  std::vector<CheckpointFile> files;
  std::int64_t filled = 0;
  for (const StateTensor& t : executor.state()) {
    TensorInfo info{t.name, type, t.dims, 0};
    if (files.empty() || filled + info.bytes() > shard_bytes) files.emplace_back(), filled = 0;
    filled += info.bytes();
    files.back().tensors.push_back(std::move(info));
  }
  for (std::size_t i = 0; i < files.size(); ++i) files[i].name = shard_name(i, files.size());
  return files;
}

// Every process hands out its parts of the tensors; rank `writer_rank` puts them together in the file.
void write_shard(const Executor& executor, const fs::path& folder, CheckpointFile& file, std::int64_t step,
                 int writer_rank) {
  if (writer_rank != executor.processes().rank()) {
    for (const TensorInfo& info : file.tensors) executor.state(info.name, writer_rank);
    return;
  }
  SafetensorsWriter writer(folder / file.name, file.tensors,
                           {{"format", "unity-checkpoint"}, {"step", fmt::format("{}", step)}});
  for (const TensorInfo& info : file.tensors) {
    HostTensor value = executor.state(info.name, writer_rank);
    if (info.dtype == StoredType::f64)
      writer.append(value.reals);
    else
      writer.append(std::vector<float>(value.reals.begin(), value.reals.end()));
  }
  writer.finish();
  file.bytes = writer.bytes_written();
  file.crc32 = writer.crc32();
}

// The file, when it is as the index says.
SafetensorsFile open_shard(const fs::path& folder, const CheckpointFile& file) {
  Result<fs::path> inside = path_inside(folder, file.name);
  if (!inside.ok()) throw_input_error("{}: file: {}", (folder / "index.json").string(), inside.error().message);
  const fs::path& path = *inside;
  std::error_code error;
  if (!fs::exists(path, error))
    throw_input_error("{}: is missing, expected {} bytes as index.json says", path.string(), file.bytes);
  std::uint64_t bytes = fs::file_size(path, error);
  if (error || bytes != file.bytes)
    throw_input_error("{}: found {} bytes, expected {}; is the file truncated?", path.string(), bytes, file.bytes);
  std::uint32_t crc = crc32_of_file(path);
  if (crc != file.crc32)
    throw_input_error("{}: checksum is {:08x}, expected {:08x}; the file has changed since it was written",
                      path.string(), crc, file.crc32);
  SafetensorsFile opened(path);
  for (const TensorInfo& t : file.tensors) {
    const TensorInfo& found = opened.at(t.name);
    if (found.dims != t.dims || found.dtype != t.dtype)
      throw_input_error("{}: '{}': found {}[{}], expected {}[{}] as index.json says", path.string(), t.name,
                        to_string(found.dtype), fmt::join(found.dims, ", "), to_string(t.dtype),
                        fmt::join(t.dims, ", "));
  }
  return opened;
}

// The files of all processes, each as the one that wrote it knows it.
void exchange(Processes& processes, std::vector<CheckpointFile>& files, const std::string& what) {
  struct Written {
    std::uint64_t bytes = 0;
    std::uint32_t crc32 = 0;
  };
  std::vector<Written> mine;
  for (const CheckpointFile& file : files) mine.push_back({file.bytes, file.crc32});
  std::vector<std::vector<std::byte>> all = processes.all_gather(std::as_bytes(std::span(mine)), what);
  for (std::size_t i = 0; i < files.size(); ++i) {
    Written of;
    std::memcpy(&of, all[i % all.size()].data() + i * sizeof of, sizeof of);
    files[i].bytes = of.bytes, files[i].crc32 = of.crc32;
  }
}

}  // namespace

void save_checkpoint(const Executor& executor, const TrainingPosition& position, const CheckpointOptions& options) {
  executor.check_replicas();  // or one of several would be saved, and nothing be known of the others
  CheckpointIndex index{position, hash_of(executor.state()), shards(executor, options.shard_bytes)};
  Processes& processes = executor.processes();
  int rank = processes.rank();
  auto ranks = static_cast<std::size_t>(processes.size());
  std::string name = fmt::format("the checkpoint of step {}", position.step);
  auto write = [&](const fs::path& folder) {
    processes.barrier("the folder of " + name);
    for (std::size_t i = 0; i < index.files.size(); ++i)
      write_shard(executor, folder, index.files[i], position.step, static_cast<int>(i % ranks));
    exchange(processes, index.files, "the files of " + name);
    if (rank == 0) write_file_atomically(folder / "index.json", index_to_json(index));
  };
  if (rank == 0)
    publish_checkpoint(options.folder, position.step, std::max<std::int64_t>(options.keep, 1), write);
  else
    write(unfinished_checkpoint(options.folder, position.step));
  processes.barrier("the end of " + name);
}

Checkpoint::Checkpoint(fs::path path)
    : path_(std::move(path)),
      index_(index_from_json(read_file(path_ / "index.json"), (path_ / "index.json").string())) {}

Checkpoint Checkpoint::newest(const fs::path& folder) {
  std::vector<SavedStep> steps = saved_steps(folder);
  if (steps.empty())
    throw_input_error("{}: found no checkpoint to resume from, expected a folder such as step-000100 with index.json",
                      folder.string());
  return Checkpoint(steps.back().path);
}

void Checkpoint::restore(Executor& executor) const {
  check_same_model(index_, executor.state(), path_.string());
  std::vector<SafetensorsFile> files;
  for (const CheckpointFile& file : index_.files) files.push_back(open_shard(path_, file));
  for (const SafetensorsFile& file : files)
    for (const TensorInfo& info : file.tensors()) {
      if (!executor.holds(info.name)) continue;
      HostTensor value{info.dims, DType::f64, file.reals(info), {}};
      executor.set_state(info.name, value);
    }
  executor.set_steps_done(index_.position.step);
}

}  // namespace unity
