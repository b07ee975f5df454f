"""What the scripts of this folder share: starting unity in several processes, and saying how it went."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

# On one machine, with more ranks than cores.
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
          "--mca", "btl_vader_single_copy_mechanism", "none"]
if os.geteuid() == 0:
    MPIRUN.insert(1, "--allow-run-as-root")


def parser(description):
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--build", type=Path, default=ROOT / "build/release", help="build folder")
    p.add_argument("--quick", action="store_true", help="only what takes seconds")
    return p


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def require_mpi(build):
    if not shutil.which("mpirun"):
        skip("mpirun is not there (Debian: openmpi-bin)")
    if not (build / "lib/unity/libunity_mpi.so").exists():
        skip("unity was built without MPI (Debian: libopenmpi-dev), or not at all")


def unity(build):
    return str(build / "bin/unity")


def run(command, timeout=300, **options):
    """The finished process, and the seconds it took; exit code None when it did not end."""
    start = time.monotonic()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, **options)
    except subprocess.TimeoutExpired as e:
        text = lambda b: b.decode(errors="replace") if isinstance(b, bytes) else (b or "")
        done = subprocess.CompletedProcess(command, None, text(e.stdout), text(e.stderr))
    return done, time.monotonic() - start


def said_by(text):
    """What unity said of errors, by rank: lists of messages."""
    found = {}
    for rank, message in re.findall(r"^unity: error: rank (\d+): (.*)$", text, re.MULTILINE):
        found.setdefault(int(rank), []).append(message)
    return found


def all_say(text, ranks, *parts):
    """Whether each of so many ranks has said one message with all the parts."""
    said = said_by(text)
    return all(any(all(p in m for p in parts) for m in said.get(r, [])) for r in range(ranks))


def by_rank(folder, rank, then, otherwise):
    """A script that becomes one command in a rank, and another in the others."""
    path = folder / "by-rank"
    path.write_text(f"#!/bin/sh\nif [ \"${{OMPI_COMM_WORLD_RANK:-$SLURM_PROCID}}\" = {rank} ]; then {then}\n"
                    f"else {otherwise}; fi\n")
    path.chmod(0o755)
    return str(path)


def losses(done):
    return json.loads(done.stdout)["losses"]


class Report:
    """Counts what was as expected, and prints what was not."""

    def __init__(self):
        self.right = self.wrong = 0

    def check(self, holds, what, details=""):
        self.right += bool(holds)
        self.wrong += not holds
        print(f"{'ok  ' if holds else 'FAIL'}  {what}" + ("" if holds or not details else f"\n{details}"), flush=True)
        return holds

    def end(self):
        print(f"{self.right} as expected, {self.wrong} not")
        sys.exit(1 if self.wrong or not self.right else 0)


def scratch():
    return tempfile.TemporaryDirectory(prefix="unity-cluster-")
