"""Tensors of a PyTorch module under the names, and in the layouts, in which Unity has them."""
import pathlib

import numpy
import torch
from safetensors.numpy import load_file
from torch import nn


def _of_unity(module, name):
    """How a parameter is turned into Unity's layout: dense weights are [in, out], biases of convolutions [out, 1, 1]."""
    if isinstance(module, nn.Linear) and name == "weight":
        return lambda x: x.T
    if isinstance(module, nn.Conv2d) and name == "bias":
        return lambda x: x[:, None, None]
    return lambda x: x


def tensors(model, gradients=False):
    """Weights and running statistics, or the gradients of the weights, as arrays by name."""
    result = {}
    for path, module in model.named_modules():
        own = dict(module.named_parameters(recurse=False))
        if not gradients:
            own |= {k: v for k, v in module.named_buffers(recurse=False) if k.startswith("running_")}
        for name, value in own.items():
            value = value.grad if gradients else value.data
            array = _of_unity(module, name)(value).numpy()
            result[f"{path}.{name}" if path else name] = numpy.array(array, order="C")
    return result


def load(path):
    """A safetensors file, or all those of the newest checkpoint in a folder, without the optimizer's states."""
    path = pathlib.Path(path)
    files = sorted(max(path.glob("step-*")).glob("*.safetensors")) if path.is_dir() else [path]
    found = {k: v for file in files for k, v in load_file(file).items()}
    return {k: v for k, v in found.items() if not k.rpartition(".")[2].startswith("state")}


def initialise(model, seed=5):
    """Values of a size that keeps activations and gradients in range; none is a value that hides mistakes, as 0 for
    biases and 1 for the scale of norms would be. Batch norm has biases of about 1: where ReLU cuts off half of what is
    normalised, differences grow by half in each layer (Yang et al., "A Mean Field Theory of Batch Normalization", ICLR
    2019), and rounding would be all that one sees after 50."""
    generator = torch.Generator().manual_seed(seed)
    normal = lambda x: torch.randn(x.shape, generator=generator, dtype=torch.float64)
    relu = getattr(model, "gain", 2.0)
    for module in model.modules():
        dense = isinstance(module, (nn.Linear, nn.Conv2d))
        for name, value in module.named_parameters(recurse=False):
            if dense and name == "weight":
                value.data = normal(value) * (relu / value[0].numel()) ** 0.5
            elif value.dim() == 3:
                value.data = normal(value) * value.size(1) ** -0.5
            elif value.dim() == 1:
                middle = 0 if name in ("bias", "beta") else 1
                if isinstance(module, nn.BatchNorm2d):
                    middle = 1
                value.data = normal(value) * 0.1 + middle
            else:
                value.data = normal(value) * 0.3
        for name, value in module.named_buffers(recurse=False):
            if name == "running_mean":
                module.running_mean = normal(value) * 0.1
            if name == "running_var":
                module.running_var = normal(value).abs() + 0.5
    return model
