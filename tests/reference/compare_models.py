#!/usr/bin/env python3
"""Trains the built-in models with Unity and with PyTorch, from the same weights on the same batches, and compares.

    pip install -r tests/reference/requirements.txt
    tests/reference/compare_models.py [--unity build/release/bin/unity] [CASE ...]

For each case: the loss of every step, the gradient of every weight in the first step, and every weight and running
statistic after the last, in single and in double precision. A difference is relative, by the norm of the tensor. Weights
whose gradient is nothing but rounding (the bias of keys, which softmax cancels) are told by a run of PyTorch in double
precision and only have to be as small in Unity. Models are of reduced size, but keep all their layers; images and
batches leave batch norm at least 64 values a channel, as the variance of fewer would be ill-conditioned.

Rounding alone moves deep networks in single precision; `rounding` says by how much, as the largest difference of any
kind between PyTorch in single and in double precision. Most of that comes from activations that lie within rounding of a
kink of ReLU or of a tie of max pooling, and fall to the other side. The data's seeds are such that none does; among the
tens of millions of activations of Inception-v3 at full resolution, for its auxiliary head, some always do, and that case is
compared in double precision alone.

Fails when a difference is above 1e-4 in single or 1e-9 in double precision.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile
import time

import numpy
import torch
from safetensors.numpy import save_file

import cases
import exchange

STEPS = 5
ALLOWED = {"f32": 1e-4, "f64": 1e-9}


def optimizer(text, parameters):
    kind, rate, *settings = text.split()
    s = {k: float(v) for k, _, v in (word.partition("=") for word in settings)}
    if kind == "sgd":
        return torch.optim.SGD(parameters, float(rate), s.get("momentum", 0), weight_decay=s.get("weight_decay", 0))
    make = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind]
    return make(parameters, float(rate), (s.get("beta1", 0.9), s.get("beta2", 0.999)), s.get("epsilon", 1e-8),
                s.get("weight_decay", 0.01 if kind == "adamw" else 0))


def draw(model, rows, seed):
    """Values for every input: of a shape, or (bound, shape) or bound for indices."""
    random = numpy.random.default_rng(seed)
    data = {}
    for name, form in model.inputs.items():
        if form == "binary":
            data[name] = random.integers(0, 2, (rows, 1)).astype(numpy.float32)
        elif isinstance(form, int):
            data[name] = random.integers(0, form, rows).astype(numpy.int32)
        elif len(form) == 2 and isinstance(form[1], tuple):
            data[name] = random.integers(0, form[0], (rows, *form[1])).astype(numpy.int32)
        else:
            data[name] = random.standard_normal((rows, *form)).astype(numpy.float32)
    return data


def train_torch(case, weights, data, dtype):
    """Losses, gradients of the first step, final weights."""
    model = exchange.initialise(case.network())
    for parameter in [*model.parameters(), *model.buffers()]:
        if parameter.is_floating_point():
            parameter.data = parameter.data.to(torch.float32).to(dtype)
    model.train()
    rule = optimizer(case.optimizer, model.parameters())
    losses, gradients = [], None
    for step in range(STEPS):
        batch = [torch.from_numpy(a[step * case.batch:(step + 1) * case.batch]) for a in data.values()]
        rule.zero_grad()
        loss = model(*(b.to(dtype) if b.is_floating_point() else b.long() for b in batch))
        loss.backward()
        gradients = gradients or exchange.tensors(model, gradients=True)
        rule.step()
        losses.append(loss.item())
    return losses, gradients, exchange.tensors(model)


def train_unity(case, weights, data, precision, unity, folder, more):
    save_file(weights, folder / "weights.safetensors")
    numpy.savez(folder / "data.npz", **data)
    checkpoint = folder / f"checkpoint-{precision}"
    options = [word for k, v in case.options.items() for word in ("--option", f"{k}={v}")]
    words = [unity, "run", case.model, *options, "--global-batch", case.batch, "--devices", 1, "--steps", STEPS,
             "--optimizer", case.optimizer, "--precision", precision, "--data", folder / "data.npz", "--in-order",
             "--weights", folder / "weights.safetensors", "--save-gradients", folder / "gradients.safetensors",
             "--checkpoint", checkpoint, "--json", *more]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    losses = [float("nan") if x is None else x for x in json.loads(done.stdout)["losses"]]
    return losses, exchange.load(folder / "gradients.safetensors"), exchange.load(checkpoint)


def difference(found, expected, floor=0.0):
    if found.shape != expected.shape:
        raise RuntimeError(f"found shape {list(found.shape)}, expected {list(expected.shape)}")
    size = max(float(numpy.linalg.norm(expected.astype(float))), floor)
    return float(numpy.linalg.norm(found.astype(float) - expected)) / size if size > 0 else float(numpy.abs(found).max())


def worst(found, expected, exact, what):
    """The largest difference and the tensor that has it. Tensors that are zero but for rounding count by the largest
    tensor's size."""
    if set(found) != set(expected):
        raise RuntimeError(f"{what}: only in Unity {sorted(set(found) - set(expected))[:5]}, "
                           f"only in PyTorch {sorted(set(expected) - set(found))[:5]}")
    largest = max(float(numpy.linalg.norm(e)) for e in exact.values())
    zero = {k: float(numpy.linalg.norm(e)) <= 1e-12 * largest for k, e in exact.items()}
    return max((difference(found[k], expected[k], largest if zero[k] else 0), k) for k in expected)


