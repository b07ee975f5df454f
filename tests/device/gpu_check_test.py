#!/usr/bin/env python3
"""scripts/gpu_check on a build whose programs are played: what it says, and its exit code, where a part of it could not be
done."""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "experiments" / "gpu"), str(ROOT / "experiments")]

import agreement  # noqa: E402
import cases  # noqa: E402
import check  # noqa: E402
import report  # noqa: E402
import sections  # noqa: E402

UNITY = """#!/bin/sh
[ -z "$FAKE_SAID" ] || echo "$FAKE_SAID"
case "$1" in
  list) echo '[{"name": "add", "category": "compute"}, {"name": "relu", "category": "compute"}, {"name": "mul", "category": "compute"}]' ;;
  --help) printf '  profile  measures\\n  validate  compares\\n' ;;
  run) sleep "${FAKE_STEP:-0}"
    echo '{"iteration_seconds": 0.02, "losses": [2.0, 1.0], "memory_bytes": [1], "optimizer": "sgd 0.01"}' ;;
  validate) case "$2" in
    *bert-large.data*) echo '{"predicted_seconds": 1, "measured_seconds": 2}' ;;
    *mlp.data*) echo '{"predicted_seconds": 3, "measured_seconds": 4}' ;;
    *dlrm.data*) echo '{"predicted_seconds": 2, "measured_seconds": 2}' ;;
    *) exit 1 ;;
  esac ;;
esac
"""
TESTS = """#!/bin/sh
if [ "$1" = --list-test-names-only ]; then
  echo 'operators on the GPU are those of the CPU: single precision, block by block'
  exit
fi
if [ -n "$FAKE_SLOW" ] && expr "$UNITY_TEST_OPERATORS" : "$FAKE_SLOW" > /dev/null; then sleep 60; fi
while [ "$1" != -o ]; do shift; done
{
  echo '<Catch><TestCase name="operators">'
  for name in $(echo "$UNITY_TEST_OPERATORS" | tr , ' '); do
    echo "<Section name='$name'><OverallResults failures='0' durationInSeconds='0.1'/></Section>"
  done
  echo '<OverallResult success="true"/></TestCase></Catch>'
} > "$2"
"""
SANITIZER = """#!/bin/sh
if [ "$2" = "$FAKE_ERROR" ]; then
  echo '========= Invalid __global__ read of size 4 bytes' > "$8"
  exit 99
fi
shift 8
exec "$@"
"""
# Answers each case that comes in; bert-large ends it.
PYTORCH = """import json, sys
if "--serve" in sys.argv:
    for line in iter(sys.stdin.readline, ""):
        case = line.strip()
        if case.startswith("bert-large"):
            sys.exit("out of luck")
        print(json.dumps({"case": case, "iteration_seconds": 0.03 if case.endswith("eager") else 0.015}), flush=True)
else:
    print(json.dumps({"ready": True}), flush=True)
    sys.stdin.readline()
    print(json.dumps({"iteration_seconds": 0.016}), flush=True)
"""


