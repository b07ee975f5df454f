"""Times training steps of Unity and of PyTorch eager in turns, and prints the table of README.md.

python compare.py --unity build/release/bin/unity [--threads 2] [--rounds 3] [--only mlp,dlrm]
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

# name: (options of PyTorch's network, options of Unity's model, steps of a round)
CASES = {
    "mlp": ({"batch": 256, "hidden": 2048}, ["mlp", "--option", "hidden=2048", "--batch-per-gpu", "256"], 10),
    "bert-large": ({"batch": 4, "layers": 2, "length": 128},
                   ["bert-large", "--layers", "2", "--seq-len", "128", "--batch-per-gpu", "4"], 10),
    "resnext-50": ({"batch": 8}, ["resnext-50", "--batch-per-gpu", "8"], 10),
    "inception-v3": ({"batch": 4}, ["inception-v3", "--batch-per-gpu", "4"], 10),
    "dlrm": ({"batch": 1024, "rows": 100000, "sparse": False},
             ["dlrm", "--option", "rows=100000", "--batch-per-gpu", "1024"], 60),
    "dlrm-sparse": ({"batch": 1024, "rows": 100000, "sparse": True},
                    ["dlrm", "--option", "rows=100000", "--batch-per-gpu", "1024"], 60),
}


def time_pytorch(case, threads, steps):
    """Median seconds of a step: forward, backward, update; runs in a process of its own."""
    import torch

    from networks import NETWORKS

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    options = CASES[case][0]
    module, batch, (loss_of, target), optimizer_of = NETWORKS[case.removesuffix("-sparse")](options)
    optimizer = optimizer_of(module.parameters())
    seconds = []
    for _ in range(steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = loss_of(module(*batch), target)
        loss.backward()
        optimizer.step()
        loss.item()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"iteration_seconds": statistics.median(seconds), "loss": loss.item(),
                      "parameters": sum(p.numel() for p in module.parameters())}))


def output_of(command, environment=None):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unity", help="the unity command")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--pytorch", metavar="CASE", help="time PyTorch's side of one case only")
    args = parser.parse_args()
    if args.pytorch:
        return time_pytorch(args.pytorch, args.threads, CASES[args.pytorch][2])
    print("| model | Unity [ms] | PyTorch [ms] | Unity / PyTorch |\n|---|---|---|---|", flush=True)
    for case in args.only.split(","):
        _, unity_options, steps = CASES[case]
        threads = ["--threads", str(args.threads)]
        unity = [args.unity, "run", *unity_options, "--topology", "laptop", "--devices", "1", "--steps", str(steps),
                 "--json", *threads]
        pytorch = [sys.executable, os.path.abspath(__file__), "--pytorch", case, *threads]
        # The libraries that PyTorch may need from LD_LIBRARY_PATH are not Unity's.
        plain = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
        times = [(output_of(unity, plain)["iteration_seconds"], output_of(pytorch)["iteration_seconds"])
                 for _ in range(args.rounds)]
        ours, theirs = (1e3 * statistics.median(side) for side in zip(*times))
        ratio = statistics.median(a / b for a, b in times)
        print(f"| {case} | {ours:.1f} | {theirs:.1f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
