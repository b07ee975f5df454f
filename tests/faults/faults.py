"""What the scripts of this folder share: commands that are killed, and what they may leave."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "cluster"))
from launch import HERE, MPIRUN, ROOT, Report, losses, parser, require_mpi, run, scratch, skip, unity  # noqa: F401


def descendants(pid):
    """All processes that this one started, and they, as far as they are there now."""
    children = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, ValueError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        more = children.get(todo.pop(), [])
        found += more
        todo += more
    return found


def kill_all(process):
    """The command and all that it started, at once; mpirun gives each rank a group of its own."""
    for pid in [process.pid, *descendants(process.pid)]:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        pass
    process.wait()


def start(command, folder):
    """In a group of its own; what it prints is in FOLDER/out and FOLDER/err."""
    with open(folder / "out", "w") as out, open(folder / "err", "w") as err:
        return subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, start_new_session=True)


def run_until(command, folder, seconds=None, watch=None):
    """True when the command ended by itself before `seconds` had passed, or `watch()` said so, and it was killed."""
    process = start(command, folder)
    end = time.monotonic() + (seconds if seconds is not None else 600)
    while process.poll() is None and time.monotonic() < end and not (watch and watch()):
        time.sleep(0.0005)
    if process.poll() is not None:
        return True
    kill_all(process)
    return False


def said(folder):
    return (folder / "err").read_text(errors="replace")


def timed(command, folder):
    """The seconds that it takes when nothing happens to it; it has to succeed."""
    begin = time.monotonic()
    if not run_until(command, folder) or said(folder).find("unity: error") >= 0:
        sys.exit(f"{' '.join(map(str, command))}\n{said(folder)}")
    return time.monotonic() - begin


def unfinished(folder):
    """Files that a command has not finished, or left so."""
    try:
        return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if ".tmp" in p.name or ".probe" in p.name)
    except OSError:  # one of them was renamed meanwhile
        return unfinished(folder)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def documents(folder):
    """All JSON documents below a folder, parsed: fails where one is half-written."""
    return {str(p.relative_to(folder)): json.loads(p.read_text()) for p in folder.rglob("*.json")}
