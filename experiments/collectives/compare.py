"""Lays predictions of collectives over published results of nccl-tests: with NCCL's constants as they are, and after fitting the
figures marked `fit` in published.yaml, each of them from one size on one system.

python compare.py --unity build/release/bin/unity [--goal 0.15]

Needs PyYAML. Exit code 1 when a fitted prediction that is not marked `beyond` misses the goal.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

try:
    import yaml
except ImportError:
    sys.exit("compare.py needs PyYAML (Debian: python3-yaml)")

HERE = pathlib.Path(__file__).resolve().parent


def predict(unity, topologies, figure):
    """Seconds and bus bandwidth in GB/s of one figure's collective."""
    command = [unity, "simulate", "--json", "--collective", figure.get("collective", "all_reduce")]
    for option in ("topology", "nodes", "devices", "bytes"):
        if option in figure:
            command += [f"--{option}", str(figure[option])]
    command += ["--collective-algorithm", figure.get("algorithm", "auto")]
    if "protocol" in figure:
        command += ["--collective-protocol", figure["protocol"]]
    run = subprocess.run(command, env={**os.environ, "UNITY_TOPOLOGIES": str(topologies)}, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)}: {run.stderr.strip()}")
    result = json.loads(run.stdout)
    return result["seconds"], result["bus_bandwidth"] / 1e9


def ratio(figure, prediction):
    """Predicted over published."""
    seconds, bandwidth = prediction
    return bandwidth / figure["bus_bandwidth"] if "bus_bandwidth" in figure else seconds * 1e6 / figure["time"]


def microseconds(text):
    number, unit = text.split()
    assert unit == "us", text
    return float(number)


def apply_fit(library, figure, prediction):
    """Changes the library's parameter so that the figure comes out."""
    if figure["fit"] == "link_efficiency":  # large sizes: the time is that of the bytes; one factor for all NVLinks
        entry = next(m for m in library["machines"] if any(d in figure["system"] for d in m["devices"]))
        fitted = entry["link_efficiency"]["nvlink"] / ratio(figure, prediction)
        for machine in library["machines"]:
            machine["link_efficiency"]["nvlink"] = fitted
        return f"usable fraction of NVLinks: {fitted:.3f}"
    costs = library["protocols"]["Simple"]["in_switch"]  # small sizes: the time is the latency
    fitted = microseconds(costs["nvlink"]) + figure["time"] - prediction[0] * 1e6
    costs["nvlink"] = f"{fitted:.4f} us"
    return f"latency of the switch: {fitted:.2f} us"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--unity", default="build/release/bin/unity")
    parser.add_argument("--goal", type=float, default=0.15)
    options = parser.parse_args()
    figures = yaml.safe_load((HERE / "published.yaml").read_text())["figures"]
    source = HERE.parent.parent / "topologies"
    before = [predict(options.unity, source, f) for f in figures]
    with tempfile.TemporaryDirectory() as folder:
        topologies = pathlib.Path(folder) / "topologies"
        shutil.copytree(source, topologies)
        file = topologies / "collectives" / "nccl.yaml"
        library = yaml.safe_load(file.read_text())
        for figure, prediction in zip(figures, before):
            if "fit" in figure:
                print(f"fitted from {figure['system']}, {figure['bytes']}: {apply_fit(library, figure, prediction)}")
        file.write_text(yaml.safe_dump(library, sort_keys=False))
        after = [predict(options.unity, topologies, f) for f in figures]

    print(f"\n{'system':20} {'size':>6} {'published':>12} {'constants':>12} {'ratio':>6} {'fitted':>12} {'ratio':>6}")
    missed = 0
    for figure, plain, fitted in zip(figures, before, after):
        bandwidth = "bus_bandwidth" in figure
        show = (lambda p: f"{p[1]:.1f} GB/s") if bandwidth else (lambda p: f"{p[0] * 1e6:.1f} us")
        published = f"{figure['bus_bandwidth']} GB/s" if bandwidth else f"{figure['time']} us"
        far = abs(ratio(figure, fitted) - 1) > options.goal
        missed += far and "beyond" not in figure
        note = "fit" if "fit" in figure else "beyond the goal's figures" if "beyond" in figure else "MISSED" if far else ""
        print(f"{figure['system']:20} {str(figure['bytes']):>6} {published:>12} {show(plain):>12} {ratio(figure, plain):6.2f} "
              f"{show(fitted):>12} {ratio(figure, fitted):6.2f}  {note}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
