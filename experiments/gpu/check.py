"""What scripts/gpu_check does: sections in a fixed order, each within its share of the time, each result written at once."""
import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import report
from processes import Child, end_children

# Shares of the time that is left, by section.
WEIGHTS = {"environment": 3, "conformance": 12, "training": 6, "sanitizer": 14, "profile": 20, "times": 34, "validate": 14}


NOT_CHECKED = 3  # the exit code when nothing failed, but a part that has to be clean could not be checked


class Skipped(Exception):
    """A section has nothing to do here, for this reason."""


class NotChecked(Exception):
    """A section had something to check and could not, for this reason."""


class Check:
    """Where things are, how much time there is, and what was found so far."""

    def __init__(self, folder, is_bundle, out, minutes):
        self.folder, self.is_bundle, self.out = folder, is_bundle, out
        self.end = time.monotonic() + 60 * minutes - 5
        self.section_end = self.end
        self.logs = out / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.searches = self.compiled = None  # of plans, by PyTorch; in the background
        self.machine = "h200"  # the topology that describes the GPU best
        self.results = {"format": "unity-gpu-check", "version": 1, "minutes": minutes, "sections": {}}
        self.environment = dict(os.environ)
        if is_bundle:
            text = subprocess.run([folder / "run", "--environment"], check=True, capture_output=True, text=True).stdout
            self.environment.update(line.split("=", 1) for line in text.splitlines())
        else:
            topologies = pathlib.Path(__file__).resolve().parents[2] / "topologies"
            self.environment.setdefault("UNITY_TOPOLOGIES", str(topologies))
        # PyTorch finds its own libraries.
        self.python_environment = dict(os.environ)
        self.unity, self.tests = folder / "bin" / "unity", folder / "bin" / "test_device"

    def left(self):
        return max(0.0, self.section_end - time.monotonic())

    def start(self, command, name, environment=None, **more):
        return Child(command, self.logs / name, {**self.environment, **(environment or {})}, **more)

    def run(self, command, name, limit=None, environment=None):
        return self.start(command, name, environment).wait(self.left() if limit is None else min(limit, self.left()))

    def python(self, arguments, name, **more):
        return Child([sys.executable, *arguments], self.logs / name, self.python_environment, **more)

    def write(self):
        for name, text in (("results.json", json.dumps(self.results, indent=1) + "\n"),
                           ("report.txt", report.text(self.results))):
            part = self.out / (name + ".part")
            part.write_text(text)
            part.replace(self.out / name)


def find_gpu(check):
    """The names of the GPUs there are, and why Unity cannot run on them (empty: it can)."""
    gpus = [f"a GPU at {path}" for path in sorted(glob.glob("/dev/nvidia[0-9]*"))]
    if shutil.which("nvidia-smi"):
        listed = check.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], "gpus", 20)
        gpus = [line.strip() for line in listed.out.splitlines() if line.strip()] if listed.code == 0 else gpus
    if any("H100" in name for name in gpus):
        check.machine = "h100"
    probe = check.run([check.unity, "run", "mlp-tiny", "--backend", "cuda", "--topology", check.machine, "--devices", "1",
                       "--data", "synthetic", "--steps", "1", "--json"], "probe", 60)
    return gpus, "" if probe.code == 0 else probe.complaint()


def run_section(check, name, function, share):
    began = time.monotonic()
    check.section_end = began + max(0, check.end - began) * share
    result = {"state": "running"}
    check.results["sections"][name] = result
    check.write()
    try:
        function(check, result)
        if result["state"] == "running":
            result["state"] = "done"
    except Skipped as why:
        result.update(state="skipped", reason=str(why))
    except NotChecked as why:
        result.update(state="not checked", reason=str(why))
    except Exception as e:  # a mistake in one section leaves the others
        result.update(state="failed", reason=f"{type(e).__name__}: {e}")
    result["seconds"] = round(time.monotonic() - began, 1)
    check.write()
    print(f"{name}: {result['state']} in {result['seconds']} s"
          + (f": {result['reason']}" if result.get("reason") else ""), file=sys.stderr, flush=True)


def run_check(check, sections, only, early):
    """Runs the sections {name: function}; returns the exit code. early: {section: what is started in the background
    before the first section, so that it is ready when that one begins}."""
    def stop(signum, frame):
        check.results["stopped"] = f"by signal {signum}"
        check.write()
        end_children(Child.started)
        os._exit(1)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    wanted = [name for name in WEIGHTS if name in only]
    check.section_end = check.end
    gpus, why = find_gpu(check)
    check.results["gpus"] = gpus
    if why:
        check.results["why_no_device"] = why
    if not why:
        for start in dict.fromkeys(early[name] for name in wanted if name in early):
            start(check)
    for i, name in enumerate(wanted):
        share = WEIGHTS[name] / sum(WEIGHTS[w] for w in wanted[i:])
        if name != "environment" and why:
            if gpus:
                check.results["sections"][name] = {"state": "failed", "reason": f"there is {gpus[0]}, but: {why}"}
            else:
                check.results["sections"][name] = {"state": "skipped", "reason": "no CUDA device"}
                print(f"{name}: skipped: no CUDA device", file=sys.stderr)
            check.write()
            continue
        run_section(check, name, sections[name], share)
    end_children(Child.started)
    states = {name: check.results["sections"][name]["state"] for name in wanted if name in report.MUST_BE_CLEAN}
    # A sanitizer that met no error before its time was over is as clean as it can be told, and says how far it came.
    failed = [name for name, state in states.items() if state not in ("done", "skipped", "not checked")
              and not (name == "sanitizer" and state == "cut short")]
    not_checked = [name for name, state in states.items() if state == "not checked"]
    check.results.update({"not clean": failed, "not checked": not_checked, "clean": not failed and not not_checked})
    check.write()
    return 1 if failed else NOT_CHECKED if not_checked else 0
