#!/usr/bin/env python3
"""Reads safetensors files of Unity with the reference implementation and prints what is in them.

    pip install safetensors numpy
    tests/reference/read_safetensors.py DIR/step-000100/*.safetensors

Fails when a file is not accepted. With --write FILE it writes a file of known tensors for Unity to read instead.
"""
import sys

import numpy
from safetensors import safe_open
from safetensors.numpy import save_file


def main(arguments):
    if arguments[:1] == ["--write"]:
        save_file({"f32": numpy.arange(6, dtype=numpy.float32).reshape(2, 3),
                   "f64": numpy.array([0.1]), "i64": numpy.array([-1, 2])},
                  arguments[1], metadata={"made-by": "safetensors"})
        return
    for path in arguments:
        with safe_open(path, framework="numpy") as file:
            print(path, file.metadata())
            for name in file.keys():
                tensor = file.get_tensor(name)
                print(f"  {name} {tensor.dtype} {list(tensor.shape)} sum {tensor.astype(numpy.float64).sum():.17g}")


if __name__ == "__main__":
    main(sys.argv[1:])
