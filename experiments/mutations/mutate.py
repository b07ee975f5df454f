"""Do the tests notice a wrong token? Changes one token of core/search or simulator at a time, builds, and runs the tests that depend on it.

python3 mutate.py --work /tmp/mutations [--count 100] [--seed 1] [--jobs 2] [--again] [-o mutations.json]

Works on a copy of the repository (as committed) under --work, which is kept for the next time; what is in --output already is not done again. A
mutation is caught when a test fails, crashes, or takes four times as long as without it and 20 s more; one that does not compile is drawn
again. With --again, those in --output that were not caught are tried once more, where their lines still stand, with the tests that there are now.
Exit code 1: fewer than --goal of a hundred are caught.
"""
import argparse
import concurrent.futures
import json
import pathlib
import random
import re
import subprocess
import sys
import time

FOLDERS = ["core/search", "simulator"]
# What stands on them.
TESTS = ["test_records", "test_simulator", "test_search", "test_worked_example", "test_optimality", "test_unequal", "test_schedule",
         "test_memory", "test_plan", "test_equivalence", "test_schedule_equivalence", "test_trace", "test_runtime", "test_checkpoint", "test_report", "test_cli"]
SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "&&": "||",
         "||": "&&", "+=": "-=", "-=": "+=", "*=": "/=", "true": "false", "false": "true", "min": "max", "max": "min", "++": "--",
         "min_element": "max_element", "max_element": "min_element", "any_of": "all_of", "all_of": "any_of", "none_of": "any_of",
         "first": "second", "second": "first", "front": "back", "back": "front", "continue": "break"}
# Binary operators stand between blanks (clang-format); what has no blank is a template, a pointer, a reference.
TOKEN = re.compile(r"(?<= )(?:<=|>=|==|!=|&&|\|\||\+=|-=|\*=|<|>|\+|-|\*|/|%)(?= )|\+\+|\b(?:true|false|min|max|min_element|max_element|any_of|"
                   r"all_of|none_of|first|second|front|back|continue)\b|(?<![\w.'])\d+(?![\w.'])")
NOT_COMPILED = "not compiled"
GONE = "the line is gone"
SKIPPED = re.compile(r'^\s*(//|#|static_assert|UNITY_CHECK|using |template)|TEST_CASE')


def run(command, cwd, timeout=None):
    try:
        done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, timeout=timeout)
        return done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        return "timeout", ""


def without_comments_and_texts(line):
    """The line with comments and literals blanked, so that positions stay."""
    line = re.sub(r'"(?:\\.|[^"\\])*"', lambda m: " " * len(m[0]), line)
    line = re.sub(r"'(?:\\.|[^'\\])'", lambda m: " " * len(m[0]), line)
    return re.sub(r"//.*", lambda m: " " * len(m[0]), line)


def mutations(tree):
    """(file, line, column, token, what it becomes) of all that can be changed."""
    found = []
    for folder in FOLDERS:
        for path in sorted((tree / folder).rglob("*.cpp")):
            for number, line in enumerate(path.read_text().splitlines()):
                if SKIPPED.search(line):
                    continue
                for m in TOKEN.finditer(without_comments_and_texts(line)):
                    becomes = SWAPS.get(m[0]) or str(int(m[0]) + 1)
                    found.append((str(path.relative_to(tree)), number, m.start(), m[0], becomes))
    return found


def where_now(tree, row):
    """The mutation of a row, where its line stands now; None: nowhere."""
    file, number, column, token, becomes = row["mutation"]
    if not (tree / file).exists():
        return None
    lines = (tree / file).read_text().splitlines()
    same = [m for m in mutations(tree) if m[0] == file and m[3] == token and lines[m[1]].strip() == row["line"]
            and abs(m[1] - number) < 40]
    return min(same, key=lambda m: (abs(m[1] - number), abs(m[2] - column)), default=None)


def prepare(work):
    """A copy of what is committed, built once; the tests that there are."""
    here = pathlib.Path(__file__).resolve().parents[2]
    tree = work / "tree"
    if not tree.exists():
        work.mkdir(parents=True, exist_ok=True)
        code, text = run(["git", "clone", "--quiet", here, tree], work)
        if code != 0:
            sys.exit(text)
    run(["git", "checkout", "--quiet", "--", "."], tree)
    code, text = run(["cmake", "--preset", "release"], tree)
    if code != 0:
        sys.exit(text)
    targets = run(["ninja", "-t", "targets", "all"], tree / "build/release")[1]
    return tree, [t for t in TESTS if f"\n{t}: phony" in targets or f"bin/{t}:" in targets]


