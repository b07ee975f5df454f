// Commands that can run as one of several processes, and their logs.

#include <cstdlib>
#include <string>

#include <catch2/catch.hpp>

#include "tests/support/command.h"
#include "tests/support/paths.h"

namespace {

using namespace command;

const std::string kRun = "run mlp-tiny --topology laptop --devices 2 --data synthetic --steps 2";

// As the launcher of several sets them.
class Variables {
 public:
  using List = std::vector<std::pair<const char*, const char*>>;
  explicit Variables(const List& list) : list_(list) {
    for (const auto& [name, value] : list_) ::setenv(name, value, 1);
  }
  ~Variables() {
    for (const auto& [name, value] : list_) ::unsetenv(name);
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  List list_;
};

}  // namespace

TEST_CASE("one of several processes does not run, validate or profile by itself, unless told to") {
  Folder f;
  const std::string profile = "profile mlp-tiny --topology laptop --devices 2 -o " + f.file("profile.yaml");
  {
    Variables mpirun(Variables::List{{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "1"}});
    for (const std::string& c : {kRun, std::string("validate mlp-tiny --topology laptop --devices 2"), profile})
      check_refused(c, {"rank 1 of 4 processes of mpirun", "expected --comm mpi", "--comm threads"});
    CHECK(unity(kRun + " --comm threads").code == 0);
    CHECK(unity("list models").code == 0);
  }
  CHECK_FALSE(fs::exists(f.file("profile.yaml")));
  {
    Variables pmi(Variables::List{{"PMI_SIZE", "2"}, {"PMI_RANK", "0"}});
    check_refused(kRun, {"rank 0 of 2 processes of mpiexec"});
  }
  {
    Variables srun(Variables::List{{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}});
    check_refused(kRun, {"rank 0 of 8 processes of srun", "expected --comm mpi"});
  }
  {
    Variables pmix(Variables::List{{"PMIX_RANK", "3"}});
    check_refused(kRun, {"rank 3 of the processes of a launcher with PMIx"});
  }
  Variables script(Variables::List{{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}});  // of sbatch, before any srun
  CHECK(unity(kRun).code == 0);
}

TEST_CASE("with --comm nccl, a process that its launcher started alone needs no MPI, one of several does") {
  ::setenv("UNITY_PLUGINS", "/no/such/folder", 1);
  {
    Variables srun(Variables::List{{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}});
    check_refused(kRun + " --comm nccl", {"--comm nccl: found backend cpu, expected cuda"});
    Outcome o = unity(kRun + " --backend cuda --comm nccl");
    CHECK(o.code == 2);
    CHECK(o.err.find("cuda: not in this build") != std::string::npos);  // and nothing of MPI
    CHECK(o.err.find("mpi") == std::string::npos);
  }
  {
    Variables srun(Variables::List{{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "0"}});
    check_refused(kRun + " --comm nccl", {"mpi: not in this build"});
  }
  {
    Variables pmix(Variables::List{{"PMIX_RANK", "0"}});  // of how many, nobody says
    check_refused(kRun + " --comm nccl", {"mpi: not in this build"});
  }
  ::unsetenv("UNITY_PLUGINS");
}

TEST_CASE("MPI that finds one process where srun started several is refused") {
  if (!fs::exists(std::string(UNITY_BINARY_DIR) + "/lib/unity/libunity_mpi.so")) {
    WARN("skipped: unity was built without MPI");
    return;
  }
  Variables srun(Variables::List{{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "2"}});
  Outcome o = unity(kRun + " --comm mpi");
  INFO(o.err);
  CHECK(o.code == 2);
  CHECK(o.out.empty());
  for (const char* text : {"rank 2 of 4 processes of srun", "found it alone", "Open MPI", "srun --mpi=pmix"})
    CHECK(o.err.find(text) != std::string::npos);
}

TEST_CASE("a log begins with date and command, and what a later run says comes after it") {
  Folder f;
  const std::string run = kRun + " --log-folder " + f.file("logs"), log = f.file("logs/rank-0.log");
  REQUIRE(unity(run + " --schedule 'constant warmup=1'").code == 0);
  const std::string first = read(log);
  CHECK(std::count(first.begin(), first.end(), '\n') == 1);
  CHECK(first.rfind("== 20", 0) == 0);
  for (const std::string& text :
       {std::string("Z, rank 0 of 1 processes, on "), std::string("unity run mlp-tiny --topology laptop"),
        f.file("logs"), std::string("--schedule 'constant warmup=1'\n")})
    CHECK(first.find(text) != std::string::npos);
  REQUIRE(unity(run + " --precision f7").code == 2);
  const std::string both = read(log);
  REQUIRE(both.rfind(first, 0) == 0);
  const std::string second = both.substr(first.size());
  CHECK(std::count(second.begin(), second.end(), '\n') == 2);
  CHECK(second.rfind("== 20", 0) == 0);
  CHECK(second.find("--precision f7\nunity: error: ") != std::string::npos);
}
