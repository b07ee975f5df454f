#include "cli/processes.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <unistd.h>

#include "cli/build_info.h"
#include "cli/checks.h"
#include "cli/commands.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/report/provenance.h"
#include "runtime/comm/launch.h"
#include "runtime/comm/open_processes.h"
#include "runtime/comm/places.h"

namespace unity::cli {
namespace {

// After what is there: that of the run that failed, when this one goes on from its checkpoint.
void redirect(std::FILE* stream, const std::string& path) {
  if (!std::freopen(path.c_str(), "a", stream))
    throw_input_error("{}: cannot be written: {}", path, std::strerror(errno));
  std::setvbuf(stream, nullptr, _IOLBF, 0);
}

// The words of this process's command line, those with blanks in quotes.
std::string command_line() {
  std::string words = read_file("/proc/self/cmdline"), line;
  for (std::size_t begin = 0, end; begin < words.size(); begin = end + 1) {
    end = std::min(words.find('\0', begin), words.size());
    std::string word = words.substr(begin, end - begin);
    if (word.empty() || word.find_first_of(" \t\n") != std::string::npos) word = "'" + word + "'";
    line += (line.empty() ? "" : " ") + word;
  }
  return line;
}

std::string host_name() {
  char name[256] = "";
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "?";
}

void share_output(const Processes& processes, const std::string& logs) {
  int rank = processes.rank();
  if (logs.empty()) {
    if (rank != 0) redirect(stdout, "/dev/null");
    return;
  }
  std::error_code error;
  std::filesystem::create_directories(logs, error);
  if (error) throw_input_error("{}: cannot be made a folder: {}", logs, error.message());
  std::string log = fmt::format("{}/rank-{}.log", logs, rank);
  if (rank != 0) redirect(stdout, log);
  redirect(stderr, log);
  fmt::print(stderr, "== {}, rank {} of {} processes, on {}: {}\n", report::utc_now(), rank, processes.size(),
             host_name(), command_line());
}

}  // namespace

void ProcessOptions::add(CLI::App& command) {
  comm_option =
      command
          .add_option("--comm", comm,
                      "threads; mpi: the processes of mpirun or srun; nccl: as mpi where there are any. One of several "
                      "processes has to say which, or is refused")
          ->capture_default_str();
  between(0.001, 1e7,
          command.add_option("--comm-timeout", timeout,
                             "Seconds without a message after which a process counts as lost, and within which all "
                             "have to have started"))
      ->capture_default_str();
  command.add_option("--log-folder", logs,
                     "Messages of each process, in rank-N.log, after a line with date and command; what earlier runs "
                     "left there stays");
}

void ProcessOptions::require_backend(const std::string& backend) const {
  if (comm == "nccl" && backend != "cuda") throw_input_error("--comm nccl: found backend {}, expected cuda", backend);
}

void with_processes(const ProcessOptions& options, const std::function<void(Processes&)>& body) {
  if (options.comm_option->count() == 0) refuse_copies(find_launch([](const char* name) { return std::getenv(name); }));
  std::unique_ptr<Processes> processes =
      open_processes(options.comm, std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout * 1000)));
  if (processes->size() == 1) {
    share_output(*processes, options.logs);
    return body(*processes);
  }
  auto give_up = [&](int code, const std::string& what) {
    // Also where that cannot be written: the others are told all the same.
    std::fputs(fmt::format("unity: error: rank {}: {}\n", processes->rank(), what).c_str(), stderr);
    std::fflush(nullptr);
    processes->give_up(what, code);
  };
  try {
    share_output(*processes, options.logs);
    require_same_versions(*processes, fmt::format("{} {}", build_version(), build_commit()));
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

void warn_of_places(Processes& processes, const Topology& topology) {
  const std::string why = misplaced(processes, topology);
  if (!why.empty() && processes.rank() == 0) fmt::print(stderr, "unity: warning: {}\n", why);
}

}  // namespace unity::cli