def build(tree, targets, jobs):
    return run(["ninja", f"-j{jobs}", *targets], tree / "build/release")


def built(tree, tests, jobs):
    return build(tree, [*tests, *(["unity"] if "test_cli" in tests else [])], jobs)[0] == 0


def failure_of(tree, test, limit):
    """Why a test that is built catches what the tree has; empty: it does not."""
    code, text = run([tree / "build/release/bin" / test, "--abort", "--reporter", "compact"], tree, limit)
    if code == "timeout":
        return f"{test}: no end"
    failed = re.findall(r"^(\S+:\d+): failed", text, re.MULTILINE)
    return "" if code == 0 else f"{test}: {pathlib.Path(failed[0]).name if failed else f'status {code}'}"


def times_of(tree, tests, kept, jobs):
    """Seconds of each test without a mutation, in which all must pass; measured once for a copy."""
    times = json.loads(kept.read_text()) if kept.exists() else {}
    for test in tests:
        if test in times:
            continue
        if not built(tree, [test], jobs):
            sys.exit(f"{test} does not compile")
        start = time.monotonic()
        if why := failure_of(tree, test, None):
            sys.exit(f"without a mutation: {why}")
        times[test] = time.monotonic() - start
        kept.write_text(json.dumps(times, indent=1) + "\n")
        print(f"{test}: {times[test]:.0f} s without a mutation", flush=True)
    return times


def first_failure(tree, mutation, times, jobs):
    """The first failure ends a mutation: the test of the folder and the one that catches most before the others, those several at a time."""
    file, number, column, token, becomes = mutation
    first = ["test_simulator", "test_records"] if file.startswith("simulator/") else ["test_records"]
    others = sorted((test for test in times if test not in first), key=times.get)
    path = tree / file
    original = path.read_text()
    lines = original.splitlines(keepends=True)
    lines[number] = lines[number][:column] + becomes + lines[number][column + len(token):]
    path.write_text("".join(lines))
    try:
        for test in first:
            why = failure_of(tree, test, 20 + 4 * times[test]) if built(tree, [test], jobs) else NOT_COMPILED
            if why:
                return why
        if not built(tree, others, jobs):
            return NOT_COMPILED
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            waiting = [pool.submit(failure_of, tree, test, 20 + 4 * times[test]) for test in others]
            for done in concurrent.futures.as_completed(waiting):
                if done.result():
                    pool.shutdown(wait=True, cancel_futures=True)
                    return done.result()
        return ""
    finally:
        path.write_text(original)


def said(mutation, line, why):
    file, number, _, token, becomes = mutation
    print(f"{file}:{number + 1}: {token} -> {becomes}: {why or 'NOT CAUGHT: ' + line}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--goal", type=float, default=85)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("mutations.json"))
    arguments = parser.parse_args()
    tree, tests = prepare(arguments.work)
    times = times_of(tree, tests, arguments.work / "times.json", arguments.jobs)
    rows = json.loads(arguments.output.read_text()) if arguments.output.exists() else []
    for row in rows if arguments.again else []:
        if row["caught"] or row.get("again"):
            continue
        mutation = where_now(tree, row)
        row["again"] = first_failure(tree, mutation, times, arguments.jobs) if mutation else GONE
        arguments.output.write_text(json.dumps(rows, indent=1) + "\n")
        said(mutation or row["mutation"], row["line"], row["again"])
    draws = mutations(tree)
    random.Random(arguments.seed).shuffle(draws)
    done = {tuple(r["mutation"]) for r in rows}
    for mutation in draws:
        if arguments.again or sum(r["caught"] != NOT_COMPILED for r in rows) >= arguments.count:
            break
        if mutation in done:
            continue
        line = (tree / mutation[0]).read_text().splitlines()[mutation[1]].strip()
        start = time.monotonic()
        why = first_failure(tree, mutation, times, arguments.jobs)
        rows.append({"mutation": mutation, "line": line, "caught": why, "seconds": round(time.monotonic() - start)})
        arguments.output.write_text(json.dumps(rows, indent=1) + "\n")
        said(mutation, line, why)
    counted = [r for r in rows if r["caught"] != NOT_COMPILED]
    caught = sum(r["caught"] != "" for r in counted)
    of = len(counted)
    print(f"{caught} of {of} caught")
    tried = [r["again"] for r in counted if "again" in r]
    if tried:
        gone = tried.count(GONE)
        caught += sum(why != "" for why in tried) - gone
        of -= gone
        print(f"with the tests that there are now: {caught} of {of} caught; the lines of {gone} are gone")
    sys.exit(0 if counted and 100 * caught >= arguments.goal * of else 1)


if __name__ == "__main__":
    main()
