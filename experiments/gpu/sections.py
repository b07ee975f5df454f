"""The sections of scripts/gpu_check. Each fills in its result; see check.py."""
import json
import os
import re
import shutil
import sys
import threading
import time

from agreement import agreement
from cases import FIRST, MODELS, PROFILED, SHARED, TIMED, eager_modes
from check import NotChecked, Skipped
from documents import document_in
from processes import end_children, read_catch2, wait_all

# A part of the name of the test case that compares all operators in that precision.
CONFORMANCE = {"f32": "single precision, block", "f64": "double precision, block", "tf32": "TF32, block",
               "bf16": "bf16, block", "bf16 in rows": "bf16, block"}
# cuDNN compiles its engines for bf16 one by one, a second each for hundreds of tiny shapes: there the first will do.
CHANNELS_LAST, ROWS = {"UNITY_CUDA_LAYOUT": "channels-last"}, {"UNITY_CUDA_LAYOUT": "rows"}
VARIABLES = {"bf16": {"UNITY_CUDA_TUNE": "0"}, "bf16 in rows": {"UNITY_CUDA_TUNE": "0", **ROWS}}
OF_IMAGES = {"bf16 in rows"}  # of these only the operators that follow; by default they lie with channels last
# What is held with channels last in bf16 and tf32, and what may stand beside it.
IMAGE = re.compile(r"(conv2d|max_pool2d|avg_pool2d|moments|batch_norm)(_\w+)?|add|relu|concat|split|reduce_mean|reshape")
IMAGE_MODELS = ("resnext-50", "inception-v3")
# What makes all later calls of a process fail, too.
STICKY = re.compile(r"illegal|misaligned|launch failure|device-side assert|unspecified|hardware stack|invalid program")
ON_GPU = ["--backend", "cuda"]
CUT_SHORT = {"cut short": True}  # in place of a time: the section's time was over
# Beginnings of the lines in which compute-sanitizer describes an error.
SANITIZER_ERROR = re.compile(r"^=+ (Invalid|Out-of-bounds|Misaligned|Error:|Race reported|Program hit|Leaked|Potential)")


def topology(check, devices=1):
    """One GPU of the kind that is here, or several devices that share it."""
    return ["--topology", check.machine + ("" if devices == 1 else "-shared"), "--devices", str(devices)]


def json_of(child):
    """The document that a command printed; None when it failed."""
    if child.code != 0:
        return None
    try:
        return document_in(child.out)
    except ValueError:
        return None


def gpu_tests(check):
    names = check.run([check.tests, "--list-test-names-only"], "tests", 30).out.splitlines()
    return [name.strip() for name in names if "GPU" in name]


def pattern(name):
    """What selects the test case of that name: commas and brackets mean something to Catch2."""
    return name.replace(",", "\\,").replace("[", "\\[")


def start_background(check):
    """Searches for plans: it takes a while, and no GPU."""
    plans = check.out / "plans"
    plans.mkdir(exist_ok=True)
    check.searches = {}
    for model, (options, _) in MODELS.items():
        for strategy in ("data-parallel", "unity"):
            check.searches[model, strategy] = check.start(
                [check.unity, "search", model, *options, *topology(check), "--strategy", strategy, "--jobs", "1", "-o",
                 plan_file(check, model, strategy)], f"search.{model}.{strategy}")
    for model, options in SHARED.items():
        check.searches[model, "shared"] = check.start(
            [check.unity, "search", model, *options, *topology(check, 4), "--strategy", "data-parallel", "--jobs", "1", "-o",
             plan_file(check, model, "shared")], f"search.{model}.shared")


def plan_file(check, model, strategy):
    return check.out / "plans" / f"{model}.{strategy}.json"


def has_plan(check, model, strategy):
    child = check.searches.get((model, strategy))
    return child is not None and child.wait(min(30, check.left())).code == 0


