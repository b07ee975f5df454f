"""How time and memory grow with the operators of a model, the devices of a machine, and the tasks of a Program.

python3 curves.py --unity build/release/bin/unity [--only operators,devices,tasks,search] [-o curves.json]

Each step doubles what the one before had. Seconds are of processors (user and system), so that other programs matter little; memory is the most
that was resident. `growth`: seconds over those of the step before; near 2 is linear. Exit code 1: something failed, or grew by more than --most.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

# A thin GPT-2: some 34 operators a layer, of which memory is no limit.
THIN = ["gpt2-small", "--option", "hidden=192", "--seq-len", "64", "--global-batch", "8", "--topology", "dgx-h100", "--nodes", "1"]
LAYERS = [75, 150, 300, 600]
NODES = [256, 512, 1024, 2048]


def run(command):
    """Processor seconds and peak bytes; the output."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen([str(c) for c in command], stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        out.seek(0)
        err.seek(0)
        text, error = out.read().decode(), err.read().decode()
    return {"code": os.waitstatus_to_exitcode(status), "seconds": usage.ru_utime + usage.ru_stime,
            "bytes": usage.ru_maxrss * 1024, "out": text, "error": error.strip()}


def operators(unity, folder):
    for layers in LAYERS:
        count = json.loads(run([unity, "show", "gpt2-small", "--layers", layers, "--json"])["out"])["operators"]
        plan = folder / f"layers{layers}.json"
        model = [THIN[0], "--layers", str(layers), *THIN[1:]]
        yield "operators: data parallelism found and scored", count, run([unity, "search", *model, "--strategy", "data-parallel", "-o", plan])
        yield "operators: plan read, lowered, simulated", count, run([unity, "simulate", plan])
        yield "operators: explained", count, run([unity, "explain", plan])
        yield "operators: drawn", count, run([unity, "export", plan, "--format", "dot", "-o", folder / "plan.dot"])


def search(unity, folder):
    for layers in LAYERS:
        count = json.loads(run([unity, "show", "gpt2-small", "--layers", layers, "--json"])["out"])["operators"]
        yield "operators: strategy unity on 8 devices", count, run([unity, "search", THIN[0], "--layers", layers, *THIN[1:]])


def devices(unity, folder):
    for nodes in NODES:
        machine = ["--topology", "dgx-h100", "--nodes", nodes]
        yield "devices: machine shown", 8 * nodes, run([unity, "show", "dgx-h100", "--nodes", nodes])
        yield "devices: data parallelism of bert-large found and scored", 8 * nodes, run(
            [unity, "search", "bert-large", *machine, "--strategy", "data-parallel", "-o", folder / f"nodes{nodes}.json"])


def tasks(unity, folder):
    for nodes in [80, 160, 320, 640, 2048]:
        plan = folder / f"tasks{nodes}.json"
        run([unity, "search", "bert-large", "--topology", "dgx-h100", "--nodes", nodes, "--strategy", "data-parallel", "-o", plan])
        result = run([unity, "simulate", plan, "--json"])
        count = json.loads(result["out"])["tasks"] if result["code"] == 0 else 0
        if result["code"] == 2 and "million tasks" in result["error"]:  # more than fits into this machine's memory
            print(f"| {result['error']} | | | | |", flush=True)
        else:
            yield "tasks: plan read, lowered, simulated", count, result


PARTS = {"operators": operators, "devices": devices, "tasks": tasks, "search": search}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unity", required=True)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--most", type=float, default=3.0, help="growth from one step to the next")
    parser.add_argument("-o", "--output", type=pathlib.Path)
    arguments = parser.parse_args()
    rows, bad = [], False
    print("| what | size | processor seconds | growth | peak memory |\n|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for part in arguments.only.split(","):
            if part not in PARTS:
                sys.exit(f"--only: found '{part}', expected some of {', '.join(PARTS)}")
            before = {}
            for what, size, result in PARTS[part](arguments.unity, pathlib.Path(folder)):
                if result["code"] != 0:
                    print(f"| {what} | {size:,} | exit code {result['code']}: {result['error']} | | |", flush=True)
                    bad = True
                    continue
                growth = result["seconds"] / before[what] if what in before else None
                before[what] = result["seconds"]
                # Below half a second, starting the program is what counts.
                bad = bad or (growth is not None and growth > arguments.most and result["seconds"] > 0.5)
                rows.append({"what": what, "size": size, "seconds": result["seconds"], "bytes": result["bytes"]})
                print(f"| {what} | {size:,} | {result['seconds']:.2f} | {f'{growth:.1f}' if growth else ''} | "
                      f"{result['bytes'] / 1e9:.2f} GB |", flush=True)
    if arguments.output:
        arguments.output.write_text(json.dumps(rows, indent=1) + "\n")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
