// Whether a process was started as one of several, from the launcher's variables; and a start that does not end.

#include <atomic>
#include <map>

#include <catch2/catch.hpp>

#include "core/base/error.h"
#include "runtime/comm/launch.h"

using namespace unity;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

using Environment = std::map<std::string, std::string>;

std::optional<Launch> launch_of(const Environment& environment) {
  return find_launch([&](const char* name) {
    auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

std::string refusal(const Environment& environment) {
  try {
    refuse_copies(launch_of(environment));
    return {};
  } catch (const InputError& error) {
    return error.what();
  }
}

std::string singleton_refusal(const Environment& environment, int found) {
  try {
    refuse_singleton(launch_of(environment), found, "Open MPI v4.1.4");
    return {};
  } catch (const InputError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a process started as one of several is refused where it would work for itself, and told what to do") {
  CHECK_THAT(
      refusal({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "2"}}),
      Contains("rank 2 of 4 processes of mpirun") && Contains("expected --comm mpi") && Contains("or --comm threads"));
  CHECK_THAT(refusal({{"PMI_SIZE", "3"}, {"PMI_RANK", "0"}}), Contains("rank 0 of 3 processes of mpiexec"));
  CHECK_THAT(refusal({{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_NTASKS", "16"}, {"SLURM_PROCID", "7"}}),
             Contains("rank 7 of 8 processes of srun"));
  CHECK_THAT(refusal({{"SLURM_NTASKS", "16"}, {"SLURM_PROCID", "7"}}), Contains("rank 7 of 16 processes of srun"));
  CHECK_THAT(refusal({{"PMIX_RANK", "1"}}), Contains("rank 1 of the processes of a launcher with PMIx"));
}

TEST_CASE(
    "a process that its launcher started alone is not refused, nor a batch script or a shell of a job of several") {
  CHECK(refusal({}).empty());
  CHECK(refusal({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}}).empty());
  CHECK(refusal({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}).empty());  // sbatch
  CHECK(refusal({{"SLURM_NTASKS", "8"}}).empty());                         // salloc
  CHECK(refusal({{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}).empty());
  CHECK(refusal({{"OMPI_COMM_WORLD_SIZE", "many"}}).empty());
  // Under Slurm, mpirun's daemons are tasks of srun: what mpirun says counts.
  CHECK(refusal({{"OMPI_COMM_WORLD_SIZE", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}}).empty());
}

TEST_CASE("MPI that finds a process alone is refused where the launcher started several") {
  Environment four = {{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "3"}};
  CHECK_THAT(singleton_refusal(four, 1), Contains("rank 3 of 4 processes of srun") && Contains("found it alone") &&
                                             Contains("Open MPI v4.1.4") && Contains("srun --mpi=list"));
  CHECK(singleton_refusal(four, 4).empty());
  CHECK(singleton_refusal({}, 1).empty());
  CHECK(singleton_refusal({{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}}, 1).empty());
}

TEST_CASE("a start that does not end in time says how many processes were expected, one that ends says nothing") {
  std::atomic<int> expired = 0;
  {
    StartLimit limit(1h, [&] { ++expired; });
  }
  CHECK(expired == 0);
  {
    StartLimit limit(10ms, [&] {
      ++expired;
      expired.notify_all();
    });
    expired.wait(0);
  }
  CHECK(expired == 1);
  CHECK_THAT(start_overdue(launch_of({{"OMPI_COMM_WORLD_SIZE", "3"}, {"OMPI_COMM_WORLD_RANK", "1"}}), 2500ms),
             Contains("rank 1: the start (rendezvous) did not end within 2.5 s") &&
                 Contains("expected all 3 processes of mpirun") && Contains("stopped or gone") &&
                 Contains("--comm-timeout"));
  CHECK_THAT(start_overdue(std::nullopt, 1s), Contains("expected all processes that were started with this one"));
}
