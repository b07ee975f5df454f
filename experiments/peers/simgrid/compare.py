#!/usr/bin/env python3
"""Unity's network engine against SimGrid's: finish times of random flow sets and of rings, and speed.

Both get the same links, routes and flows (unity simulate --flows --routes). SimGrid runs its plain max-min model, CM02 without TCP's
window and without cross traffic, at the tightest precision that it has. Exit code 1 when a finish time differs by more than --tolerance.
"""
import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

MODEL = ["--cfg=network/model:CM02", "--cfg=network/TCP-gamma:0", "--cfg=network/latency-factor:1",
         "--cfg=network/bandwidth-factor:1", "--cfg=network/weight-S:0", "--cfg=network/crosstraffic:0",
         "--log=root.thresh:warning"]
TIGHT = ["--cfg=surf/precision:1e-13", "--cfg=maxmin/precision:1e-9"]
MACHINES = [("summit", 1), ("summit", 2), ("summit", 4), ("dgx-a100", 2), ("dgx-h100", 2), ("dgx-v100", 2)]
DEVICES_PER_NODE = {"summit": 6, "dgx-a100": 8, "dgx-h100": 8, "dgx-v100": 8}


def run(command):
    result = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stderr}")
    return result.stdout


def random_flows(rng, devices):
    """Staggered starts, sizes over four decades, some after others, some empty, some from a device to itself."""
    flows = []
    for i in range(rng.randint(2, 80)):
        after = rng.sample(range(i), min(i, rng.choice([0, 0, 0, 1, 1, 2, 3])))
        size = rng.choice([0, rng.randint(1, 1000)] + 8 * [int(10 ** rng.uniform(4, 8))])
        flows.append({"id": i, "src": rng.randrange(devices), "dst": rng.randrange(devices), "bytes": size,
                      "start_s": rng.choice([0, rng.uniform(0, 5e-3)]), "after": after})
    return flows


def ring_flows(devices, size):
    part, steps = size // devices, 2 * (devices - 1)
    return [{"id": s * devices + e, "src": e, "dst": (e + 1) % devices, "bytes": part,
             "after": [] if s == 0 else [(s - 1) * devices + e, (s - 1) * devices + (e - 1) % devices]}
            for s in range(steps) for e in range(devices)]


class Comparison:
    def __init__(self, unity, peer, folder):
        self.unity, self.peer, self.folder = unity, peer, Path(folder)

    def unity_answer(self, flows, machine, nodes):
        file = self.folder / "flows.json"
        file.write_text(json.dumps({"flows": flows}))
        return json.loads(run([self.unity, "simulate", "--flows", file, "--topology", machine, "--nodes", nodes, "--routes",
                               "--json"]))

    def write_network(self, flows, answer):
        """The text that peer.cpp reads."""
        links, entries, routes = answer["links"], answer["flows"], {}
        lines = [f"links {len(links)}"] + [f"{l['bytes_per_second']!r} {l['latency_s']!r}" for l in links]
        for flow, entry in zip(flows, entries):
            if flow["src"] != flow["dst"]:
                routes[flow["src"], flow["dst"]] = entry["links"]
        lines.append(f"routes {len(routes)}")
        lines += [" ".join(map(str, [a, b, len(r), *r])) for (a, b), r in routes.items()]
        lines.append(f"flows {len(flows)}")
        for flow, entry in zip(flows, entries):
            latency = sum(links[l]["latency_s"] for l in entry["links"])
            lines.append(" ".join(map(str, [flow["src"], flow["dst"], flow["bytes"], flow.get("start_s", 0), latency,
                                            len(flow["after"]), *flow["after"]])))
        file = self.folder / "network.txt"
        file.write_text("\n".join(lines) + "\n")
        return file

    def flow_set(self, flows, machine, nodes):
        """The largest difference of a finish time, relative to it and in seconds."""
        answer = self.unity_answer(flows, machine, nodes)
        output = run([self.peer, "flows", self.write_network(flows, answer), *MODEL, *TIGHT])
        theirs = dict((int(i), float(t)) for i, t in (line.split() for line in output.splitlines()))
        # Unity rounds each end up to a picosecond, hence a chain of flows by as many: 1 us is the least to compare with.
        differences = [abs(entry["finish_s"] - theirs[i]) for i, entry in enumerate(answer["flows"])]
        relative = [d / max(theirs[i], 1e-6) for i, d in enumerate(differences)]
        return max(relative), max(differences)

    def ring(self, nodes, rounds):
        """Relative difference of the end, and SimGrid's transfers per second at its own precision."""
        devices, size = 6 * nodes, 192 * 500_000
        flows = ring_flows(devices, size)
        answer = self.unity_answer(flows, "summit", nodes)
        for entry in flows:  # the peer makes the ring itself
            entry["after"] = []
        network = self.write_network(flows[:devices], {**answer, "flows": answer["flows"][:devices]})
        _, end, _ = run([self.peer, "ring", network, devices, size, *MODEL, *TIGHT]).split()
        rates = []
        for _ in range(rounds):
            transfers, _, seconds = run([self.peer, "ring", network, devices, size, *MODEL]).split()
            rates.append(int(transfers) / float(seconds))
        return abs(answer["end_s"] - float(end)) / float(end), statistics.median(rates)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unity", required=True, help="the unity command")
    parser.add_argument("--peer", required=True, help="the program built from peer.cpp")
    parser.add_argument("--sets", type=int, default=300, help="random flow sets")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3, help="of the speed comparison")
    parser.add_argument("--tolerance", type=float, default=1e-6)
    o = parser.parse_args()
    rng = random.Random(o.seed)
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(o.unity, o.peer, folder)
        worst, seconds, flows_compared = 0.0, 0.0, 0
        for number in range(o.sets):
            machine, nodes = rng.choice(MACHINES)
            flows = random_flows(rng, DEVICES_PER_NODE[machine] * nodes)
            difference, absolute = comparison.flow_set(flows, machine, nodes)
            flows_compared += len(flows)
            worst, seconds = max(worst, difference), max(seconds, absolute)
            if difference > o.tolerance:
                print(f"set {number} on {machine} --nodes {nodes}: {difference:.3g}")
        print(f"{o.sets} random sets, {flows_compared} flows: finish times differ by at most {worst:.3g} of them, "
              f"{seconds * 1e12:.3g} ps")

        ours = json.loads(run([o.unity, "bench", "simulator", "--json"]))
        print(f"{'ring':>10} {'SimGrid [transfers/s]':>22} {'Unity [transfers/s]':>20} {'ratio':>7} {'end differs by':>15}")
        for nodes in (16, 32):
            difference, theirs = comparison.ring(nodes, o.rounds)
            rate = ours[f"ring_{6 * nodes}_transfers_per_second"]
            worst = max(worst, difference)
            print(f"{6 * nodes:>5} GPUs {theirs:>22,.0f} {rate:>20,.0f} {rate / theirs:>7.1f} {difference:>15.3g}")
    return 1 if worst > o.tolerance else 0


if __name__ == "__main__":
    sys.exit(main())
