"""report.txt: the results of a check as tables."""

from agreement import in_words

GOAL = 0.05  # of a prediction's error
EAGER, COMPILED = 1.0, 1.15  # of Unity's time over PyTorch's, at most
MUST_BE_CLEAN = ("conformance", "training", "sanitizer")  # for exit code 0


def table(header, rows):
    cells = [[str(c) for c in row] for row in [header, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = ["  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))).rstrip()
             for row in cells]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def milliseconds(result):
    if not result:
        return "-"
    if "iteration_seconds" in result:
        return f"{1e3 * result['iteration_seconds']:.2f}"
    return "cut short" if "cut short" in result else "failed"


def seconds_of(result):
    return (result or {}).get("iteration_seconds")


def ratio(a, b):
    return f"{a / b:.2f}" if a and b else "-"


def best(*values):
    values = [v for v in values if v]
    return min(values) if values else None


def environment(s):
    lines = [f"unity: {s.get('unity', '')}", *s.get("gpu", [])]
    lines += [f"{name}: {value}" for part in ("pytorch", "libraries") for name, value in s.get(part, {}).items()]
    return "\n".join(lines)


def conformance(s):
    rows = [(p, len(r["passed"]), len(r["failed"]), len(r["not run"])) for p, r in s.get("precisions", {}).items()]
    text = table(("operators", "passed", "failed", "not run"), rows)
    for precision, r in s.get("precisions", {}).items():
        for name, messages in r["failed"].items():
            text += "".join(f"\n  {precision} {name}: {m}" for m in messages)
        if r["not run"]:
            text += f"\n  {precision}, not run: {', '.join(r['not run'])}"
    return text


def training(s):
    rows = [(name, len(r["passed"]), len(r["failed"]), r["seconds"]) for name, r in s.get("tests", {}).items()]
    text = table(("test (its parts)", "passed", "failed", "seconds"), rows)
    for r in s.get("tests", {}).values():
        text += "".join(f"\n  {part}: {m}" for part, messages in r["failed"].items() for m in messages)
    return text


def sanitizer(s):
    rows = [(tool, len(r["clean"]), len(r["not run"]), r.get("error count", 0), r["seconds"])
            for tool, r in s.get("tools", {}).items()]
    text = table(("tool", "operators run", "not run", "errors", "seconds"), rows)
    return text + "".join(f"\n  {tool}: {e}" for tool, r in s.get("tools", {}).items() for e in r["errors"])


def profile(s):
    return "\n".join(f"{precision}: " + (r["error"] if "error" in r else f"{r.get('measured')} tasks measured, {r.get('left')} "
                                         f"left, {r.get('entries')} in all, in {r.get('file')}")
                     for precision, r in s.get("profiles", {}).items())


def within(ours, eager, compiled):
    reached = [ours <= goal * theirs for theirs, goal in ((eager, EAGER), (compiled, COMPILED)) if ours and theirs]
    return "-" if not reached else "yes" if all(reached) else "no"


def times(s):
    rows, errors = [], []
    for r in s.get("rows", {}).values():
        plain, found, chains = (seconds_of(r.get(way)) for way in ("unity", "unity, plan found", "unity, chains"))
        eager = best(*(seconds_of(r.get(f"pytorch, {mode}")) for mode in ("eager", "channels-last", "sparse")))
        compiled = seconds_of(r.get("pytorch, compiled"))
        ours = best(plain, found, chains)
        rows.append((r["model"], r["precision"], milliseconds(r.get("unity, without graphs")), milliseconds(r.get("unity")),
                     milliseconds(r.get("unity, plan found")), milliseconds(r.get("unity, chains")),
                     milliseconds(r.get("unity, rows")),
                     f"{1e3 * eager:.2f}" if eager else milliseconds(r.get("pytorch, eager")),
                     milliseconds(r.get("pytorch, compiled")), ratio(ours, eager), ratio(ours, compiled),
                     within(ours, eager, compiled)))
        errors += [f"  {r['model']} {r['precision']}, {way}: {v['error']}" for way, v in r.items()
                   if isinstance(v, dict) and "error" in v]
    text = ("Medians in ms: Unity task by task, as a captured graph, and as a graph under the plan that the joint search "
            "finds,\nand that with --fuse chains, also with UNITY_CUDA_LAYOUT=rows; PyTorch eager (its fastest way) and "
            f"compiled; then Unity's fastest graph over these,\nand whether that is within {EAGER:g} of eager and {COMPILED:g} of compiled, as far as there are times.\n")
    text += table(("model", "", "no graph", "Unity", "found", "chains", "rows", "eager", "compiled", "Unity/eager",
                   "Unity/compiled", "goal"), rows)
    return "\n".join([text, *errors])


def validate(s):
    rows = []
    for name, r in s.get("rows", {}).items():
        if "error" in r:
            rows.append((name, "-", "-", "-", r["error"][:60]))
            continue
        p, m = r["predicted_seconds"], r["measured_seconds"]
        within = "yes" if m and abs(p / m - 1) <= GOAL else "no"
        rows.append((name, f"{1e3 * p:.2f}", f"{1e3 * m:.2f}", ratio(p, m),
                     within + ("" if r.get("profile") else " (without a profile)")))
    text = table(("plan", "predicted [ms]", "measured [ms]", "ratio", f"within {GOAL:.0%}"), rows)
    return text + ("\n" + in_words(s["agreement"]) if "agreement" in s else "")


PARTS = {"environment": environment, "conformance": conformance, "training": training, "sanitizer": sanitizer,
         "profile": profile, "times": times, "validate": validate}


def text(results):
    lines = ["Check of the CUDA backend" + (f" on {', '.join(results['gpus'])}" if results.get("gpus") else "")]
    if "why_no_device" in results:
        lines.append(f"the backend does not run here: {results['why_no_device']}")
    if "stopped" in results:
        lines.append(f"stopped {results['stopped']}: what follows is what was known by then")
    for name, section in results["sections"].items():
        said = section["state"] + (f": {section['reason']}" if section.get("reason") else "")
        lines.append(f"\n== {name}: {said}" + (f" ({section['seconds']} s)" if "seconds" in section else ""))
        body = PARTS[name](section) if set(section) - {"state", "reason", "seconds"} else ""
        lines += [body] if body else []
    if "clean" in results:
        states = {name: s["state"] for name, s in results["sections"].items() if name in MUST_BE_CLEAN}
        lines.append("\n" + ", ".join(f"{name}: {'clean' if state == 'done' else state}" for name, state in states.items())
                     + "".join(f"\n{what.upper()}: {', '.join(results[what])}" for what in ("not clean", "not checked")
                               if results.get(what)))
    return "\n".join(lines) + "\n"
