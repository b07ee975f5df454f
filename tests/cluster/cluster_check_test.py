#!/usr/bin/env python3
"""scripts/cluster_check with launchers and a unity that are played: what it makes of what they print, and its exit code."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

UNITY = """#!/bin/sh
case "$1" in
  search) if [ -n "$FAKE_SEARCH" ]; then echo "unity: error: $FAKE_SEARCH" >&2; exit 2; fi; echo '{}' ;;
  run)
    case "$*" in *"--backend cpu"*) FAKE_CUDA= ;; esac
    if [ -n "$FAKE_CUDA" ]; then printf 'unity: error: rank %s\\n' "$FAKE_CUDA" >&2; exit 2; fi
    echo '{"losses": [1], "final_metrics": {"largest_relative_loss_difference": '${FAKE_DIFFERENCE-1e-7}'}}' ;;
  show) if [ "$2" = nosuch ]; then echo "unity: error: show: unknown 'nosuch'" >&2; exit 2; fi; echo '{}' ;;
  list) echo '[{"name": "unity"}, {"name": "expert"}]' ;;
  profile) echo '{"collectives": [{"collective": "all_reduce", "kind": "2", "devices": 2, "bytes": 4, "seconds": 1,
    "low_seconds": 1, "high_seconds": 1, "modelled_seconds": 1}]}' ;;
  validate) if [ -n "$FAKE_VALIDATE" ]; then cat "$FAKE_VALIDATE"; else
    echo '{"predicted_seconds": 1, "measured_seconds": 2}'; fi ;;
