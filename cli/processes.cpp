#include "cli/processes.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "cli/build_info.h"
#include "cli/commands.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "runtime/comm/open_processes.h"

namespace unity::cli {
namespace {

constexpr std::size_t kVersionShown = 60;  // Open MPI's goes on with how it was built

void redirect(std::FILE* stream, const std::string& path) {
  if (!std::freopen(path.c_str(), "w", stream))
    throw_input_error("{}: cannot be written: {}", path, std::strerror(errno));
  std::setvbuf(stream, nullptr, _IOLBF, 0);
}

void share_output(const Processes& processes, const std::string& logs) {
  if (processes.size() == 1 && logs.empty()) return;
  std::error_code error;
  if (!logs.empty()) std::filesystem::create_directories(logs, error);
  if (error) throw_input_error("{}: cannot be made a folder: {}", logs, error.message());
  std::string log = logs.empty() ? "" : fmt::format("{}/rank-{}.log", logs, processes.rank());
  if (processes.rank() != 0) redirect(stdout, log.empty() ? "/dev/null" : log);
  if (!log.empty()) {
    if (processes.rank() == 0)
      redirect(stderr, log);
    else if (!std::freopen(log.c_str(), "a", stderr))
      throw_input_error("{}: cannot be written: {}", log, std::strerror(errno));
  }
}

}  // namespace

void ProcessOptions::add(CLI::App& command) {
  command.add_option("--comm", comm, "threads; mpi: the processes of mpirun or srun; nccl: as mpi where there are any")
      ->capture_default_str();
  command.add_option("--comm-timeout", timeout, "Seconds without a message after which a process counts as lost")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--log-folder", logs, "Messages of each process, in rank-N.log");
}

void with_processes(const ProcessOptions& options, const std::function<void(Processes&)>& body) {
  std::unique_ptr<Processes> processes =
      open_processes(options.comm, std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout * 1000)));
  if (processes->size() == 1) {
    share_output(*processes, options.logs);
    return body(*processes);
  }
  auto give_up = [&](int code, const std::string& what) {
    fmt::print(stderr, "unity: error: rank {}: {}\n", processes->rank(), what);
    std::fflush(nullptr);
    processes->give_up(what, code);
  };
  try {
    share_output(*processes, options.logs);
    processes->require_equal("versions, expected the same everywhere",
                             fmt::format("unity {} {} on {}", build_version(), build_commit(),
                                         processes->transport_version().substr(0, kVersionShown)));
    body(*processes);
    std::fflush(nullptr);
    processes->barrier("the end of the command", Processes::Wait::while_heard);  // rank 0 may have more to do
  } catch (const ProcessFailure& error) {
    give_up(processes->failure_code(), error.what());
  } catch (const InputError& error) {
    give_up(2, error.what());
  } catch (const std::exception& error) {
    give_up(1, error.what());
  }
}

}  // namespace unity::cli