class Played(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="unity-gpu-check-")
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        (self.path / "bin").mkdir()
        for name, text in (("bin/unity", UNITY), ("bin/test_device", TESTS), ("compute-sanitizer", SANITIZER),
                           ("step_times.py", PYTORCH)):
            (self.path / name).write_text(text)
            (self.path / name).chmod(0o755)

    def run_check(self, only, seconds=30, sanitizer=True, **environment):
        """The exit code, the results and the report."""
        def which(name, **_):
            return str(self.path / "compute-sanitizer") if sanitizer and name == "compute-sanitizer" else None

        with mock.patch.dict(os.environ, environment), mock.patch("shutil.which", which), \
                mock.patch.object(sections, "program", lambda name: str(self.path / name)), \
                contextlib.redirect_stderr(io.StringIO()):
            played = check.Check(self.path, False, self.path / "out", (seconds + 5) / 60)
            code = check.run_check(played, sections.SECTIONS, only, {})
        return code, played.results, (self.path / "out" / "report.txt").read_text()

    def test_operators_that_both_tools_ran_without_an_error_are_clean(self):
        code, results, text = self.run_check(["sanitizer"])
        self.assertEqual(code, 0)
        self.assertTrue(results["clean"])
        self.assertIn("sanitizer: clean", text)

    def test_wrong_arguments_are_refused_before_anything_is_run(self):
        (self.path / "file").write_text("")
        for words, said in ((["--minutes", "0"], "--minutes: found '0', expected a number above 0"),
                            (["--minutes", "nan"], "--minutes: found 'nan', expected a number above 0"),
                            (["--out", str(self.path / "file" / "out")], "cannot be written: Not a directory")):
            done = subprocess.run([sys.executable, str(ROOT / "scripts/gpu_check"), "--build", str(self.path), *words],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    def test_a_missing_sanitizer_is_not_clean(self):
        code, results, text = self.run_check(["sanitizer"], sanitizer=False)
        self.assertEqual(code, check.NOT_CHECKED)
        self.assertFalse(results["clean"])
        self.assertIn("== sanitizer: not checked: compute-sanitizer is not installed", text)
        self.assertIn("NOT CHECKED: sanitizer", text)
        self.assertNotIn("clean", text)

    def test_a_sanitizer_without_time_for_any_operator_is_not_clean(self):
        code, _, text = self.run_check(["sanitizer"], seconds=4, FAKE_SLOW=".*")
        self.assertEqual(code, check.NOT_CHECKED)
        self.assertIn("not checked: memcheck ran 0 of 3 operators, racecheck ran 0 of 3 operators, ",
                      text)
        self.assertNotIn("clean", text)

    def test_a_sanitizer_that_is_cut_short_says_how_far_it_came(self):
        code, _, text = self.run_check(["sanitizer"], seconds=5, FAKE_SLOW="mul")
        self.assertEqual(code, 0)
        self.assertIn("cut short: no error, but memcheck ran 2 of 3 operators, racecheck ran 2 of 3 operators", text)
        self.assertNotIn("sanitizer: clean", text)

    def test_an_error_of_the_sanitizer_is_exit_code_1(self):
        code, _, text = self.run_check(["sanitizer"], FAKE_ERROR="racecheck")
        self.assertEqual(code, 1)
        self.assertIn("Invalid __global__ read", text)
        self.assertIn("NOT CLEAN: sanitizer", text)

    def test_steps_are_timed_the_most_telling_first_and_one_pytorch_goes_on_after_a_case_that_ended_it(self):
        code, results, text = self.run_check(["times"])
        rows = results["sections"]["times"]["rows"]
        self.assertEqual(code, 0)
        self.assertEqual(list(rows)[:4], ["bert-large bf16", "resnext-50 bf16", "mlp bf16", "dlrm f32"])
        self.assertEqual(rows["bert-large bf16"]["pytorch, eager"], {"error": "out of luck"})
        self.assertEqual(rows["resnext-50 bf16"]["pytorch, channels-last"]["iteration_seconds"], 0.015)
        # 20 ms over 15 ms, and over 16 ms; over 30 ms, and 16 ms, of which 1.15 is less than 20.
        self.assertRegex(text, r"resnext-50 +bf16 .* 1\.33 +1\.25 +no")
        self.assertRegex(text, r"mlp +bf16 .* 0\.67 +1\.25 +no")

    def test_steps_that_were_not_reached_are_named(self):
        _, results, text = self.run_check(["times"], seconds=7, FAKE_STEP="0.5")
        rows, section = results["sections"]["times"]["rows"], results["sections"]["times"]
        self.assertEqual(section["state"], "cut short")
        self.assertEqual(rows["bert-large bf16"]["unity, plan found"]["iteration_seconds"], 0.02)
        self.assertEqual(rows["bert-large f32"]["unity"], {"cut short": True})
        self.assertIn("bert-large f32 (unity)", section["reason"])
        self.assertRegex(text, r"bert-large +f32 .*cut short")

    def test_what_nccl_prints_before_a_document_is_passed_over(self):
        said = "NCCL version 2.27.7+cuda13.0\n\n[2026-01-01 00:00:00] host:1:1 [0] init.cc:1 NCCL WARN of what\n[0] more"
        _, results, _ = self.run_check(["validate", "sanitizer"], FAKE_SAID=said)
        self.assertEqual(results["sections"]["validate"]["agreement"]["plans"], 3)
        self.assertTrue(results["clean"])

    def test_predictions_of_a_set_of_plans_are_judged_together(self):
        _, results, text = self.run_check(["validate"])
        found = results["sections"]["validate"]["agreement"]
        # A half, a quarter and none; ranks 1, 3, 2 of what is predicted and 1.5, 3, 1.5 of what is measured.
        self.assertEqual(found["plans"], 3)
        self.assertAlmostEqual(found["mape"], 0.25)
        self.assertAlmostEqual(found["rank_correlation"], 0.866, places=3)
        self.assertIn("3 plans: mean absolute percentage error of the iteration 25.0%, rank correlation 0.866", text)


# step_times.py without PyTorch: each case fails, for a reason of its own.
WITHOUT_PYTORCH = """import runpy, sys
from unittest.mock import MagicMock
for name in ("torch", "torch.nn", "torch.nn.functional"):
    sys.modules[name] = MagicMock()
sys.argv = ["step_times.py", "--serve"]
runpy.run_path(PATH, run_name="__main__")
"""


class Serving(unittest.TestCase):
    def test_every_case_that_comes_in_is_answered_though_one_before_it_failed(self):
        program = WITHOUT_PYTORCH.replace("PATH", repr(str(ROOT / "experiments/gpu/step_times.py")))
        said = subprocess.run([sys.executable, "-B", "-c", program], input="mlp:bf16:eager\nnope:bf16:eager\n", check=True,
                              capture_output=True, text=True).stdout
        first, second = (json.loads(line) for line in said.splitlines())
        self.assertEqual(first["case"], "mlp:bf16:eager")
        self.assertIn("error", first)
        self.assertEqual(second, {"case": "nope:bf16:eager", "error": "KeyError: 'nope'"})


class Agreement(unittest.TestCase):
    def test_there_is_no_rank_correlation_of_one_plan(self):
        found = agreement.agreement([{"predicted_seconds": 3, "measured_seconds": 2}, {"error": "failed"}])
        self.assertEqual(found, {"plans": 1, "mape": 0.5, "rank_correlation": None})
        self.assertIn("rank correlation -", agreement.in_words(found))

    def test_what_has_goals_is_timed_in_all_ways_before_anything_else(self):
        order = list(sections.ways_to_time())
        first = [job for job in order if job[:2] in cases.FIRST and job[2] not in ("rows", "without graphs")]
        self.assertEqual(order[:len(first)], first)
        self.assertEqual({job[:2] for job in order}, set(cases.TIMED))
        self.assertEqual(report.within(1.0, None, 0.9), "yes")
        self.assertEqual(report.within(1.0, 0.99, 0.9), "no")
        self.assertEqual(report.within(1.0, None, None), "-")


if __name__ == "__main__":
    unittest.main()
