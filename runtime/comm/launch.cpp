#include "runtime/comm/launch.h"

#include <charconv>
#include <cstring>

#include "core/base/error.h"

namespace unity {
namespace {

struct LauncherVariables {
  const char *launcher, *rank, *size;
};

// The first that is there counts. Open MPI's come first, as under Slurm its daemons are srun's tasks and hand their
// variables down. SLURM_STEP_NUM_TASKS is srun's; batch scripts and shells of salloc have SLURM_NTASKS, and are alone.
constexpr LauncherVariables kLaunchers[] = {
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"mpiexec", "PMI_RANK", "PMI_SIZE"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
};

std::optional<int> number(const Variables& variable, const char* name) {
  const char* text = variable(name);
  if (!text) return std::nullopt;
  int value = 0;
  const char* end = text + std::strlen(text);
  auto [rest, error] = std::from_chars(text, end, value);
  if (error != std::errc() || rest != end || value < 0) return std::nullopt;
  return value;
}

double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1000; }

}  // namespace

std::string Launch::text() const {
  return size > 0 ? fmt::format("rank {} of {} processes of {}", rank, size, launcher)
                  : fmt::format("rank {} of the processes of {}", rank, launcher);
}

std::optional<Launch> find_launch(const Variables& variable) {
  for (const LauncherVariables& v : kLaunchers)
    if (auto size = number(variable, v.size); size && *size > 0)
      return Launch{v.launcher, number(variable, v.rank).value_or(0), *size};
  // A rank above 0 is never that of a batch script.
  if (auto rank = number(variable, "SLURM_PROCID"); rank && *rank > 0)
    return Launch{"srun", *rank, number(variable, "SLURM_NTASKS").value_or(0)};
  if (auto rank = number(variable, "PMIX_RANK")) return Launch{"a launcher with PMIx", *rank, 0};
  return std::nullopt;
}

void refuse_copies(const std::optional<Launch>& launch) {
  if (!launch || !launch->several()) return;
  throw_input_error(
      "--comm: this is {}, each of which would do the whole work, into the same files; expected --comm mpi, to share "
      "it "
      "out among them, or --comm threads, where each is to work for itself",
      launch->text());
}

void refuse_singleton(const std::optional<Launch>& launch, int found, const std::string& mpi) {
  if (!launch || !launch->several() || found > 1) return;
  throw_input_error(
      "--comm: this is {}, but MPI ({}) found it alone; expected the mpirun of that same MPI, or srun --mpi=pmix where "
      "both were built with PMIx (srun --mpi=list shows what there is)",
      launch->text(), mpi);
}

std::string start_overdue(const std::optional<Launch>& launch, std::chrono::milliseconds patience) {
  std::string expected = launch && launch->size > 0
                             ? fmt::format("all {} processes of {}", launch->size, launch->launcher)
                             : std::string("all processes that were started with this one");
  return fmt::format(
      "{}the start (rendezvous) did not end within {} s: expected {}, and not all have come; look for one that is "
      "stopped or gone (ps on each node), a node that does not reach the others (--mca btl_tcp_if_include), a file "
      "system that hangs; where a start takes longer, give a larger --comm-timeout",
      launch ? fmt::format("rank {}: ", launch->rank) : "", seconds(patience), expected);
}

StartLimit::StartLimit(std::chrono::milliseconds patience, std::function<void()> expired)
    : thread_([this, patience, expired = std::move(expired)] {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, patience, [&] { return ended_; })) expired();
      }) {}

StartLimit::~StartLimit() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

}  // namespace unity
