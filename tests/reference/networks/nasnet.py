"""NASNet-A (Zoph et al., CVPR 2018, figure 4)."""
import torch
from torch import nn
from torch.nn import functional as F


def same(x, kernel, stride, value=0.0):
    """Pads to ceil(size / stride) results; the odd element comes after the image."""
    pad = []
    for size in (x.size(3), x.size(2)):
        total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        pad += [total // 2, total - total // 2]
    return F.pad(x, pad, value=value)


def average(x, stride=1):
    """Mean over the elements of a window that are in the image."""
    inside = same(torch.ones_like(x[:1, :1]), 3, stride)
    return F.avg_pool2d(same(x, 3, stride), 3, stride) / F.avg_pool2d(inside, 3, stride)


def largest(x, stride):
    return F.max_pool2d(same(x, 3, stride, float("-inf")), 3, stride)


def norm(channels):
    return nn.BatchNorm2d(channels, eps=1e-3)


class Separable(nn.Module):
    def __init__(self, channels, out, kernel, stride):
        super().__init__()
        self.kernel, self.stride = kernel, stride
        self.depthwise_conv2d = nn.Conv2d(channels, channels, kernel, stride, groups=channels, bias=False)
        self.pointwise_conv2d = nn.Conv2d(channels, out, 1, bias=False)

    def forward(self, x):
        return self.pointwise_conv2d(self.depthwise_conv2d(same(x, self.kernel, self.stride)))


class Branch(nn.Module):
    def __init__(self, channels, out, kernel, stride=1):
        super().__init__()
        self.separable_1, self.bn_sep_1 = Separable(channels, out, kernel, stride), norm(out)
        self.separable_2, self.bn_sep_2 = Separable(out, out, kernel, 1), norm(out)

    def forward(self, x):
        x = self.bn_sep_1(self.separable_1(F.relu(x)))
        return self.bn_sep_2(self.separable_2(F.relu(x)))


class Squeeze(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(channels, out, 1, bias=False), norm(out)

    def forward(self, x):
        return self.bn(self.conv(F.relu(x)))


def add_halve(cell, channels, out):
    """Even positions for one half of the channels, odd ones for the other; past the end is zero."""
    cell.path_1, cell.path_2 = nn.Module(), nn.Module()
    for path in (cell.path_1, cell.path_2):
        path.conv = nn.Conv2d(channels, out // 2, 1, 2, bias=False)
    cell.final_path_bn = norm(out)


def halve(cell, x):
    x = F.relu(x)
    shifted = F.pad(x, (0, 1, 0, 1))[:, :, 1:, 1:]
    return cell.final_path_bn(torch.cat([cell.path_1.conv(x), cell.path_2.conv(shifted)], 1))


class Cell(nn.Module):
    def __init__(self, previous, channels, out, halved):
        """`halved`: the cell before has half the size of the one before it."""
        super().__init__()
        self.halved = halved
        if halved:
            add_halve(self, previous, out)
        else:
            self.conv_prev_1x1 = Squeeze(previous, out)
        self.conv_1x1 = Squeeze(channels, out)

    def operands(self, previous, x):
        return halve(self, previous) if self.halved else self.conv_prev_1x1(previous), self.conv_1x1(x)


class Normal(Cell):
    def __init__(self, previous, channels, out, halved):
        super().__init__(previous, channels, out, halved)
        self.comb_iter_0_left, self.comb_iter_0_right = Branch(out, out, 5), Branch(out, out, 3)
        self.comb_iter_1_left, self.comb_iter_1_right = Branch(out, out, 5), Branch(out, out, 3)
        self.comb_iter_4_left = Branch(out, out, 3)
        self.channels = 6 * out

    def forward(self, previous, x):
        left, right = self.operands(previous, x)
        y0 = self.comb_iter_0_left(right) + self.comb_iter_0_right(left)
        y1 = self.comb_iter_1_left(left) + self.comb_iter_1_right(left)
        y2 = average(right) + left
        y3 = average(left) + average(left)
        y4 = self.comb_iter_4_left(right) + right
        return torch.cat([left, y0, y1, y2, y3, y4], 1)


def add_reduction(cell, left, right, out):
    cell.comb_iter_0_left, cell.comb_iter_0_right = Branch(right, out, 5, 2), Branch(left, out, 7, 2)
    cell.comb_iter_1_right = Branch(left, out, 7, 2)
    cell.comb_iter_2_right = Branch(left, out, 5, 2)
    cell.comb_iter_4_left = Branch(out, out, 3)
    cell.channels = 4 * out


def reduction(cell, left, right):
    y0 = cell.comb_iter_0_left(right) + cell.comb_iter_0_right(left)
    y1 = largest(right, 2) + cell.comb_iter_1_right(left)
    y2 = average(right, 2) + cell.comb_iter_2_right(left)
    y3 = average(y0) + y1
    y4 = cell.comb_iter_4_left(y0) + largest(right, 2)
    return torch.cat([y1, y2, y3, y4], 1)


class Reduction(Cell):
    def __init__(self, previous, channels, out, halved):
        super().__init__(previous, channels, out, halved)
        add_reduction(self, out, out, out)

    def forward(self, previous, x):
        return reduction(self, *self.operands(previous, x))


class Stem(nn.Module):
    """The first cell, which has but one predecessor."""

    def __init__(self, channels, out):
        super().__init__()
        self.conv_1x1 = Squeeze(channels, out)
        add_reduction(self, channels, out, out)

    def forward(self, x):
        return reduction(self, x, self.conv_1x1(x))


class NasNet(nn.Module):
    def __init__(self, image, classes, filters, cells, stem):
        super().__init__()
        self.conv0 = nn.Module()
        self.conv0.conv, self.conv0.bn = nn.Conv2d(3, stem, 3, 2, bias=False), norm(stem)
        self.cell_stem_0 = Stem(stem, filters // 4)
        self.cell_stem_1 = Reduction(stem, self.cell_stem_0.channels, filters // 2, True)
        self.sequence, halved = [], True
        previous, channels = self.cell_stem_0.channels, self.cell_stem_1.channels
        for stage in range(3):
            for i in range(cells + (stage > 0)):
                first = stage > 0 and i == 0
                name = f"reduction_cell_{stage - 1}" if first else f"cell_{stage * (cells + 2) + i - (stage > 0)}"
                cell = (Reduction if first else Normal)(previous, channels, filters << stage, halved)
                setattr(self, name, cell)
                self.sequence.append(name)
                previous, channels, halved = channels, cell.channels, first
        self.last_linear = nn.Linear(channels, classes)
        self.inputs = {"image": (3, image, image), "labels": classes}

    def forward(self, image, labels):
        stem = self.conv0.bn(self.conv0.conv(image))
        previous = self.cell_stem_0(stem)
        x = self.cell_stem_1(stem, previous)
        for name in self.sequence:
            previous, x = x, getattr(self, name)(previous, x)
        return F.cross_entropy(self.last_linear(F.relu(x).mean((2, 3))), labels)
