"""Inception-v3: figures 5 to 7 of Szegedy et al., CVPR 2016, with five blocks of kind A, B, C, D, E; no dropout."""
import torch
from torch import nn
from torch.nn import functional as F


class Unit(nn.Module):
    def __init__(self, channels, out, kernel=1, stride=1, padding=0, norm=True):
        super().__init__()
        self.conv = nn.Conv2d(channels, out, kernel, stride, padding, bias=not norm)
        self.bn = nn.BatchNorm2d(out, eps=1e-3) if norm else nn.Identity()

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


ROW, COLUMN = {"kernel": (1, 7), "padding": (0, 3)}, {"kernel": (7, 1), "padding": (3, 0)}
SAME3, SAME5, HALF3 = {"kernel": 3, "padding": 1}, {"kernel": 5, "padding": 2}, {"kernel": 3, "stride": 2}
ROW3, COLUMN3 = {"kernel": (1, 3), "padding": (0, 1)}, {"kernel": (3, 1), "padding": (1, 0)}


class Block(nn.Module):
    """A table of units, name: (from, channels, form); the block's result joins `results`. From "x" is the block's
    input, "average" and "max" its pooled input."""

    def __init__(self, channels, table, results, unit):
        super().__init__()
        sizes = {"x": channels, "average": channels, "max": channels}
        self.table, self.results = table, results
        for name, (source, out, form) in table.items():
            setattr(self, name, unit(sizes[source], out, form))
            sizes[name] = unit.channels(out)
        self.channels = sum(sizes[name] for name in results)

    def forward(self, x):
        values = {"x": x}
        pooled = {"average": lambda: F.avg_pool2d(x, 3, 1, 1), "max": lambda: F.max_pool2d(x, 3, 2)}
        get = lambda name: values[name] if name in values else pooled[name]()
        for name, (source, _, _) in self.table.items():
            values[name] = getattr(self, name)(get(source))
        return torch.cat([get(name) for name in self.results], 1)


def block_a(pool_features):
    return {"branch1x1": ("x", 64, {}), "branch5x5_1": ("x", 48, {}), "branch5x5_2": ("branch5x5_1", 64, SAME5),
            "branch3x3dbl_1": ("x", 64, {}), "branch3x3dbl_2": ("branch3x3dbl_1", 96, SAME3),
            "branch3x3dbl_3": ("branch3x3dbl_2", 96, SAME3), "branch_pool": ("average", pool_features, {})}, [
                "branch1x1", "branch5x5_2", "branch3x3dbl_3", "branch_pool"]


def block_b():
    return {"branch3x3": ("x", 384, HALF3), "branch3x3dbl_1": ("x", 64, {}),
            "branch3x3dbl_2": ("branch3x3dbl_1", 96, SAME3), "branch3x3dbl_3": ("branch3x3dbl_2", 96, HALF3)}, [
                "branch3x3", "branch3x3dbl_3", "max"]


def block_c(c):
    return {"branch1x1": ("x", 192, {}), "branch7x7_1": ("x", c, {}), "branch7x7_2": ("branch7x7_1", c, ROW),
            "branch7x7_3": ("branch7x7_2", 192, COLUMN), "branch7x7dbl_1": ("x", c, {}),
            "branch7x7dbl_2": ("branch7x7dbl_1", c, COLUMN), "branch7x7dbl_3": ("branch7x7dbl_2", c, ROW),
            "branch7x7dbl_4": ("branch7x7dbl_3", c, COLUMN), "branch7x7dbl_5": ("branch7x7dbl_4", 192, ROW),
            "branch_pool": ("average", 192, {})}, ["branch1x1", "branch7x7_3", "branch7x7dbl_5", "branch_pool"]


def block_d():
    return {"branch3x3_1": ("x", 192, {}), "branch3x3_2": ("branch3x3_1", 320, HALF3), "branch7x7x3_1": ("x", 192, {}),
            "branch7x7x3_2": ("branch7x7x3_1", 192, ROW), "branch7x7x3_3": ("branch7x7x3_2", 192, COLUMN),
            "branch7x7x3_4": ("branch7x7x3_3", 192, HALF3)}, ["branch3x3_2", "branch7x7x3_4", "max"]


def block_e():
    return {"branch1x1": ("x", 320, {}), "branch3x3_1": ("x", 384, {}), "branch3x3_2a": ("branch3x3_1", 384, ROW3),
            "branch3x3_2b": ("branch3x3_1", 384, COLUMN3), "branch3x3dbl_1": ("x", 448, {}),
            "branch3x3dbl_2": ("branch3x3dbl_1", 384, SAME3), "branch3x3dbl_3a": ("branch3x3dbl_2", 384, ROW3),
            "branch3x3dbl_3b": ("branch3x3dbl_2", 384, COLUMN3), "branch_pool": ("average", 192, {})}, [
                "branch1x1", "branch3x3_2a", "branch3x3_2b", "branch3x3dbl_3a", "branch3x3dbl_3b", "branch_pool"]


BLOCKS = {"Mixed_5b": block_a(32), "Mixed_5c": block_a(64), "Mixed_5d": block_a(64), "Mixed_6a": block_b(),
          "Mixed_6b": block_c(128), "Mixed_6c": block_c(160), "Mixed_6d": block_c(160), "Mixed_6e": block_c(192),
          "Mixed_7a": block_d(), "Mixed_7b": block_e(), "Mixed_7c": block_e()}


class Auxiliary(nn.Module):
    def __init__(self, channels, classes, unit):
        super().__init__()
        self.conv0 = unit(channels, 128, {})
        self.conv1 = unit(unit.channels(128), 768, {"kernel": 5})
        self.fc = nn.Linear(unit.channels(768), classes)

    def forward(self, x):
        return self.fc(self.conv1(self.conv0(F.avg_pool2d(x, 5, 3))).mean((2, 3)))


class Units:
    def __init__(self, divisor, norm):
        self.divisor, self.norm = divisor, norm

    def channels(self, full):
        return full // self.divisor

    def __call__(self, channels, out, form):
        return Unit(channels, self.channels(out), norm=self.norm, **form)


class Inception(nn.Module):
    def __init__(self, image, classes, divisor, aux=False, artifact=False):
        super().__init__()
        unit = Units(divisor, norm=not artifact)
        size = unit.channels
        self.Conv2d_1a_3x3 = unit(3, 32, HALF3)
        self.Conv2d_2a_3x3 = unit(size(32), 32, {"kernel": 3})
        self.Conv2d_2b_3x3 = unit(size(32), 64, SAME3)
        self.Conv2d_3b_1x1 = unit(size(64), 80, {})
        self.Conv2d_4a_3x3 = unit(size(80), 192, SAME3 if artifact else {"kernel": 3})
        channels = size(192)
        for name, (table, results) in BLOCKS.items():
            setattr(self, name, Block(channels, table, results, unit))
            channels = getattr(self, name).channels
            if name == "Mixed_6e":
                self.AuxLogits = Auxiliary(channels, classes, unit) if aux else None
        self.fc = nn.Linear(channels, classes)
        self.inputs = {"image": (3, image, image), "labels": classes}

    def forward(self, image, labels):
        x = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(image)))
        x = self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(F.max_pool2d(x, 3, 2)))
        x = F.max_pool2d(x, 3, 2)
        extra = 0
        for name in BLOCKS:
            x = getattr(self, name)(x)
            if name == "Mixed_6e" and self.AuxLogits is not None:
                extra = 0.4 * F.cross_entropy(self.AuxLogits(x), labels)
        return F.cross_entropy(self.fc(x.mean((2, 3))), labels) + extra
