"""Strategy `unity` against strategy `exhaustive`, which scores the whole space, on random small graphs and machines.

python compare.py --unity build/release/bin/unity [--cases 200] [--first 0] [--seed 1] [--plans 8000] [--least 0] [-o result.json]

Cases take turns in numbers of operators and of devices. A case whose space has more plans than --plans, or fewer than --least, is drawn again, with
more and more of its dimensions odd, which are split in unequal parts or, in cases of many operators or devices, not at all. `unity` searches twice: as it
is, and in the exhaustive space alone (LIKE). Exit code 1 when a certificate is broken (a plan is faster than its lower bound), a plan of either search
is more than 1% slower than the optimum, or one of the exhaustive space is faster.
"""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

MOST_OPERATORS = {2: 5, 3: 6, 4: 3, 6: 3, 8: 2}  # by devices: of graphs whose space can be small enough
STRATA = [(n, d) for d, most in MOST_OPERATORS.items() for n in range(2, most + 1)]
WITH_UNEVEN = {2: 4, 3: 3, 4: 2, 6: 2, 8: 2}  # of those, whose space can be small with unequal parts, too
DRAWS = 8
SECONDS = 300  # that a search may take
# What the exhaustive space has not: several schedules, stored parts, graphs of more operators than the model, pipelines.
LIKE = ["--no-overlap", "--no-buckets", "--no-stored-parts", "--no-growth", "--no-templates", "--micro-batches", "1",
        "--parallelism", "data,model,reduction,head,spatial"]
EVEN = ["--no-uneven"]  # both searches of larger graphs
MACHINES = ["summit", "dgx-a100", "dgx-h100", "torus-2d"]
OF_FOUR = ["pcie-host", "laptop"]
CLUSTER = """format: unity-topology
version: 1
hierarchy: {{node: 2, gpu: {gpus}}}
device: v100-sxm2-16gb
switches: {{machine: [fabric], node: [nic]}}
links:
  - {{within: node, between: [gpu*, nic], kind: nvlink, bandwidth: {inside} GB/s, latency: 1 us}}
  - {{within: machine, between: [node*.nic, fabric], kind: infiniband, bandwidth: {between} GB/s, latency: 2 us}}
"""


class Model:
    """A random graph of so many operators, the loss included, as a model file."""

    def __init__(self, dice, operators, odd):
        self.dice, self.odd = dice, odd
        self.batch = self.size(8, 48, 384, 3072)
        self.inputs, self.weights, self.layers = {}, {}, []
        x, width = self.input(), None
        values = [x]
        while len(self.layers) < operators - 1:
            x = self.layer(values, operators - 1 - len(self.layers))
            values.append(x)
        result, width = x
        if dice.random() < 0.5:
            self.inputs["labels"] = "{shape: [batch], dtype: i32}"
            loss, labels = "cross_entropy", "labels"
        else:
            self.inputs["labels"] = f"{{shape: [batch, {width}]}}"
            loss, labels = "mean_squared_error", "labels"
        self.layers.append(("loss", loss, [result, labels], ""))

    def size(self, *sizes):
        return self.dice.choice(sizes) + (self.dice.random() < self.odd)

    def input(self):
        name, width = f"x{len(self.inputs)}", self.size(48, 384, 3072)
        self.inputs[name] = f"{{shape: [batch, {width}]}}"
        return name, width

    def add(self, op, inputs, attributes=""):
        name = f"{op}{len(self.layers)}"
        self.layers.append((name, op, inputs, attributes))
        return name

    def matmul(self, x, width):
        weight = f"w{len(self.weights)}"
        self.weights[weight] = f"{{shape: [{x[1]}, {width}]}}"
        return self.add("matmul", [x[0], weight]), width

    def layer(self, values, left):
        """One or more operators on earlier values; the last of them is on the newest."""
        x, kind = values[-1], self.dice.choice(["matmul", "matmul", "matmul", "relu", "gelu", "branch", "sum"])
        if not self.layers or (kind == "branch" and left < 3):
            kind = "matmul"
        if kind == "branch":  # two products of one value, added
            width = self.size(48, 384, 3072)
            a, b = self.matmul(x, width), self.matmul(self.dice.choice(values), width)
            return self.add("add", [a[0], b[0]]), width
        if kind == "sum":
            others = [v for v in values[:-1] if v[1] == x[1]]
            if others:
                return self.add("add", [x[0], self.dice.choice(others)[0]]), x[1]
        if kind in ("relu", "gelu"):
            return self.add(kind, [x[0]]), x[1]
        return self.matmul(x, self.size(48, 384, 3072))

    def text(self):
        lines = ["format: unity-model", "version: 1", "name: random", f"options: {{batch: {self.batch}}}", "inputs:"]
        lines += [f"  {name}: {shape}" for name, shape in self.inputs.items()] + ["weights:"]
        lines += [f"  {name}: {shape}" for name, shape in self.weights.items()] or ["  {}"]
        lines.append("layers:")
        lines += [f"  - {{name: {n}, op: {op}, inputs: [{', '.join(i)}]{a}}}" for n, op, i, a in self.layers]
        return "\n".join(lines + [f"outputs: [loss, {self.layers[-1][2][0]}]", ""])


