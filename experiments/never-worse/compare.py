"""Strategy `unity`, seeded with baselines' plans and not, against every baseline: plans are written, then simulated from their files.

python3 compare.py --unity build/release/bin/unity -o out/never-worse [--only devices=1,2 --only model=mlp] [--jobs 1] [--tolerance 1e-4]

Goes on where it stopped. --no-search compares what is there. --frozen FILE (else the one beside this script) holds the fastest plans of former
runs, MODEL-GPUS-VARIANT.json: of baselines, which count as one, and of `unity`, with which it is compared; --freeze FILE writes them, with
those of this run where these are faster. OUT/searches is the sweep (unity sweep); OUT/results.json and .csv hold the iterations
simulated from the plan files, with those of the search as `searched_seconds`; `unity report OUT/results.json` draws them; OUT/table.md is what is printed.
Exit code 1 when one of the two is slower than a baseline by more than the tolerance, or has no plan where it was searched and a baseline has one, or a plan's
file is not simulated as its search said.
"""
import argparse
import csv
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

OURS = ["unity", "unseeded"]
FROZEN = "frozen"  # of baselines, as a variant
HERE = pathlib.Path(__file__).resolve().parent


def write(path, text):
    beside = path.with_name(path.name + ".new")
    beside.write_text(text)
    beside.replace(path)


def simulated(unity, searches, row):
    """The row with the iteration that its plan file has."""
    row = dict(row)
    if "error" in row:
        return row
    if "iteration_seconds" in row:
        row["searched_seconds"] = row.pop("iteration_seconds")
    row["plan"] = str(searches / "plans" / pathlib.Path(row["plan"]).name)
    run = subprocess.run([unity, "simulate", row["plan"], "--json"], capture_output=True, text=True)
    if run.returncode != 0:
        row["error"] = f"plan file: {run.stderr.strip()}"
        return row
    found = json.loads(run.stdout)
    row["iteration_seconds"], row["samples_per_second"] = found["iteration_seconds"], found["samples_per_second"]
    row["peak_memory_bytes"] = max(d["peak_memory_bytes"] for d in found["devices"])
    return row


def unpacked(archive, folder):
    """The paths of frozen plans by model, GPUs and whether they are ours; what they are called tells."""
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    found = {}
    for path in sorted(folder.glob("*.json")):
        model, devices, variant = re.fullmatch(r"(.+?)-(\d+)-([a-z].*)", path.stem).groups()
        found[model, int(devices), variant in OURS] = path
    return found


def frozen_row(unity, place, path):
    model, devices, _ = place
    row = {"point": f"frozen {path.name}", "model": model, "devices": devices, "variant": FROZEN, "plan": str(path)}
    return simulated(unity, path.parent.parent, row)


def freeze(archive, rows, paths, frozen):
    """Of each point the fastest plan of a baseline and of ours; frozen ones stay where none is faster or none was searched."""
    plans = {place: (frozen.get(place, {}).get("iteration_seconds", math.inf), path, path.name) for place, path in paths.items()}
    for row in rows:
        if "iteration_seconds" not in row or row["variant"] == FROZEN:
            continue
        place = row["model"], row["devices"], row["variant"] in OURS
        name = f"{row['model']}-{row['devices']}-{row['variant']}.json"
        if place not in plans or row["iteration_seconds"] < plans[place][0]:
            plans[place] = row["iteration_seconds"], row["plan"], name
    beside = archive.with_name(archive.name + ".new")
    with tarfile.open(beside, "w:xz", preset=9) as tar:
        for _, path, name in (plans[place] for place in sorted(plans)):
            info = tar.gettarinfo(path, name)
            info.mtime, info.uid, info.gid, info.uname, info.gname = 0, 0, 0, "", ""
            with open(path, "rb") as file:
                tar.addfile(info, file)
    beside.replace(archive)


def why_none(row):
    """memory: its plan does not fit; does not apply; failed: anything else."""
    error = row["error"]
    if error.startswith("plan file"):
        return "failed"
    return "memory" if " needs " in error and ", which " in error else "does not apply"


def places(rows):
    """Rows by model and number of GPUs, then by variant."""
    found = {}
    for row in rows:
        found.setdefault((row["model"], row["devices"]), {})[row["variant"]] = row
    return found


def line(model, devices, variants):
    """One row of the table; None as long as neither of ours is there."""
    ours = {name: variants.get(name, {}).get("iteration_seconds", math.inf) for name in OURS}
    baselines = {n: r["iteration_seconds"] for n, r in variants.items() if n not in OURS and "iteration_seconds" in r}
    if not any(name in variants for name in OURS) or not baselines:
        return None
    best = min(baselines, key=baselines.get)
    return {"model": model, "devices": devices, "best": best, "best_seconds": baselines[best],
            **{name: ours[name] for name in OURS}, **{f"{name}_ratio": ours[name] / baselines[best] for name in OURS},
            "searched": [name for name in OURS if name in variants],
            "complete": len([n for n in variants if n not in (*OURS, FROZEN)]),
            "memory": [n for n, r in variants.items() if "error" in r and why_none(r) == "memory"]}


