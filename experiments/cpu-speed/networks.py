"""The networks of the comparison in plain PyTorch, each as the built-in model of that name.

NETWORKS[name](options) returns the module, one batch, the loss of the batch and the optimizer's factory.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

CRITEO_ROWS = [1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10,
               5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572]


class Mlp(nn.Module):
    def __init__(self, hidden, layers=16):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(hidden, hidden, bias=False) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x), inplace=True)
        return self.layers[-1](x)


class EncoderLayer(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(hidden, hidden) for _ in range(4))
        self.norm, self.ffn_norm = nn.LayerNorm(hidden, 1e-12), nn.LayerNorm(hidden, 1e-12)
        self.ffn_in, self.ffn_out = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        def split(y):
            return y.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        context = F.scaled_dot_product_attention(split(self.query(x)), split(self.key(x)), split(self.value(x)))
        x = self.norm(x + self.output(context.transpose(1, 2).flatten(2)))
        return self.ffn_norm(x + self.ffn_out(F.gelu(self.ffn_in(x))))


class Bert(nn.Module):
    def __init__(self, layers, length, hidden=1024, heads=16, vocabulary=30522):
        super().__init__()
        self.words, self.types = nn.Embedding(vocabulary, hidden), nn.Embedding(2, hidden)
        self.positions = nn.Parameter(torch.empty(length, hidden))
        self.norm, self.head_norm = nn.LayerNorm(hidden, 1e-12), nn.LayerNorm(hidden, 1e-12)
        self.encoder = nn.Sequential(*(EncoderLayer(hidden, heads) for _ in range(layers)))
        self.transform = nn.Linear(hidden, hidden)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0, 0.02)

    def forward(self, tokens, types):
        x = self.norm(self.words(tokens) + self.positions + self.types(types))
        h = self.head_norm(F.gelu(self.transform(self.encoder(x))))
        return F.linear(h, self.words.weight, self.bias).flatten(0, 1)


def conv_norm(ci, co, kernel=1, stride=1, padding=0, groups=1, relu=True, epsilon=1e-5):
    parts = [nn.Conv2d(ci, co, kernel, stride, padding, groups=groups, bias=False), nn.BatchNorm2d(co, epsilon)]
    return nn.Sequential(*parts, *([nn.ReLU(inplace=True)] if relu else []))


class Bottleneck(nn.Module):
    def __init__(self, ci, width, stride):
        super().__init__()
        self.body = nn.Sequential(conv_norm(ci, width), conv_norm(width, width, 3, stride, 1, 32),
                                  conv_norm(width, 2 * width, relu=False))
        self.shortcut = nn.Identity() if ci == 2 * width else conv_norm(ci, 2 * width, 1, stride, relu=False)

    def forward(self, x):
        return F.relu(self.body(x) + self.shortcut(x), inplace=True)


def resnext(classes=1000):
    parts, ci = [conv_norm(3, 64, 7, 2, 3), nn.MaxPool2d(3, 2, 1)], 64
    for stage, blocks in enumerate([3, 4, 6, 3]):
        for i in range(blocks):
            width = 128 << stage
            parts.append(Bottleneck(ci, width, 2 if stage and i == 0 else 1))
            ci = 2 * width
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(ci, classes))


class Join(nn.Module):
    def __init__(self, *branches):
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


def unit(ci, co, kernel=1, stride=1, padding=0):
    return conv_norm(ci, co, kernel, stride, padding, epsilon=1e-3)


def chain(ci, *units):
    """units: (channels, kernel, stride, padding), the last two optional."""
    parts = []
    for co, *rest in units:
        parts.append(unit(ci, co, *rest))
        ci = co
    return nn.Sequential(*parts)


def pooled(ci, co):
    return nn.Sequential(nn.AvgPool2d(3, 1, 1), unit(ci, co))


ROW, COLUMN = ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0))


def block_a(ci, pool):
    return Join(unit(ci, 64), chain(ci, (48,), (64, 5, 1, 2)), chain(ci, (64,), (96, 3, 1, 1), (96, 3, 1, 1)),
                pooled(ci, pool))


def block_c(ci, c):
    return Join(unit(ci, 192), chain(ci, (c,), (c, *ROW), (192, *COLUMN)),
                chain(ci, (c,), (c, *COLUMN), (c, *ROW), (c, *COLUMN), (192, *ROW)), pooled(ci, 192))


def block_e(ci):
    def pair():
        return Join(unit(384, 384, (1, 3), 1, (0, 1)), unit(384, 384, (3, 1), 1, (1, 0)))

    return Join(unit(ci, 320), nn.Sequential(unit(ci, 384), pair()),
                nn.Sequential(chain(ci, (448,), (384, 3, 1, 1)), pair()), pooled(ci, 192))


def inception(classes=1000):
    stem = [unit(3, 32, 3, 2), unit(32, 32, 3), unit(32, 64, 3, 1, 1), nn.MaxPool2d(3, 2), unit(64, 80),
            unit(80, 192, 3), nn.MaxPool2d(3, 2)]
    return nn.Sequential(
        *stem, block_a(192, 32), block_a(256, 64), block_a(288, 64),
        Join(unit(288, 384, 3, 2), chain(288, (64,), (96, 3, 1, 1), (96, 3, 2)), nn.MaxPool2d(3, 2)),
        block_c(768, 128), block_c(768, 160), block_c(768, 160), block_c(768, 192),
        Join(chain(768, (192,), (320, 3, 2)), chain(768, (192,), (192, *ROW), (192, *COLUMN), (192, 3, 2)),
             nn.MaxPool2d(3, 2)),
        block_e(1280), block_e(2048), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, classes))


class Dlrm(nn.Module):
    def __init__(self, rows, sparse, width=16, hidden=512):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(min(rows, n), width, mode="sum", sparse=sparse)
                                    for n in CRITEO_ROWS)
        self.bottom = self.perceptron([13, hidden, hidden // 2, hidden // 8, width], True)
        pairs = len(CRITEO_ROWS) * (len(CRITEO_ROWS) + 1) // 2
        self.top = self.perceptron([width + pairs, hidden, hidden // 2, 1], False)
        self.register_buffer("pairs", torch.tril_indices(len(CRITEO_ROWS) + 1, len(CRITEO_ROWS) + 1, -1))

    @staticmethod
    def perceptron(widths, relu_last):
        parts = []
        for a, b in zip(widths, widths[1:]):
            parts += [nn.Linear(a, b), nn.ReLU(inplace=True)]
            nn.init.normal_(parts[-2].weight, 0, math.sqrt(2 / (a + b)))
        return nn.Sequential(*(parts if relu_last else parts[:-1]))

    def forward(self, dense, *ids):
        x = self.bottom(dense)
        rows = torch.stack([x] + [table(i) for table, i in zip(self.tables, ids)], 1)
        products = torch.bmm(rows, rows.transpose(1, 2))
        return self.top(torch.cat([x, products[:, self.pairs[0], self.pairs[1]]], 1))


def sgd(parameters):
    return torch.optim.SGD(parameters, 0.01)


def classify(module, x, classes):
    return module, (x,), (F.cross_entropy, torch.randint(classes, (x.shape[0],))), sgd


def make_mlp(o):
    return classify(Mlp(o["hidden"]), torch.randn(o["batch"], o["hidden"]), o["hidden"])


def make_bert(o):
    tokens, labels = (torch.randint(30522, (o["batch"], o["length"])) for _ in range(2))
    return Bert(o["layers"], o["length"]), (tokens, tokens % 2), (F.cross_entropy, labels.flatten()), \
        lambda parameters: torch.optim.Adam(parameters, 1e-4, fused=True)


def make_dlrm(o):
    ids = [torch.randint(min(o["rows"], n), (o["batch"], 1)) for n in CRITEO_ROWS]
    loss = F.binary_cross_entropy_with_logits, torch.randint(2, (o["batch"], 1)).float()
    return Dlrm(o["rows"], o["sparse"]), (torch.randn(o["batch"], 13), *ids), loss, sgd


NETWORKS = {"mlp": make_mlp, "bert-large": make_bert, "dlrm": make_dlrm,
            "resnext-50": lambda o: classify(resnext(), torch.randn(o["batch"], 3, 224, 224), 1000),
            "inception-v3": lambda o: classify(inception(), torch.randn(o["batch"], 3, 299, 299), 1000)}