def start_compiling(check):
    """Lets PyTorch compile, a few models at a time: it takes a while, and little of the GPU."""
    check.compiled = {}
    check.stop_compiling = threading.Event()
    check.python_environment.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")

    def start_all():
        for model, precision in TIMED:
            if MODELS[model][1] is None:
                continue
            while sum(is_compiling(child) for child in check.compiled.values()) >= 4:
                if check.stop_compiling.wait(0.5):
                    return
            if check.stop_compiling.is_set():
                return
            check.compiled[model, precision] = check.python(
                [program("step_times.py"), "--wait", f"{model}:{precision}:compiled"],
                f"pytorch.{model}.{precision}.compiled", give_input=True)

    check.compiler = threading.Thread(target=start_all, daemon=True)
    check.compiler.start()


def is_compiling(child):
    return child.poll() is None and not any(True for _ in read_lines(child))


def settle(check):
    """From here on nothing else runs while the GPU is timed. What is not compiled or found after a part of the section's
    time has taken too long."""
    end = time.monotonic() + 0.3 * check.left()
    busy = True
    while busy and time.monotonic() < end:
        time.sleep(0.2)
        busy = any(child.poll() is None for child in (check.searches or {}).values())
        if check.compiled is not None:
            busy = busy or check.compiler.is_alive() or any(is_compiling(c) for c in list(check.compiled.values()))
    if check.compiled is not None:
        check.stop_compiling.set()
        check.compiler.join()
    end_children([*(check.searches or {}).values(), *(c for c in (check.compiled or {}).values() if is_compiling(c))])


def program(name):
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), name)


VERSIONS = """
import json, torch
v = {"PyTorch": torch.__version__, "CUDA of PyTorch": torch.version.cuda, "cuDNN of PyTorch": torch.backends.cudnn.version(),
     "NCCL of PyTorch": ".".join(map(str, torch.cuda.nccl.version()))}
if torch.cuda.is_available():
    p = torch.cuda.get_device_properties(0)
    v.update({"GPU": p.name, "compute capability": f"{p.major}.{p.minor}", "memory": p.total_memory,
              "multiprocessors": p.multi_processor_count})
print(json.dumps(v))
"""
# Versions of the libraries that the plug-in itself is linked with; each is a number that the library packs.
LIBRARIES = """
import ctypes, json
v = {}
for name, libraries, call, takes in (("cuDNN", ["libcudnn.so.9"], "cudnnGetVersion", False),
                                     ("cuBLASLt", ["libcublasLt.so.13", "libcublasLt.so.12"], "cublasLtGetVersion", False),
                                     ("NCCL", ["libnccl.so.2"], "ncclGetVersion", True),
                                     ("driver's CUDA", ["libcuda.so.1"], "cuDriverGetVersion", True)):
    for library in libraries:
        try:
            f = getattr(ctypes.CDLL(library), call)
            f.restype = ctypes.c_size_t
            n = ctypes.c_int(0)
            v[name] = (f(ctypes.byref(n)), n.value)[1] if takes else f()
            break
        except (OSError, AttributeError) as e:
            v.setdefault(name, str(e))
print(json.dumps(v))
"""


def environment(check, result):
    result["unity"] = check.run([check.unity, "--version"], "version", 10).out.strip()
    if shutil.which("nvidia-smi"):
        result["nvidia-smi"] = check.run(["nvidia-smi"], "nvidia-smi", 20).out
        query = "name,driver_version,memory.total,clocks.sm,clocks.max.sm,power.limit,compute_mode"
        result["gpu"] = check.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv"], "gpu", 20).out.splitlines()
    else:
        result["nvidia-smi"] = "not found"
    libraries = check.run([sys.executable, "-c", LIBRARIES], "libraries", 20)
    result["libraries"] = json_of(libraries) or {"found": libraries.complaint()}
    pytorch = check.python(["-c", VERSIONS], "pytorch").wait(check.left())
    result["pytorch"] = json_of(pytorch) or {"PyTorch": pytorch.complaint()}
    result["cores"] = os.cpu_count()


def run_operators(check, case, name, operators, limit, prefix=(), variables=None):
    """One process for a test case of all operators: Child and its report's path."""
    report = check.logs / f"{name}.xml"
    variables = {**(variables or {}), **({"UNITY_TEST_OPERATORS": ",".join(operators)} if operators else {})}
    return check.start([*prefix, check.tests, pattern(case), "-r", "xml", "-d", "yes", "-o", report], name, variables), report


