"""Strategy `unity` on models and machines by chance: against every baseline, and against itself with less allowed.

python3 random_models.py --unity build/release/bin/unity [--cases 20] [--first 0] [--seed 1] [--minutes 60] [-o result.json]

Every other case is one of the zoo's models in another size, the others are random graphs (of ../optimality/compare.py). What is found with a part of the
search or of the space left out is in the whole space, too, so that none of it may be faster. Exit code 1 when any is, by more than --tolerance.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "optimality"))
from compare import Model  # noqa: E402

BASELINES = ["data-parallel", "expert", "deepspeed-zero", "megatron-grid", "pipeline", "alpa-like", "algebra-then-parallel"]
LESS = [["--no-buckets"], ["--no-overlap"], ["--no-stored-parts"], ["--no-seeds"], ["--no-templates"], ["--no-algebra"], ["--no-growth"],
        ["--no-uneven"], ["--micro-batches", "1"], ["--parallelism", "data,model,reduction,head,spatial"]]
ZOO = {"mlp": {"layers": [2, 4, 6, 8], "hidden": [64, 256, 1024, 4096], "batch": [8, 32, 96, 480, 1920]},
       "bert-large": {"layers": [1, 2, 3], "seq-len": [32, 128, 512], "batch": [2, 8, 24, 96]},
       "gpt2-small": {"layers": [1, 2, 3], "seq-len": [32, 128, 512], "batch": [2, 8, 24]},
       "dlrm": {"batch": [64, 768, 6144]}, "xdl": {"batch": [64, 768, 6144]}, "candle-uno": {"batch": [32, 384, 3072]}}
MACHINES = {"summit": [2, 3, 4, 6, 8, 9, 12], "dgx-a100": [2, 4, 8], "laptop": [2], "torus-2d": [4]}


def case(dice, number, folder):
    """Model with its options, and the machine, as arguments of `unity search`."""
    if number % 2 == 0:
        model = dice.choice(list(ZOO))
        words = [model]
        for name, sizes in ZOO[model].items():
            words += ["--option", f"{name}={dice.choice(sizes)}"]
    else:
        path = folder / f"model{number}.yaml"
        path.write_text(Model(dice, dice.randint(4, 16), dice.choice([0, 0, 0.2])).text())
        words = [str(path)]
    machine = dice.choice(list(MACHINES))
    return words + ["--topology", machine, "--devices", str(dice.choice(MACHINES[machine]))]


def seconds(unity, words):
    """Of an iteration; None: there is no plan."""
    run = subprocess.run([unity, "search", *words, "--json"], capture_output=True, text=True)
    if run.returncode not in (0, 2):
        sys.exit(f"{' '.join(words)}: exit code {run.returncode}: {run.stderr.strip()}")
    return json.loads(run.stdout)["iteration_seconds"] if run.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unity", required=True)
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=1e6, help="after which no case begins")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("-o", "--output")
    arguments = parser.parse_args()
    end, rows = time.time() + 60 * arguments.minutes, []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.first, arguments.first + arguments.cases):
            if time.time() > end:
                break
            words = case(random.Random(f"{arguments.seed} {number}"), number, pathlib.Path(folder))
            ours = seconds(arguments.unity, words)
            others = {" ".join(more): seconds(arguments.unity, words + more)
                      for more in [["--strategy", name] for name in BASELINES] + LESS}
            faster = {name: other for name, other in others.items()
                      if other is not None and (ours is None or other < ours / (1 + arguments.tolerance))}
            rows.append({"case": number, "search": words, "unity": ours, "others": others, "faster": list(faster)})
            if words[0].endswith(".yaml"):
                rows[-1]["model"] = pathlib.Path(words[0]).read_text()
            told = ", ".join(f"{name} {100 * (ours / other - 1) if ours else float('inf'):.2f}%"
                             for name, other in sorted(faster.items(), key=lambda f: f[1]))
            print(f"case {number}: {' '.join(words)}: {'no plan' if ours is None else f'{1e3 * ours:.4g} ms'}"
                  f"{'; slower than ' + told if told else ''}", flush=True)
            if arguments.output:
                pathlib.Path(arguments.output).write_text(json.dumps(rows, indent=1))
    slower = [row for row in rows if row["faster"]]
    of_baselines = [row for row in slower if any(name.startswith("--strategy") for name in row["faster"])]
    print(f"{len(rows)} cases: slower than a baseline in {len(of_baselines)}, than itself with less allowed in {len(slower)}")
    sys.exit(1 if slower else 0)


if __name__ == "__main__":
    main()