def markdown(lines):
    def seconds(value):
        return "-" if math.isinf(value) else f"{1e3 * value:.4g}"

    def ratio(value):
        return "-" if math.isinf(value) else f"{value:.4f}"

    text = ["| model | GPUs | best baseline | its iteration, ms | unity, ms | unity / best | unseeded / best | do not fit |",
            "|---|---:|---|---:|---:|---:|---:|---|"]
    for l in lines:
        text.append(f"| {l['model']} | {l['devices']} | {l['best']} | {seconds(l['best_seconds'])} | {seconds(l['unity'])} | "
                    f"{ratio(l['unity_ratio'])} | {ratio(l['unseeded_ratio'])} | {', '.join(l['memory']) or '-'} |")
    return "\n".join(text) + "\n"


def losses(lines, name, tolerance):
    return [f"{l['model']} on {l['devices']}: {100 * (l[f'{name}_ratio'] - 1):.2f}% slower than {l['best']}"
            if l[name] < math.inf else f"{l['model']} on {l['devices']}: no plan" for l in lines
            if l[f"{name}_ratio"] > 1 + tolerance]


def search(arguments, folder):
    command = [arguments.unity, "sweep", arguments.experiment, "-o", folder, "--jobs", arguments.jobs]
    if (folder / "results.json").exists():
        command.append("--resume")
    for only in arguments.only:
        command += ["--only", only]
    # 1: some points have no plan, which their rows say.
    if subprocess.run([str(c) for c in command], stdout=subprocess.DEVNULL).returncode not in (0, 1):
        sys.exit("unity sweep failed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unity", required=True)
    parser.add_argument("--experiment", default=HERE / "experiment.yaml")
    parser.add_argument("--only", action="append", default=[], metavar="COLUMN=VALUE,..", help="as of unity sweep")
    parser.add_argument("--jobs", default="1")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--no-search", action="store_true")
    parser.add_argument("--frozen", type=pathlib.Path, default=HERE / "plans.tar.xz")
    parser.add_argument("--freeze", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    searches = arguments.output / "searches"
    if not arguments.no_search:
        search(arguments, searches)
    rows = json.loads((searches / "results.json").read_text())["rows"]
    results = arguments.output / "results.json"
    rows = [simulated(arguments.unity, searches, row) for row in rows]
    here = {(row["model"], row["devices"]) for row in rows}
    there = arguments.frozen.exists()
    paths = unpacked(arguments.frozen, arguments.output / "frozen" / "plans") if there else {}
    frozen = {place: frozen_row(arguments.unity, place, path) for place, path in paths.items() if place[:2] in here}
    rows += [row for place, row in frozen.items() if not place[2]]
    write(results, json.dumps({"format": "unity-results", "version": 1, "experiment": str(arguments.experiment),
                               "rows": rows}, indent=1) + "\n")
    shutil.copy(searches / "experiment.yaml", arguments.output / "experiment.yaml")
    lines = [l for l in (line(*place, variants) for place, variants in places(rows).items()) if l]
    with open(arguments.output / "results.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, ["model", "devices", "variant", "iteration_seconds", "searched_seconds",
                                       "peak_memory_bytes", "search_processor_seconds", "candidates", "plan", "error"],
                                extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    table = markdown(lines)
    write(arguments.output / "table.md", table)
    print(table)
    failed = [f"{r['point']}: {r['error']}" for r in rows if "error" in r and why_none(r) == "failed"]
    differ = [f"{r['point']}: searched {r['searched_seconds']} s, simulated {r['iteration_seconds']} s" for r in rows
              if "searched_seconds" in r and "iteration_seconds" in r
              and not math.isclose(r["searched_seconds"], r["iteration_seconds"], rel_tol=1e-9)]
    baselines = {r["variant"] for r in rows} - {*OURS, FROZEN}
    print(f"{len(rows)} rows, {sum('iteration_seconds' in r for r in rows)} simulated from their plan files; "
          f"{len(differ)} differ from their search, {len(failed)} failed")
    for text in failed + differ:
        print(f"  {text}")
    for l in lines:
        if l["complete"] < len(baselines):
            print(f"  {l['model']} on {l['devices']}: {l['complete']} of {len(baselines)} baselines so far")
    lost = False
    for name in OURS:
        there = [l for l in lines if name in l["searched"]]
        if not there:
            continue
        slower = losses(there, name, arguments.tolerance)
        lost = lost or bool(slower)
        worst = max((l[f"{name}_ratio"] for l in there), default=math.nan)
        print(f"{name}: {len(there) - len(slower)} of {len(there)} as fast as the best baseline or faster, worst {worst:.4f}")
        for text in slower:
            print(f"  {text}")
    for (model, devices, ours), row in frozen.items():
        now = {(l["model"], l["devices"]): l["unity"] for l in lines}.get((model, devices), math.inf)
        if ours and now < math.inf and now > row.get("iteration_seconds", math.inf) * (1 + arguments.tolerance):
            print(f"  {model} on {devices}: unity found {100 * (now / row['iteration_seconds'] - 1):.2f}% faster before")
    if arguments.freeze:
        freeze(arguments.freeze, rows, paths, frozen)
    sys.exit(1 if failed or differ or lost else 0)


if __name__ == "__main__":
    main()
