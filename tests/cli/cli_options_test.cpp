// Options that would be ignored, and files that would be lost: both are refused.
#include <cstdlib>

#include <catch2/catch.hpp>

#include "tests/support/command.h"

namespace {

using namespace command;

// A plan of mlp-tiny, in the folder.
std::string plan_in(const Folder& f) {
  std::string plan = f.file("plan.json");
  REQUIRE(unity("search mlp-tiny --topology laptop --devices 2 --global-batch 60 --strategy data-parallel -o " + plan)
              .code == 0);
  return plan;
}

// Of both streams.
int code_on_full_disk(const std::string& arguments) {
  int status = std::system((std::string(UNITY_BINARY_DIR) + "/bin/unity " + arguments + " >/dev/full 2>&1").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

}  // namespace

TEST_CASE("what cannot be printed is said by the exit code, also of help and completions") {
  for (const char* arguments :
       {"--help", "--version", "search --help", "completion bash", "__complete se", "__reference", "list models"}) {
    INFO(arguments);
    CHECK(code_on_full_disk(arguments) == 1);
  }
}

TEST_CASE("what a command reads is not what it writes") {
  Folder f;
  const std::string plan = plan_in(f), content = read(plan);
  for (const std::string& arguments :
       {"export " + plan + " --format dot -o " + plan, "simulate " + plan + " --trace " + plan,
        "show " + plan + " --dot " + plan, "run " + plan + " --steps 1 --trace " + f.file("./plan.json"),
        "validate " + plan + " --steps 1 --perfetto " + plan})
    check_refused(arguments, {"plan.json', which", "reads; expected another file to write"});
  CHECK(read(plan) == content);
  const std::string both = f.file("both");
  check_refused("show " + plan + " --dot " + both + " --svg " + both, {"--dot and --svg", "both' twice"});
  const std::string smi = f.write("topo.yaml", "\tGPU0\nGPU0\t X \n");
  check_refused("import nvidia-smi-topo " + smi + " --device a100-sxm4-80gb", {"topo.yaml is read", "with -o"});
}

TEST_CASE("of a schedule, what changes nothing of the plan is said") {
  Folder f;
  const std::string plan = plan_in(f);
  const std::string warning = "unity: warning: --zero-stage 3 changes nothing of this plan";
  for (const std::string& arguments :
       {std::string(
            "search mlp-tiny --topology laptop --devices 2 --strategy data-parallel --fuse chains --zero-stage 3"),
        "simulate " + plan + " --fuse chains --zero-stage 3",
        "run " + plan + " --steps 1 --fuse chains --zero-stage 3"}) {
    INFO(arguments);
    Outcome o = unity(arguments);
    CHECK(o.code == 0);
    CHECK(o.err.find(warning) != std::string::npos);
    CHECK(o.err.find("--fuse") == std::string::npos);
  }
  CHECK(unity("simulate " + plan + " --pipeline-schedule gpipe --zero-stage 1 --remat none").err.empty());
}

TEST_CASE("a bundle is packed beside a folder of its name, which stays") {
  Folder f;
  fs::create_directories(f.file("build/bin"));
  fs::create_directories(f.file("unity"));
  f.write("unity/mine", "kept");
  for (const char* program : {"unity", "test_device"}) fs::copy_file("/bin/true", f.file("build/bin/") + program);
  auto bundle = [&](const std::string& name) {
    return std::system(
        ("cd " + f.path.string() + " && " + UNITY_SOURCE_DIR + "/scripts/bundle build -o " + name + " >/dev/null 2>&1")
            .c_str());
  };
  REQUIRE(bundle("unity.tar.xz") == 0);
  CHECK(read(f.file("unity/mine")) == "kept");
  CHECK(std::system(("tar -tf " + f.file("unity.tar.xz") + " | grep -qx unity/bin/unity").c_str()) == 0);
  CHECK(std::distance(fs::directory_iterator(f.path), {}) == 3);  // build, unity, unity.tar.xz
  CHECK(WEXITSTATUS(bundle("unity.zip")) == 2);
  CHECK(WEXITSTATUS(bundle("nowhere/unity.tar.xz")) == 2);
}

TEST_CASE("show refuses options that say nothing of what is shown") {
  Folder f;
  const std::string plan = plan_in(f);
  check_refused("show summit --seq-len 3", {"show: found --seq-len, which says nothing of a topology"});
  check_refused("show summit --graph", {"--graph", "topology"});
  check_refused("show mlp-mnist --nodes 3", {"--nodes", "a model"});
  check_refused("show " + plan + " --layers 2", {"--layers", "a plan"});
  check_refused("show merge_matmuls --svg " + f.file("r.svg"), {"--svg", "a rule, which unity rules show draws"});
  check_refused("show mlp-mnist --graph --json", {"--graph excludes --json"});
  CHECK(unity("show " + plan + " --graph").code == 0);
  CHECK(unity("show merge_matmuls --json").code == 0);
}

TEST_CASE("options of simulate need what they are of") {
  Folder f;
  const std::string plan = plan_in(f), flows = f.write("f.json", R"({"flows": [{"src": 0, "dst": 1, "bytes": 8}]})");
  check_refused("simulate --flows " + flows + " --topology summit --routes", {"--routes requires --json"});
  check_refused("simulate " + plan + " --seed 3", {"--seed needs --jitter"});
  CHECK(unity("simulate " + plan + " --seed 3 --jitter 0.1").code == 0);
  const std::string scaled = unity("simulate " + plan + " --iterations 3 --scale link=2").out;
  CHECK(scaled.find("critical path of 3 iterations: computing") != std::string::npos);
  CHECK(scaled.find(" tasks in 3 iterations\n") != std::string::npos);
  CHECK(unity("simulate " + plan + " --scale link=2").out.find("critical path: computing") != std::string::npos);
}

TEST_CASE("reports and joined sweeps refuse what they make no use of") {
  Folder f;
  const std::string plan = plan_in(f), rows = f.write("results.json", R"({"format": "unity-results", "rows": []})");
  check_refused("report " + plan + " --experiment e.yaml", {"--experiment is of results of sweeps, found plans alone"});
  CHECK(!fs::exists(f.file("plan.search.svg")));
  check_refused("report " + rows + " --against " + rows + " --experiment e.yaml",
                {"--experiment is of the report, which --against writes only with -o or --html"});
  fs::create_directories(f.file("sweep/parts"));
  check_refused("report " + f.file("sweep"), {"results.json: is not there yet", "--merge joins them"});
  for (const char* option : {"--only nodes=1", "--jobs 2", "--resume", "--retry-failed"})
    check_refused("sweep e.yaml -o " + f.file("s") + " --merge " + option, {"--merge", " excludes "});
}

TEST_CASE("profile and validate refuse options of what they do not have") {
  Folder f;
  const std::string plan = plan_in(f);
  check_refused("profile --topology summit -o p.yaml", {"found --topology", "without a plan or model, or --comm"});
  check_refused("profile --comm threads --seq-len 8 -o p.yaml", {"found --seq-len", "without a plan or model"});
  check_refused("profile --list-missing", {"--list-missing needs a plan or model, or --comm"});
  check_refused("profile " + plan + " --largest 4KiB -o p.yaml", {"found --largest", "they say the sizes"});
  check_refused("profile " + plan + " --list-missing --seed 3", {"plan.json: is a plan, which has its own --seed"});
  check_refused("validate " + plan + " --seed 3", {"plan.json: is a plan, which has its own --seed"});
}

TEST_CASE("a size of a model is given once") {
  auto refused = [](const std::string& options, const std::string& name) {
    check_refused("show bert-tiny " + options, {"--option: found '" + name + "=", "expected one value for " + name});
  };
  refused("--option layers=1 --option layers=2", "layers");
  refused("--option seq-len=8 --seq-len 16", "seq-len");
  refused("--layers 1 --option layers=1", "layers");
  refused("--option batch=8 --global-batch 16", "batch");
  refused("--option batch=8 --batch-per-gpu 16", "batch");
  CHECK(unity("show bert-tiny --option batch=8 --option layers=1 --seq-len 8").code == 0);
}

TEST_CASE("a dimension of an import has one size") {
  Folder f;
  check_refused("import " + f.file("net.onnx") + " --dim batch=2 --dim batch=4",
                {"--dim: found 'batch=4', expected one size for batch"});
}

TEST_CASE("run has epochs, rows in order and evaluations on test rows, which synthetic data have not") {
  check_refused("run mlp-tiny --data ./digits --steps 1", {"/digits: there is no such data file or folder"});
  check_refused("run mlp-tiny --data synthetic --epochs 3",
                {"--epochs: data synthetic have no end, expected --steps, or other data"});
  check_refused("run mlp-tiny --data synthetic --steps 1 --in-order", {"--in-order: data synthetic have no rows"});
  check_refused("run mlp-tiny --data synthetic --steps 1 --evaluate-every 1",
                {"--evaluate-every: data synthetic have no test rows"});
}

TEST_CASE("options before a kind of import, and of rules beside axioms, are refused") {
  Folder f;
  const std::string smi = f.write("topo.txt", "\tGPU0\nGPU0\t X \n");
  check_refused("import -o " + f.file("t.yaml") + " nvidia-smi-topo " + smi, {"--output before nvidia-smi-topo"});
  check_refused("import --loss none nvidia-smi-topo " + smi, {"--loss before nvidia-smi-topo"});
  check_refused("rules verify --axioms --write", {"--axioms checks axioms, no rules"});
}
