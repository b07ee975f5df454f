"""Does the simulator put plans in the order in which they run? Plans of small models on logical CPU devices, predicted and measured.

python3 compare.py --unity build/release/bin/unity -o out/rank-correlation [--models mlp,bert] [--devices 4] [--rounds 3] [--steps 41] [--quantile 0.5]

Makes plans (strategies, searches of parts of the space, chance), leaves out those that are predicted exactly alike, profiles this machine for their tasks,
measures all plans of a model in turns, --rounds times, and prints Spearman's rank correlation by model, with that of one half of the rounds against the
other: what measurements lack in repeatability no prediction makes up for. What is in OUT already is kept: plans, the
profile, measurements (`--again` measures anew). The machine should be idle: the load is printed. Exit code 1 below --goal.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from agreement import mean_error, spearman  # noqa: E402

MODELS = {
    "mlp": ["mlp", "--global-batch", "64", "--layers", "4", "--option", "hidden=512"],
    "bert": ["bert-large", "--global-batch", "4", "--layers", "2", "--seq-len", "32", "--option", "hidden=128", "--option",
             "heads=2", "--option", "vocab=1024"],
    "dlrm": ["dlrm", "--global-batch", "128", "--option", "rows=5000"],
    "resnet": ["resnet-50", "--global-batch", "4", "--option", "image=64", "--option", "blocks=1", "--option", "divisor=4"],
    "gpt": ["gpt2-small", "--global-batch", "4", "--layers", "2", "--seq-len", "64", "--option", "hidden=128", "--option",
            "heads=2", "--option", "vocab=1024"],
    "candle-uno": ["candle-uno", "--global-batch", "64", "--layers", "2", "--option", "hidden=256", "--option",
                   "features=320", "--option", "top-layers=2"],
    "xdl": ["xdl", "--global-batch", "128", "--option", "rows=5000"],
    "resnext": ["resnext-50", "--global-batch", "4", "--option", "image=64", "--option", "blocks=1", "--option", "divisor=4"],
    "inception": ["inception-v3", "--global-batch", "4", "--option", "image=75", "--option", "divisor=4"],
}
BASELINES = ["data-parallel", "expert", "deepspeed-zero", "flexflow", "algebra-then-parallel", "megatron-grid", "pipeline"]
KINDS = ["data", "model,reduction", "data,model", "data,model,reduction,head"]
LEAST = 10


def variants(randoms):
    """Name and options of each plan that is tried."""
    yield from ((b, ["--strategy", b, "--budget", "200"]) for b in BASELINES)
    yield "unity", ["--budget", "1000"]
    yield "unseeded", ["--budget", "1000", "--no-seeds"]
    yield from ((f"unity {k}", ["--budget", "1000", "--parallelism", k]) for k in KINDS)
    yield from ((f"random {seed}", ["--strategy", "random", "--seed", str(seed)]) for seed in range(1, randoms + 1))


def run(command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True)


def checked(command):
    result = run(command)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stderr}")
    return result.stdout


def plans_of(unity, model, devices, folder, randoms):
    """Plan files by name, without those predicted exactly as an earlier one; and why others are missing."""
    folder.mkdir(parents=True, exist_ok=True)
    seen, plans, missing = {}, {}, {}
    for name, options in variants(randoms):
        file = folder / (name.replace(" ", "-").replace(",", "-") + ".json")
        if not file.exists():
            result = run([unity, "search", *MODELS[model], "--topology", "laptop", "--devices", devices, *options, "-o", file])
            if result.returncode != 0:
                missing[name] = result.stderr.strip().replace("unity: error: ", "")
                continue
        key = json.dumps(json.loads(file.read_text())["prediction"], sort_keys=True)  # time to the picosecond, bytes, peak
        if key in seen:
            missing[name] = f"the same as {seen[key]}"
            continue
        seen[key] = name
        plans[name] = file
    return plans, missing


def in_order(rows):
    """Of the pairs that differ by more than a tenth when measured, the share that is predicted in the same order."""
    pairs = [(a, b) for a in rows for b in rows if a["measured_seconds"] > 1.1 * b["measured_seconds"]]
    right = sum(a["predicted_seconds"] > b["predicted_seconds"] for a, b in pairs)
    return right / len(pairs) if pairs else float("nan")


def measured(arguments, model, plans, profile):
    """Predicted and measured seconds by name, and the load while they were measured."""
    file = arguments.output / f"{model}.json"
    if file.exists() and not arguments.again:
        return json.loads(file.read_text())
    before = os.getloadavg()[0]
    out = checked([arguments.unity, "validate", *plans.values(), "--profile", profile, "--rounds", arguments.rounds, "--steps",
                   arguments.steps, "--quantile", arguments.quantile, "--json"])
    out = json.loads(out)
    kept = ("predicted_seconds", "measured_seconds", "measured_seconds_of_rounds")
    rows = [{"plan": name, **{k: p[k] for k in kept}} for name, p in zip(plans, out["plans"])]
    result = {"rows": rows, "repeatability": out.get("repeatability"), "load": [before, os.getloadavg()[0]]}
    file.write_text(json.dumps(result, indent=1) + "\n")
    return result


def summary(model, result):
    def correlation(rows):
        return spearman([r["predicted_seconds"] for r in rows], [r["measured_seconds"] for r in rows])

    rows = result["rows"]
    found = [r for r in rows if not r["plan"].startswith("random")]
    chosen = min(rows, key=lambda r: r["predicted_seconds"])["measured_seconds"]
    fastest = min(r["measured_seconds"] for r in rows)
    error = mean_error([r["predicted_seconds"] for r in rows], [r["measured_seconds"] for r in rows])
    return {"model": model, "plans": len(rows), "spread": max(r["measured_seconds"] for r in rows) / fastest,
            "error": error, "correlation": correlation(rows), "found": len(found), "of_found": correlation(found),
            "in_order": in_order(rows), "repeatability": result.get("repeatability"),
            "regret": chosen / fastest - 1, "load": result["load"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unity", required=True)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--devices", type=int, default=4, help="logical devices, a core or a part of one each")
    parser.add_argument("--random", type=int, default=8, help="plans by chance, of each model")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=41)
    parser.add_argument("--quantile", type=float, default=0.5)
    parser.add_argument("--goal", type=float, default=0.9)
    parser.add_argument("--again", action="store_true", help="measure anew, with the plans and the profile that are there")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    models = arguments.models.split(",")
    for model in models:
        if model not in MODELS:
            sys.exit(f"--models: found '{model}', expected some of {', '.join(MODELS)}")
    plans = {}
    for model in models:
        plans[model], missing = plans_of(arguments.unity, model, arguments.devices, arguments.output / "plans" / model, arguments.random)
        print(f"{model}: {len(plans[model])} plans", file=sys.stderr)
        for name, why in missing.items():
            print(f"  without {name}: {why}", file=sys.stderr)
        if len(plans[model]) < LEAST:
            sys.exit(f"{model}: {len(plans[model])} different plans, expected at least {LEAST}; see --random")
    profile = arguments.output / "profile.yaml"
    every = [file for of_model in plans.values() for file in of_model.values()]
    checked([arguments.unity, "profile", *every, "--curves", "-o", profile])
    results = {model: measured(arguments, model, plans[model], profile) for model in models}
    lines = [summary(model, result) for model, result in results.items()]
    print("| model | plans | slowest / fastest | mean error | rank correlation | measured again | without those by chance | pairs in order | predicted best over fastest | load |\n"
          "|---|---:|---:|---:|---:|---:|---:|---:|---:|---|")
    for l in lines:
        print(f"| {l['model']} | {l['plans']} | {l['spread']:.2f} | {100 * l['error']:.1f}% | {l['correlation']:.3f} | "
              f"{'-' if l['repeatability'] is None else format(l['repeatability'], '.3f')} | {l['of_found']:.3f} ({l['found']}) | {100 * l['in_order']:.0f}% | {100 * l['regret']:.1f}% | {l['load'][0]:.1f} to {l['load'][1]:.1f} |")
    sys.exit(0 if all(l["correlation"] >= arguments.goal for l in lines) else 1)


if __name__ == "__main__":
    main()