def machine(dice, folder, number, devices):
    """Topology."""
    if dice.random() < 0.3 and devices % 2 == 0:
        path = folder / f"cluster{number}.yaml"
        gpus = devices // 2
        path.write_text(CLUSTER.format(gpus=gpus, inside=dice.choice([12, 50, 150]), between=dice.choice([3, 12, 25])))
        return str(path)
    return dice.choice(MACHINES + (OF_FOUR if devices <= 4 else []))


def search(unity, model, topology, devices, strategy, *more):
    command = [unity, "search", str(model), "--topology", topology, "--devices", str(devices), "--strategy", strategy,
               "--jobs", "1", "--json", *more]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None, f"took more than {SECONDS} s"
    return (json.loads(run.stdout), "") if run.returncode == 0 else (None, run.stderr.strip())


def case(arguments, folder, number):
    """The first of several draws whose space is small enough."""
    dice = random.Random(f"{arguments.seed} {number}")
    operators, devices = STRATA[number % len(STRATA)]
    even = EVEN if operators > WITH_UNEVEN[devices] else []
    if time.time() > arguments.end:
        return {"case": number, "operators": operators, "devices": devices, "late": True}
    for draw in range(DRAWS):
        odd = 0.15 * (operators - 2) + 0.1 * list(MOST_OPERATORS).index(devices) + 0.12 * draw
        model = Model(dice, operators, min(odd, 0.95))
        path = folder / f"model{number}-{draw}.yaml"
        path.write_text(model.text())
        topology = machine(dice, folder, number, devices)
        best, why = search(arguments.unity, path, topology, devices, "exhaustive", "--budget", str(arguments.plans),
                           *even)
        if best is not None:
            plans, graphs = map(int, re.match(r"all (\d+) plans of (\d+) graphs", best["stopped_because"]).groups())
            if plans < arguments.least:
                continue
        if best is None:
            if "have more than" in why or "took more" in why or "devices" in why:
                continue
            return {"case": number, "error": why, "model": model.text(), "topology": topology, "devices": devices}
        row = {"case": number, "operators": len(model.layers), "topology": pathlib.Path(topology).stem,
               "devices": devices, "plans": plans, "graphs": graphs, "scored": best["candidates"],
               "optimum": best["iteration_seconds"],
               "bound": best["lower_bound_seconds"], "model": model.text(), "draws": draw + 1, "even": bool(even),
               "seconds": best["search_seconds"]}
        for name, options in (("as it is", []), ("like", LIKE + even)):
            found, why = search(arguments.unity, path, topology, devices, "unity", *options)
            if found is None:
                return {"case": number, "error": why, "model": model.text(), "topology": topology, "devices": devices}
            row[name] = found["iteration_seconds"]
        return row
    return {"case": number, "operators": operators, "devices": devices, "skipped": True}


def told(row):
    if "late" in row:
        return row
    ratios = [f"{name} {row[name] / row['optimum']:.4f}" for name in ("as it is", "like") if name in row]
    print(f"case {row['case']}: {row.get('operators')} operators on {row['devices']} devices: "
          f"{row.get('plans', 'none')} plans, {row.get('draws', DRAWS)} draws", *ratios, file=sys.stderr, flush=True)
    return row


def report(rows):
    """Prints what the cases say; whether a goal is missed."""
    failed = [r for r in rows if "error" in r]
    skipped = [r for r in rows if "skipped" in r]
    rows = [r for r in rows if "optimum" in r]
    for r in failed:
        print(f"case {r['case']}: {r['error']}")
    counts = collections.Counter((r["operators"], r["devices"]) for r in rows)
    print("cases by operators (rows) and devices:\n  " + "".join(f"{d:>5}" for d in MOST_OPERATORS))
    for n in range(2, 7):
        print(n, "".join(f"{counts[n, d]:>5}" for d in MOST_OPERATORS))
    print(f"left out, as none of {DRAWS} draws was of that size: {len(skipped)}")
    bad = bool(failed)
    for name in ("as it is", "like"):
        ratio = {r["case"]: r[name] / r["optimum"] for r in rows}
        for r in sorted(rows, key=lambda r: -ratio[r["case"]]):
            if ratio[r["case"]] > 1:
                print(f"{name}: case {r['case']}: {100 * (ratio[r['case']] - 1):.2f}% over the optimum: {r['operators']} operators on "
                      f"{r['devices']} devices of {r['topology']}, {r['plans']} plans")
        within = sum(x <= 1.01 for x in ratio.values())
        broken = [r["case"] for r in rows if r["bound"] is not None and r["bound"] > min(r["optimum"], r[name])]
        faster = [c for c, x in ratio.items() if x < 1]
        print(f"{name}: {len(rows)} cases: {sum(x == 1 for x in ratio.values())} equal, {len(faster)} faster, {within} within 1%, "
              f"worst {max(ratio.values()):.4f}; faster than the optimum of its space: {faster}; certificates broken: {broken}")
        bad = bad or broken or within < len(rows) or (name == "like" and faster)
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unity", required=True)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plans", type=int, default=8000)
    parser.add_argument("--least", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e6, help="after which no case begins")
    parser.add_argument("-o", "--output")
    arguments = parser.parse_args()
    arguments.end = time.time() + 60 * arguments.minutes
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        rows = list(pool.map(lambda n: told(case(arguments, pathlib.Path(folder), n)),
                             range(arguments.first, arguments.first + arguments.cases)))
    if arguments.output:
        pathlib.Path(arguments.output).write_text(json.dumps(rows, indent=1))
    sys.exit(1 if report(rows) else 0)


if __name__ == "__main__":
    main()
