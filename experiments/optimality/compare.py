"""Strategy `unity` against strategy `exhaustive`, which scores the whole space, on random small graphs and machines.

python compare.py --unity build/release/bin/unity [--cases 200] [--seed 1] [--plans 4000] [--least 0] [-o result.json]

A case whose space has more plans than --plans, or fewer than --least, is drawn again. Exit code 1 when a certificate is broken (a plan is faster
than its lower bound), or a plan of `unity` is more than 1% slower than the optimum.
"""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import random
import subprocess
import sys
import tempfile

MACHINES = ["summit", "dgx-a100", "dgx-h100", "pcie-host", "laptop", "torus-2d"]
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
    """A random graph of at most six operators, the loss included, as a model file."""

    def __init__(self, dice):
        self.dice = dice
        self.batch = dice.choice([8, 48, 384, 3072])
        self.inputs, self.weights, self.layers = {}, {}, []
        operators = dice.randint(2, 6)
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

    def input(self):
        name, width = f"x{len(self.inputs)}", self.dice.choice([48, 384, 3072])
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
            width = self.dice.choice([48, 384, 3072])
            a, b = self.matmul(x, width), self.matmul(self.dice.choice(values), width)
            return self.add("add", [a[0], b[0]]), width
        if kind == "sum":
            others = [v for v in values[:-1] if v[1] == x[1]]
            if others:
                return self.add("add", [x[0], self.dice.choice(others)[0]]), x[1]
        if kind in ("relu", "gelu"):
            return self.add(kind, [x[0]]), x[1]
        return self.matmul(x, self.dice.choice([48, 384, 3072]))

    def text(self):
        lines = ["format: unity-model", "version: 1", "name: random", f"options: {{batch: {self.batch}}}", "inputs:"]
        lines += [f"  {name}: {shape}" for name, shape in self.inputs.items()] + ["weights:"]
        lines += [f"  {name}: {shape}" for name, shape in self.weights.items()] or ["  {}"]
        lines.append("layers:")
        lines += [f"  - {{name: {n}, op: {op}, inputs: [{', '.join(i)}]{a}}}" for n, op, i, a in self.layers]
        return "\n".join(lines + [f"outputs: [loss, {self.layers[-1][2][0]}]", ""])


def machine(dice, folder, number):
    """Topology and devices."""
    if dice.random() < 0.3:
        path = folder / f"cluster{number}.yaml"
        gpus = dice.choice([1, 1, 2, 2, 4])
        path.write_text(CLUSTER.format(gpus=gpus, inside=dice.choice([12, 50, 150]), between=dice.choice([3, 12, 25])))
        return str(path), 2 * gpus
    return dice.choice(MACHINES), dice.choice([2, 2, 3, 4, 4, 6, 8])


def search(unity, model, topology, devices, strategy, budget):
    command = [unity, "search", str(model), "--topology", topology, "--devices", str(devices), "--strategy", strategy,
               "--jobs", "1", "--json"] + (["--budget", str(budget)] if budget else [])
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return None, "took more than 120 s"
    return (json.loads(run.stdout), "") if run.returncode == 0 else (None, run.stderr.strip())


def case(arguments, folder, number):
    """The first of several draws whose space is small enough."""
    dice = random.Random(f"{arguments.seed} {number}")
    for draw in range(40):
        model = Model(dice)
        path = folder / f"model{number}-{draw}.yaml"
        path.write_text(model.text())
        topology, devices = machine(dice, folder, number)
        best, why = search(arguments.unity, path, topology, devices, "exhaustive", arguments.plans)
        if best is not None and best["candidates"] < arguments.least:
            continue
        if best is None:
            if "have more than" in why or "120 s" in why or "devices" in why:
                continue
            return {"case": number, "error": why, "model": model.text(), "topology": topology, "devices": devices}
        found, why = search(arguments.unity, path, topology, devices, "unity", None)
        if found is None:
            return {"case": number, "error": why, "model": model.text(), "topology": topology, "devices": devices}
        return {"case": number, "operators": len(model.layers), "topology": pathlib.Path(topology).stem,
                "devices": devices, "plans": best["candidates"], "optimum": best["iteration_seconds"],
                "unity": found["iteration_seconds"], "ratio": found["iteration_seconds"] / best["iteration_seconds"],
                "bound": best["lower_bound_seconds"], "model": model.text(), "draws": draw + 1}
    return {"case": number, "skipped": "none of 40 draws was of that size"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unity", required=True)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plans", type=int, default=4000)
    parser.add_argument("--least", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-o", "--output")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        rows = list(pool.map(lambda n: case(arguments, pathlib.Path(folder), n), range(arguments.cases)))
    if arguments.output:
        pathlib.Path(arguments.output).write_text(json.dumps(rows, indent=1))
    failed = [r for r in rows if "error" in r]
    skipped = sum("skipped" in r for r in rows)
    rows = [r for r in rows if "ratio" in r]
    for r in failed:
        print(f"case {r['case']}: {r['error']}")
    worse = [r for r in rows if r["ratio"] > 1]
    for r in sorted(worse, key=lambda r: -r["ratio"]):
        print(f"case {r['case']}: {100 * (r['ratio'] - 1):.2f}% over the optimum: {r['operators']} operators on "
              f"{r['devices']} devices of {r['topology']}, {r['plans']} plans")
    for what in ("operators", "devices"):
        counts = collections.Counter(r[what] for r in rows)
        print(f"{what}: " + ", ".join(f"{n}: {counts[n]}" for n in sorted(counts)))
    within = sum(r["ratio"] <= 1.01 for r in rows)
    broken = [r["case"] for r in rows if r["bound"] is not None and r["bound"] > min(r["optimum"], r["unity"])]
    faster = [r["case"] for r in rows if r["ratio"] < 1]
    print(f"{len(rows)} cases ({skipped} left out: none of 40 draws was of that size): {sum(r['ratio'] == 1 for r in rows)} equal, {len(faster)} faster, {within} within 1%, "
          f"worst {max(r['ratio'] for r in rows):.4f}; faster than the optimum of its space: {faster}; certificates broken: {broken}")
    sys.exit(1 if failed or broken or within < len(rows) else 0)


if __name__ == "__main__":
    main()
