#!/usr/bin/env python3
"""Exports PyTorch models to ONNX, imports them with Unity, trains both for a few steps and compares the losses.

    pip install torch onnx onnxscript numpy
    tests/reference/onnx_import.py [--unity build/release/bin/unity] [MODEL ...]

Each model is trained on the same batch with plain SGD, in Unity in double precision, from the values that the import has
written; so the losses check the translation, the values and the gradients. Fails when they differ by more than 1e-4.
"""
import argparse
import itertools
import json
import pathlib
import subprocess
import tempfile

import numpy
import torch
from torch import nn

BATCH, RATE, STEPS = 4, 0.05, 4


class Perceptron(nn.Module):
    inputs = {"x": lambda rows: torch.randn(rows, 12)}
    classes = 5

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 16), nn.GELU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 5))

    def forward(self, x):
        return self.layers(x)


class Transformer(nn.Module):
    """Words and places, two encoder layers with a mask of padding, as BERT has them; classes by the first token."""
    inputs = {"input_ids": lambda rows: torch.randint(0, 30, (rows, 6)),
              "attention_mask": lambda rows: (torch.arange(6)[None, :] < torch.randint(3, 7, (rows, 1))).long()}
    classes = 3

    class Layer(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

        def split(self, x):
            return x.view(x.size(0), x.size(1), self.heads, -1).transpose(1, 2)

        def forward(self, x, bias):
            q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
            scores = q @ k.transpose(-2, -1) / (q.size(-1) ** 0.5) + bias
            context = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(x.shape)
            x = self.norm1(x + self.out(context))
            return self.norm2(x + self.down(nn.functional.gelu(self.up(x))))

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(30, 8), nn.Embedding(10, 8)
        self.register_buffer("position_ids", torch.arange(10)[None, :])
        self.norm = nn.LayerNorm(8)
        self.layers = nn.ModuleList(self.Layer(8, 2) for _ in range(2))
        self.classify = nn.Linear(8, 3)

    def forward(self, input_ids, attention_mask):
        bias = (1.0 - attention_mask[:, None, None, :].float()) * -10000.0
        x = self.norm(self.words(input_ids) + self.places(self.position_ids[:, : input_ids.size(1)]))
        for layer in self.layers:
            x = layer(x, bias)
        return self.classify(x[:, 0])


class Attention(nn.Module):
    """Attention by PyTorch's own function."""
    inputs = {"x": lambda rows: torch.randn(rows, 5, 8)}
    classes = 3

    def __init__(self):
        super().__init__()
        self.project, self.classify = nn.Linear(8, 24), nn.Linear(8, 3)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in self.project(x).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.classify(y.transpose(1, 2).flatten(2).mean(1))


class Convolutional(nn.Module):
    inputs = {"x": lambda rows: torch.randn(rows, 3, 9, 9)}
    classes = 4

    def __init__(self):
        super().__init__()
        self.first, self.norm1 = nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8)
        self.second, self.norm2 = nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.BatchNorm2d(8)
        self.pool, self.classify = nn.MaxPool2d(2, ceil_mode=True), nn.Linear(8, 4)

    def forward(self, x):
        x = torch.relu(self.norm1(self.first(x)))
        x = self.pool(x + torch.relu(self.norm2(self.second(x))))
        return self.classify(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


MODELS = {"perceptron": Perceptron, "transformer": Transformer, "attention": Attention, "convolutional": Convolutional}


def train(model, inputs, labels):
    model = model.double()
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(*inputs), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def export(model, inputs, path, dynamo):
    names = list(model.inputs)
    options = {"dynamo": dynamo, "input_names": names, "output_names": ["logits"]}
    if dynamo:
        options["dynamic_shapes"] = {name: {0: "batch"} for name in names}
    else:
        training = any(isinstance(m, nn.BatchNorm2d) for m in model.modules())
        options |= {"dynamic_axes": {name: {0: "batch"} for name in names}, "opset_version": 17,
                    "training": torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL,
                    "do_constant_folding": not training}
    torch.onnx.export(model, inputs, str(path), **options)


def compare(name, unity, folder, dynamo):
    torch.manual_seed(7)
    model = MODELS[name]()
    # A fifth of the rows is kept for tests, by a shuffle of Unity's own: four of five are the batch.
    rows = {k: make(BATCH + 1) for k, make in model.inputs.items()}
    labels = torch.randint(0, model.classes, (BATCH + 1,))
    batch = tuple(v[:BATCH] for v in rows.values())
    file = folder / f"{name}.onnx"
    folded = dynamo and any(isinstance(m, nn.BatchNorm2d) for m in model.modules())
    if folded:
        model.eval()  # that exporter has no training mode, and joins batch norm with the convolution's weights
    export(model, batch, file, dynamo)
    run = lambda *words: subprocess.run([unity, *map(str, words)], check=True, capture_output=True, text=True).stdout
    imported = json.loads(run("import", file, "-o", file.with_suffix(".yaml"), "--dim", f"batch={BATCH}", "--json"))
    arrays = {k: v.numpy() for k, v in rows.items()} | {"labels": labels.numpy()}
    numpy.savez(file.with_suffix(".npz"), **arrays)
    result = json.loads(run("run", file.with_suffix(".yaml"), "--data", file.with_suffix(".npz"), "--steps", STEPS,
                            "--devices", 1, "--precision", "f64", "--optimizer", f"sgd {RATE}", "--json"))
    state = {k: v.clone() for k, v in model.state_dict().items()}
    best = float("inf")
    for chosen in itertools.combinations(range(BATCH + 1), BATCH):
        model.load_state_dict(state)
        pick = lambda v: v[list(chosen)].double() if v.is_floating_point() else v[list(chosen)]
        losses = train(model, tuple(map(pick, rows.values())), labels[list(chosen)])
        best = min(best, max(abs(a - b) for a, b in list(zip(losses, result["losses"]))[:1 if folded else STEPS]))
    print(f"{name} ({'dynamo' if dynamo else 'script'}): {imported['operators']} operators, any batch: "
          f"{imported['any_batch']}, losses {result['losses'][0]:.6f} .. {result['losses'][-1]:.6f}, "
          f"{'first' if folded else 'largest'} difference {best:.1e}")
    return best < 1e-4


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--unity", default="build/release/bin/unity")
    parser.add_argument("--exporter", choices=["dynamo", "script"], action="append")
    parser.add_argument("models", nargs="*", default=list(MODELS))
    options = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models or MODELS:
            for exporter in options.exporter or ["dynamo", "script"]:
                try:
                    good &= compare(name, options.unity, pathlib.Path(folder), exporter == "dynamo")
                except subprocess.CalledProcessError as error:
                    print(f"{name} ({exporter}): {error.stderr.strip() or error}")
                    good = False
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