def operators_of(check):
    child = check.run([check.unity, "list", "operators", "--json"], "operators", 20)
    listed = json_of(child) or []
    return [o["name"] for o in listed if o.get("category") == "compute"]


def conformance(check, result):
    names = gpu_tests(check)
    operators = operators_of(check)
    cases = {p: next((n for n in names if "operators on the GPU" in n and part in n), None)
             for p, part in CONFORMANCE.items()}
    result["precisions"] = {}
    for precision, case in cases.items():
        result["precisions"][precision] = {"passed": [], "failed": {}, "not run": []}
        if case is None:
            result["precisions"][precision]["failed"]["(all)"] = ["test_device has no such test case"]
    # All precisions at once, each in parts; after an error that spoils the process, a new one goes on behind the operator
    # that met it.
    parts = max(1, min(4, (os.cpu_count() or 4) // 4, len(operators)))
    images = [o for o in operators if IMAGE.fullmatch(o)]
    todo = {(p, part): (images if p in OF_IMAGES else operators)[part::parts]
            for p, case in cases.items() if case for part in range(parts)}
    todo = {of: some for of, some in todo.items() if some}
    rounds = 0
    while todo and check.left() > 1 and rounds < 60:
        rounds += 1
        runs = {(p, part): run_operators(check, cases[p], f"conformance.{p.replace(' ', '-')}.{part}.{rounds}", left,
                                         check.left(), variables=VARIABLES.get(p))
                for (p, part), left in todo.items()}
        wait_all([child for child, _ in runs.values()], check.left())
        for (precision, part), (child, path) in runs.items():
            found, left = result["precisions"][precision], todo[precision, part]
            done, spoiled = set(), False
            for name, passed, _, messages in read_catch2(path):
                if name == cases[precision]:  # no operator was reached
                    continue
                done.add(name)
                if passed:
                    found["passed"].append(name)
                    continue
                why = [m for m in messages if "SIGTERM" not in m]
                if child.timed_out and not why:  # it was under way
                    done.discard(name)
                    break
                why = why or [child.complaint()]
                found["failed"][name] = why[:5] + ([f"and {len(why) - 5} more"] if len(why) > 5 else [])
                spoiled = passed is None or STICKY.search(" ".join(why))
                if spoiled:
                    break
            if not done and not child.timed_out and child.code != 0:
                found["failed"]["(all)"] = [child.complaint()]
                todo[precision, part] = []
                continue
            todo[precision, part] = [o for o in left if o not in done] if child.timed_out or spoiled else []
        check.write()
        todo = {of: left for of, left in todo.items() if left}
        if all(child.timed_out for child, _ in runs.values()):
            break
    for (precision, _), left in todo.items():
        result["precisions"][precision]["not run"] += left
    failures = sum(len(p["failed"]) for p in result["precisions"].values())
    if failures:
        result.update(state="failed", reason=f"{failures} failures")
    elif todo:
        result.update(state="cut short", reason="not all operators were reached in time")
    elif not all(p["passed"] for p in result["precisions"].values()):
        result.update(state="failed", reason="no operator was compared")


def training(check, result):
    """Every other test that needs a GPU, each in a process of its own, all at once."""
    names = [n for n in gpu_tests(check) if "operators on the GPU" not in n]
    runs = {}
    for i, name in enumerate(names):
        path = check.logs / f"training.{i}.xml"
        runs[name] = (check.start([check.tests, pattern(name), "-r", "xml", "-d", "yes", "-o", path], f"training.{i}"), path)
    wait_all([child for child, _ in runs.values()], check.left())
    result["tests"] = {}
    for name, (child, path) in runs.items():
        parts = read_catch2(path)
        failed = {part: (messages or [child.complaint()])[:5] for part, passed, _, messages in parts if not passed}
        if path.exists() and "skipped: no CUDA device" in path.read_text(errors="replace"):
            failed[name] = ["skipped: no CUDA device"]
        elif not parts or (child.code != 0 and not failed):
            failed[name] = [child.complaint()]
        result["tests"][name] = {"passed": [part for part, passed, *_ in parts if passed], "failed": failed,
                                 "seconds": round(child.seconds or 0, 1)}
    failures = sum(len(t["failed"]) for t in result["tests"].values())
    if failures or not names:
        result.update(state="failed", reason=f"{failures} failures" if names else "test_device has no tests for a GPU")


def sanitizer(check, result):
    tool = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if not tool:
        raise NotChecked("compute-sanitizer is not installed; it comes with the CUDA toolkit")
    case = next((n for n in gpu_tests(check) if "operators on the GPU" in n and CONFORMANCE["f32"] in n), None)
    if case is None:
        raise NotChecked("test_device has no such test case")
    operators = operators_of(check)
    images = [o for o in operators if IMAGE.fullmatch(o)]
    runs, cores = [], os.cpu_count() or 4
    # racecheck takes longer. Our kernels are checked, not cuDNN's.
    kinds = {"memcheck": (operators, max(3, cores // 3), {}), "racecheck": (operators, max(3, cores * 2 // 3), {}),
             "memcheck with channels last": (images, 2, CHANNELS_LAST), "racecheck with channels last": (images, 2, CHANNELS_LAST)}
    for kind, (some, parts, variables) in kinds.items():
        for part in range(min(parts, len(some))):
            name = f"sanitizer.{kind.replace(' ', '-')}.{part}"
            log = check.logs / f"{name}.log"
            prefix = [tool, "--tool", kind.split()[0], "--print-limit", "20", "--error-exitcode", "99", "--log-file", log]
            child, path = run_operators(check, case, name, some[part::parts], check.left(), prefix,
                                        {"UNITY_CUDA_TUNE": "0", **variables})
            runs.append((kind, child, path, log))
    wait_all([child for _, child, *_ in runs], check.left() - 2)
    result["tools"] = {kind: {"clean": [], "not run": [], "errors": [], "seconds": 0} for kind in kinds}
    unsupported = ""
    for kind, child, path, log in runs:
        found = result["tools"][kind]
        found["clean"] += [name for name, passed, *_ in read_catch2(path) if passed]
        found["seconds"] = max(found["seconds"], round(child.seconds or 0, 1))
        text = log.read_text(errors="replace") if log.exists() else ""
        if "not supported" in text and not found["clean"]:
            unsupported = next(line for line in text.splitlines() if "not supported" in line).lstrip("= ")
        lines = text.splitlines()
        for i, line in enumerate(lines):
            if SANITIZER_ERROR.match(line):
                found["errors"].append(" | ".join(part.lstrip("= ").strip() for part in lines[i:i + 3])[:300])
        if child.timed_out:
            result["state"] = "cut short"
        elif child.code not in (0, 99) and not found["errors"] and not unsupported:
            found["errors"].append(f"the program ended otherwise: {child.complaint()}")
    for kind, found in result["tools"].items():
        found["not run"] = [name for name in kinds[kind][0] if name not in found["clean"]]
        found["error count"], found["errors"] = len(found["errors"]), found["errors"][:40]
    errors = sum(found["error count"] for found in result["tools"].values())
    said = ", ".join(f"{kind} ran {len(found['clean'])} of {len(kinds[kind][0])} operators"
                     for kind, found in result["tools"].items())
    if errors:
        result.update(state="failed", reason=f"{errors} errors")
    elif unsupported:
        raise NotChecked(f"compute-sanitizer says: {unsupported}")
    elif not all(found["clean"] for kind, found in result["tools"].items() if kinds[kind][0]):
        raise NotChecked(said + (" before its time was over" if result["state"] == "cut short" else ""))
    elif any(found["not run"] for found in result["tools"].values()):
        result.update(state="cut short", reason=f"no error, but {said}")


def help_of(check, command):
    """Empty when there is no such command."""
    if not re.search(rf"^\s+{command}\s", check.run([check.unity, "--help"], "help", 10).out, re.M):
        return ""
    child = check.run([check.unity, command, "--help"], f"help.{command}", 10)
    return child.out if child.code == 0 else ""


def precisions_of(text):
    """Those of --precision in a command's help which the check uses."""
    line = re.search(r"--precision(.*?)(?=\n\s+-|\Z)", text, re.S)
    return [p for p in ("f32", "bf16") if line and re.search(rf"\b{p}\b", line.group(1))]


def profile(check, result):
    text = help_of(check, "profile")
    if not text:
        raise Skipped("this unity has no command 'profile'")
    precisions = precisions_of(text) or [""]
    if check.searches is None:
        start_background(check)
    settle(check)
    # Those of few tasks first: in which the time runs out are the last ones.
    plans = [plan_file(check, m, "data-parallel") for m in PROFILED if has_plan(check, m, "data-parallel")]
    plans += [plan_file(check, m, "shared") for m in SHARED if has_plan(check, m, "shared")]
    if not plans:
        raise Skipped("there are no plans to profile")
    result["profiles"] = {}
    for precision in precisions:
        budget = check.left() * (0.6 if precision == "f32" and len(precisions) > 1 else 1)
        path = check.out / f"profile.{precision or 'f32'}.yaml"
        options = ["--precision", precision] if precision else []
        child = check.run([check.unity, "profile", *plans, *ON_GPU, *options, "--budget", f"{max(1, budget - 4):.0f}",
                           "--task-seconds", "0.01", "-o", path, "--json"], f"profile.{precision or 'f32'}", budget)
        said = json_of(child)
        result["profiles"][precision or "f32"] = said if said else {"error": child.complaint()}
        if path.exists():
            result["profiles"][precision or "f32"]["file"] = path.name
        check.write()
    if any("error" in p for p in result["profiles"].values()):
        result.update(state="failed", reason="see profiles")


def unity_step(check, what, options, precision, steps, name, variables=None):
    child = check.run([check.unity, "run", what, *options, *ON_GPU, "--precision", precision, "--data", "synthetic",
                       "--steps", str(steps), "--json"], name, 60, variables)
    said = json_of(child)
    if not said:
        return CUT_SHORT if child.timed_out and check.left() < 1 else {"error": child.complaint()}
    return {"iteration_seconds": said["iteration_seconds"], "feed_seconds": said.get("feed_seconds"),
            "losses": [said["losses"][0], said["losses"][-1]], "memory_bytes": max(said["memory_bytes"]),
            "optimizer": said["optimizer"], "wall_seconds": round(child.seconds, 1)}


def read_lines(child):
    for line in child.out.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue


class Eager:
    """One process of PyTorch that times case after case; after one that ended it there is a new one."""

    def __init__(self, check):
        self.check, self.started = check, 0
        self.start()

    def start(self):
        self.started += 1
        self.child = self.check.python([program("step_times.py"), "--serve"], f"pytorch.eager.{self.started}",
                                       give_input=True)

    def time(self, case):
        if self.check.left() < 1:
            return CUT_SHORT
        if self.child.poll() is not None:
            self.start()
        try:
            self.child.tell(case + "\n")
        except OSError:
            return {"error": self.child.complaint()}
        while True:
            ended = self.child.poll() is not None  # what it said before it did counts
            said = next((line for line in read_lines(self.child) if line.get("case") == case), None)
            if said:
                return said
            if ended:
                return {"error": self.child.complaint()}
            if self.check.left() <= 0:
                self.child.end()
                return CUT_SHORT
            time.sleep(0.02)


def compiled_step(check, child):
    """The result of a process that waits, compiled and warm, for its turn."""
    said = [line for line in read_lines(child)]
    if said and "error" in said[-1]:
        return {"error": said[-1]["error"]}
    if child.poll() is not None and not child.timed_out:
        return {"error": child.complaint()}
    if not said or child.timed_out:
        return {"error": "was not compiled in time"}
    child.tell("go\n")
    child.process.stdin.close()
    child.wait(min(30, check.left()))
    return next((line for line in read_lines(child) if "iteration_seconds" in line), {"error": child.complaint()})


def ways_to_time():
    """(model, precision, way), the most telling first."""
    yield from ((*case, way) for case in FIRST for way in ("found", "compiled", "eager", "chains", "plain"))
    others = [case for case in TIMED if case not in FIRST]
    yield from ((*case, way) for case in others for way in ("found", "compiled", "eager"))
    yield from ((*case, way) for case in others for way in ("chains", "plain"))
    yield from ((*case, "rows") for case in FIRST if case[0] in IMAGE_MODELS)
    yield from ((*case, "without graphs") for case in FIRST)


def times(check, result):
    rows = result["rows"] = {f"{m} {p}": {"model": m, "precision": p} for m, p in TIMED}
    if check.compiled is None:
        start_compiling(check)
    if check.searches is None:
        start_background(check)
    eager = Eager(check)
    settle(check)

    def note(model, precision, key, value):
        rows[f"{model} {precision}"][key] = value
        check.write()

    for model, precision, way in ways_to_time():
        found = has_plan(check, model, "unity")
        as_written = (model, [*MODELS[model][0], *topology(check)])
        best_plan = (plan_file(check, model, "unity"), []) if found else as_written
        steps, name = (25 if (model, precision) in FIRST else 13), f"unity.{model}.{precision}.{way.replace(' ', '.')}"

        def unity(what, *more, **variables):
            return unity_step(check, what[0], [*what[1], *more], precision, steps, name, variables)

        key = {"found": "unity, plan found", "chains": "unity, chains", "plain": "unity",
               "rows": "unity, rows",
               "without graphs": "unity, without graphs"}.get(way, f"pytorch, {way}")
        if way == "found" and not found:
            continue
        if check.left() < 2:
            note(model, precision, key, CUT_SHORT)
        elif way == "eager":
            for mode in eager_modes(model):
                note(model, precision, f"pytorch, {mode}", eager.time(f"{model}:{precision}:{mode}"))
        elif way == "compiled":
            child = check.compiled.get((model, precision))
            note(model, precision, key, compiled_step(check, child) if child else {"error": "was not compiled in time"})
        elif way == "chains":
            note(model, precision, key, unity(best_plan, "--fuse", "chains"))
        elif way == "rows":
            note(model, precision, key, unity(best_plan, "--fuse", "chains", **ROWS))
        elif way == "without graphs":
            note(model, precision, key, unity(as_written, UNITY_CUDA_EAGER="1"))
        else:
            note(model, precision, key, unity(best_plan if way == "found" else as_written))
    entries = [(name, way, v) for name, row in rows.items() for way, v in row.items() if isinstance(v, dict)]
    cut = [f"{name} ({way})" for name, way, v in entries if "cut short" in v]
    if any(way.startswith("unity") and "error" in v for _, way, v in entries):
        result.update(state="failed", reason="not all steps of Unity could be timed")
    elif cut:
        result.update(state="cut short", reason=f"{len(cut)} of {len(entries)} were not timed: {', '.join(cut)}")


def validate(check, result):
    text = help_of(check, "validate")
    if check.searches is None:
        start_background(check)
    settle(check)
    profiles = {p: check.out / f"profile.{p}.yaml" for p in ("f32", "bf16")}
    precisions = [p for p in precisions_of(text) if p == "f32" or profiles[p].exists()] or ["f32"]
    jobs = [(m, "data-parallel", p) for p in precisions for m in PROFILED] + [(m, "shared", "f32") for m in SHARED]
    result["rows"] = {}
    for i, (model, strategy, precision) in enumerate(jobs):
        if check.left() < 5:
            result.update(state="cut short", reason=f"{len(jobs) - i} of {len(jobs)} were not reached")
            break
        if not has_plan(check, model, strategy):
            continue
        options = ["--precision", precision] if "--precision" in text else []
        if "--profile" in text and profiles[precision].exists():
            options += ["--profile", profiles[precision]]
        name = f"{model} {strategy} {precision}"
        child = check.run([check.unity, "validate", plan_file(check, model, strategy), *ON_GPU, *options, "--steps", "7",
                           "--json"],
                          "validate." + name.replace(" ", "."), 60)
        said = json_of(child)
        result["rows"][name] = {"error": child.complaint()} if not said else {
            **{k: said.get(k) for k in ("devices", "predicted_seconds", "measured_seconds", "task_mape",
                                        "task_rank_correlation", "profiled_tasks", "estimated_tasks", "groups")}, "profile": "--profile" in options}
        check.write()
    if not result["rows"]:
        raise Skipped("there are no plans to validate")
    result["agreement"] = agreement(result["rows"].values())


SECTIONS = {"environment": environment, "conformance": conformance, "training": training, "sanitizer": sanitizer,
            "profile": profile, "times": times, "validate": validate}