def compare(one, other, exact):
    """Worst differences of losses, gradients and weights, each with where."""
    losses = max((abs(a - b) / abs(b), f"step {i + 1}") for i, (a, b) in enumerate(zip(one[0], other[0])))
    return [losses, worst(one[1], other[1], exact[1], "gradients"), worst(one[2], other[2], exact[2], "weights")]


def run_case(name, case, unity, folder, more, verbose):
    model = exchange.initialise(case.network())
    weights = {k: v.astype(numpy.float32) for k, v in exchange.tensors(model).items()}
    data = draw(model, case.batch * STEPS, case.seed)
    reference = {"f32": train_torch(case, weights, data, torch.float32),
                 "f64": train_torch(case, weights, data, torch.float64)}
    exact = reference["f64"]
    if not all(map(numpy.isfinite, exact[0])):
        raise RuntimeError(f"PyTorch's losses are {exact[0]}: the case diverges")
    rounding = max(d for d, _ in compare(reference["f32"], exact, exact))
    good, cells, notes = True, [], []
    for precision in case.precisions:
        found = train_unity(case, weights, data, precision, unity, folder, more)
        results = compare(found, reference[precision], exact)
        cells += [f"{d:9.1e}" for d, _ in results]
        for what, (d, where) in zip(["loss", "gradient", "weight"], results):
            if not d <= ALLOWED[precision]:
                good = False
                notes.append(f"  {precision} {what}: {d:.1e} at {where}")
        if verbose:
            notes += [f"  {precision} worst at {', '.join(where for _, where in results)}"]
    print(f"{name:24}{''.join(cells):>54}{rounding:10.1e}", flush=True)
    for note in notes:
        print(note, flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--unity", default="build/release/bin/unity")
    parser.add_argument("--run-option", action="append", default=[], help="one more word for `unity run`")
    parser.add_argument("--verbose", action="store_true", help="say where the largest differences are")
    parser.add_argument("cases", nargs="*", help=f"of: {' '.join(cases.CASES)}")
    options = parser.parse_args()
    print(f"{'':24}{'f32: loss, gradient, weight':>27}{'f64: loss, gradient, weight':>28} rounding")
    good = True
    for name in options.cases or cases.CASES:
        with tempfile.TemporaryDirectory() as folder:
            start = time.monotonic()
            try:
                good &= run_case(name, cases.CASES[name], options.unity, pathlib.Path(folder), options.run_option,
                                 options.verbose)
            except RuntimeError as error:
                print(f"{name}: {error}", flush=True)
                good = False
            if options.verbose:
                print(f"  {time.monotonic() - start:.0f} s", flush=True)
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