esac
"""
# Says what it was told, prints what NCCL would, and starts one process.
LAUNCHER = """#!/bin/sh
echo "${0##*/} $* NCCL_DEBUG_FILE=$NCCL_DEBUG_FILE" >> "$FAKE_TOLD"
[ -z "$FAKE_SAID" ] || echo "$FAKE_SAID"
while [ "${1##*/}" != unity ]; do shift; done
exec "$@"
"""
NCCL = ("NCCL version 2.27.7+cuda13.0\nhost:1:1 [0] NCCL INFO Bootstrap: Using eth0\n\n"
        "[2026-01-01 00:00:00] host:1:1 [0] init.cc:1 NCCL WARN of what\n[0] more")


class Played(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="unity-cluster-check-")
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        (self.path / "bin").mkdir()
        for name, text in (("bin/unity", UNITY), ("mpirun", LAUNCHER), ("srun", LAUNCHER)):
            (self.path / name).write_text(text)
            (self.path / name).chmod(0o755)

    def run_check(self, *words, **environment):
        """What it printed, its report (where it wrote one), and what the launchers were told."""
        variables = {k: v for k, v in os.environ.items() if not k.startswith(("NCCL_", "SLURM_"))}
        variables |= {"PATH": f"{self.path}:{variables['PATH']}", "FAKE_TOLD": str(self.path / "told"), **environment}
        for name in ("told", "out/report.json"):
            (self.path / name).unlink(missing_ok=True)
        done = subprocess.run([sys.executable, str(ROOT / "scripts/cluster_check"), "--build", str(self.path), "--models",
                               "mlp-tiny", "--strategies", "unity", "-o", str(self.path / "out"), *words],
                              capture_output=True, text=True, env=variables)
        self.assertNotIn("Traceback", done.stderr)
        report, told = self.path / "out/report.json", self.path / "told"
        return (done, json.loads(report.read_text()) if report.exists() else None,
                told.read_text() if told.exists() else "")

    def test_what_nccl_prints_before_a_document_is_passed_over(self):
        done, report, told = self.run_check("--local", "2", "--topology", "h200-shared", FAKE_SAID=NCCL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(report["backend"], "cuda")
        self.assertEqual(len(report["collectives"]), 1)
        self.assertEqual(report["plans"][0]["measured_seconds"], 2)
        self.assertNotIn("NCCL_DEBUG ", told)

    def test_losses_that_are_not_those_of_one_device_are_an_error(self):
        done, report, _ = self.run_check("--local", "2", "--backend", "cpu")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(report["plans"][0]["loss_difference"], 1e-7)
        for difference in ("0.25", "null", "NaN"):
            done, report, _ = self.run_check("--local", "2", "--backend", "cpu", FAKE_DIFFERENCE=difference)
            self.assertEqual(done.returncode, 1)
            self.assertIn("from those of one device, expected at most 0.001", report["plans"][0]["error"])
            self.assertEqual(report["plans"][0]["measured_seconds"], 2)

    def test_what_is_not_there_is_said_before_anything_is_launched(self):
        for words, said in ((("--models", "nosuch"), "--models: unity: error: show: unknown 'nosuch'"),
                            (("--strategies", "nosuch"), "--strategies: found 'nosuch', expected some of unity, expert")):
            done, _, told = self.run_check("--local", "2", *words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)
            self.assertEqual(told, "")

    def test_nccl_is_told_to_write_into_files_of_the_output_folder(self):
        file = f"NCCL_DEBUG_FILE={(self.path / 'out').resolve()}/nccl-%h-%p.log\n"
        _, _, told = self.run_check("--local", "2", "--backend", "cpu", NCCL_DEBUG="INFO")
        self.assertIn("mpirun -x NCCL_DEBUG -x NCCL_DEBUG_FILE ", told)
        self.assertIn(file, told)
        _, _, told = self.run_check("--srun", "--ranks", "2", "--backend", "cpu", NCCL_DEBUG="INFO",
                                    SLURM_JOB_NUM_NODES="1")
        self.assertNotIn("-x", told)  # srun passes all variables on
        self.assertIn(file, told)
        _, _, told = self.run_check("--local", "2", "--backend", "cpu", NCCL_DEBUG="INFO", NCCL_DEBUG_FILE="mine")
        self.assertIn("NCCL_DEBUG_FILE=mine\n", told)

    def test_inside_a_step_of_slurm_its_cpus_are_shared(self):
        words = ["--srun", "--ranks", "2", "--backend", "cpu"]
        _, _, told = self.run_check(*words, SLURM_JOB_NUM_NODES="1")
        self.assertNotIn("--overlap", told)
        _, _, told = self.run_check(*words, SLURM_JOB_NUM_NODES="1", SLURM_STEP_ID="0")
        self.assertIn(" -n 2 --overlap -N 1 ", told)

    def test_a_document_that_cannot_be_read_is_the_error_of_its_row(self):
        for printed, said in (('{"predicted_seconds": 1,\nhost:1:1 [0] NCCL INFO of what', "no whole document"),
                              ("", "expected a JSON document on standard output, found nothing")):
            (self.path / "printed").write_text(printed)
            done, report, _ = self.run_check("--local", "2", "--backend", "cpu", FAKE_VALIDATE=str(self.path / "printed"))
            self.assertEqual(done.returncode, 1)
            self.assertIn(said, report["plans"][0]["error"])
            self.assertIn(said, done.stdout)
            self.assertEqual(len(report["collectives"]), 1)

    @unittest.skipIf(pathlib.Path("/dev/nvidia0").exists() or shutil.which("nvidia-smi"), "there is a GPU here")
    def test_nodes_without_a_gpu_are_checked_on_their_cpus(self):
        for error in ("0: backend cuda: found no driver, expected one for CUDA 13.0 or newer", "0: backend cuda: no CUDA device",
                      "1: backend cuda: no CUDA device (no CUDA-capable device is detected)",
                      "0: rank 1 gave up: backend cuda: no CUDA device",
                      "0: cuda: not in this build (/x/libunity_cuda.so is missing); build unity_cuda",
                      "0: backend cuda: found no driver\nunity: error: rank 1: terminated",
                      "0: backend cuda: found no driver\nunity: error: rank 1: terminated while waiting for rank 0's part"):
            done, report, _ = self.run_check("--local", "2", "--topology", "h200-shared", FAKE_CUDA=error)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"without a GPU, on CPUs (cuda: unity: error: rank {error.splitlines()[0]})", done.stderr)
            self.assertEqual(report["backend"], "cpu")

    def test_wrong_arguments_are_refused_before_anything_is_launched(self):
        (self.path / "file").write_text("")
        local = ["--local", "2", "--backend", "cpu"]
        for words, said in ((["--hosts", str(self.path / "none"), "--ranks", "2"], "none cannot be read: No such file"),
                            (["--hosts", str(self.path), "--ranks", "2"], "cannot be read: Is a directory"),
                            (["--local", "0"], "--local: found '0', expected a whole number of at least 1"),
                            (["--srun", "--ranks", "-2"], "--ranks: found '-2', expected a whole number of at least 1"),
                            ([*local, "--topology", "dgx-h100", "--nodes", "0"], "--nodes: found '0', expected"),
                            ([*local, "--tolerance", "0"], "--tolerance: found '0', expected a factor of at least 1"),
                            ([*local, "--tolerance", "nan"], "--tolerance: found 'nan', expected"),
                            ([*local, "-o", str(self.path / "file" / "out")], "cannot be written: Not a directory")):
            done, report, told = self.run_check(*words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr)
            self.assertIsNone(report)
            self.assertEqual(told, "")
        done, report, told = self.run_check(*local, "--topology", "nosuch", FAKE_SEARCH="topology 'nosuch' is not known")
        self.assertEqual(done.returncode, 2)
        self.assertIn("topology 'nosuch' is not known", done.stderr)
        self.assertEqual(told, "")

    @unittest.skipIf(pathlib.Path("/dev/nvidia0").exists() or shutil.which("nvidia-smi"), "there is a GPU here")
    def test_cuda_that_fails_on_the_nodes_is_no_reason_to_check_their_cpus(self):
        (self.path / "hosts").write_text("node-a\nnode-b\n")
        nobody = "0: backend cuda: found no driver"
        for error in ("0: cuda: cannot be opened: libcudnn.so.9: cannot open shared object file",
                      "0: backend cuda: the driver is for CUDA 12.4, expected one for CUDA 13.0 or newer",
                      "0: backend cuda: no CUDA device (system not yet initialized)",
                      "0: task 3 (all_reduce) among devices 0, 1: unhandled system error",
                      f"{nobody}\nunity: error: rank 1: backend cuda: the driver is for CUDA 12.4"):
            done, report, told = self.run_check("--hosts", str(self.path / "hosts"), "--ranks", "2", "--topology", "dgx-h100",
                                                "--nodes", "2", FAKE_CUDA=error)
            self.assertEqual(done.returncode, 1)
            self.assertIn("cuda does not work, and not for want of a GPU: unity: error: rank ", done.stderr)
            self.assertIn(error.removeprefix(f"{nobody}\n"), done.stderr)
            self.assertIsNone(report)
            self.assertEqual(told.count("mpirun"), 1)


if __name__ == "__main__":
    unittest.main()
