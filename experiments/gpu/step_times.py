"""Times training steps of PyTorch (forward, backward, update), one JSON line for each case as soon as it is known.

python step_times.py [--steps 20] [--warm-up 5] [--wait] bert-large:bf16:eager resnext-50:tf32:channels-last ...

A case is MODEL:PRECISION:MODE. Precisions: f32; tf32 (products of f32 rounded first); bf16 (autocast, weights in f32).
Modes: eager, channels-last (eager in that layout), sparse (eager, sparse gradients of tables), compiled (torch.compile).
Data are made before the timed part and stay on the device; steps are timed by events and follow one another without
waiting for the host. With --wait, each case is set up and warmed up, says {"ready": ...}, and is timed when a line comes
in. With --serve, cases come in as lines, one at a time, and are answered with theirs. `--set NAME=VALUE` replaces a size, and `--device cpu` runs without a GPU, for trying the program out.
"""
import argparse
import contextlib
import json
import pathlib
import statistics
import sys
import time

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cpu-speed")]

from cases import MODELS  # noqa: E402
from networks import NETWORKS  # noqa: E402


def prepare(model, precision, mode, sizes, device):
    """Returns a function that does one step and returns its loss, and the number of parameters."""
    # Both switches: the second one is on by default, which would make 'f32' mean TF32 in convolutions.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "f32"
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(1)
    options = {**MODELS[model][1], **sizes, "sparse": mode == "sparse"}
    with torch.device(device):
        module, batch, (loss_of, target), optimizer_of = NETWORKS[model](options)
    if mode == "channels-last":
        module = module.to(memory_format=torch.channels_last)
        batch = tuple(x.to(memory_format=torch.channels_last) for x in batch)
    optimizer = optimizer_of(module.parameters())
    network = torch.compile(module) if mode == "compiled" else module
    rounding = torch.autocast(device, torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()

    def step():
        optimizer.zero_grad()
        with rounding:
            loss = loss_of(network(*batch), target)
        loss.backward()
        optimizer.step()
        return loss

    return step, sum(p.numel() for p in module.parameters())


def time_steps(step, steps, device):
    """Seconds of each of so many steps, and the last one's loss."""
    if device == "cpu":
        marks = [time.perf_counter()]
        for _ in range(steps):
            loss = step().item()
            marks.append(time.perf_counter())
        return [b - a for a, b in zip(marks, marks[1:])], loss
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    marks[0].record()
    for mark in marks[1:]:
        loss = step()
        mark.record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) / 1e3 for a, b in zip(marks, marks[1:])], loss.item()


def run_case(case, args, sizes):
    model, precision, mode = case.split(":")
    start = time.perf_counter()
    step, parameters = prepare(model, precision, mode, sizes, args.device)
    for _ in range(args.warm_up):
        step()
    if args.device != "cpu":
        torch.cuda.synchronize()
    set_up = time.perf_counter() - start
    if args.wait:
        if args.device != "cpu":
            torch.cuda.empty_cache()  # others run meanwhile
        print(json.dumps({"case": case, "ready": True, "set_up_seconds": set_up}), flush=True)
        if not sys.stdin.readline():
            return None
    seconds, loss = time_steps(step, args.steps, args.device)
    result = {"case": case, "iteration_seconds": statistics.median(seconds), "fastest_seconds": min(seconds),
              "slowest_seconds": max(seconds), "steps": args.steps, "loss": loss, "parameters": parameters,
              "set_up_seconds": set_up}
    if args.device != "cpu":
        result["peak_memory_bytes"] = torch.cuda.max_memory_allocated()
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=5)
    parser.add_argument("--wait", action="store_true")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    args = parser.parse_args()
    if bool(args.cases) == args.serve:
        parser.error("expected cases, or --serve")
    sizes = {name: int(value) for name, value in (text.split("=") for text in args.set)}
    for case in (line.strip() for line in iter(sys.stdin.readline, "")) if args.serve else args.cases:
        try:
            result = run_case(case, args, sizes)
        except Exception as e:  # one case that fails (out of memory, say) leaves the others
            result = {"case": case, "error": f"{type(e).__name__}: {e}"[:500]}
        if result is None:
            return
        print(json.dumps(result), flush=True)
        if args.device != "cpu":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    main()
