"""Perceptrons and click models: layers of dense units, tables of embeddings."""
import torch
from torch import nn
from torch.nn import functional as F

CRITEO_ROWS = [1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10,
               5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572]


class Stack(nn.ModuleList):
    """Dense layers with ReLU between them, and after the last with `relu_last`."""

    def __init__(self, inputs, units, bias=False, relu_last=False):
        super().__init__(nn.Linear(a, b, bias) for a, b in zip([inputs, *units], units))
        self.relu_last = relu_last

    def forward(self, x):
        for i, layer in enumerate(self):
            x = layer(x)
            if self.relu_last or i + 1 < len(self):
                x = F.relu(x)
        return x


class Mlp(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.layer = Stack(widths[0], widths[1:])
        self.inputs = {"x": (widths[0],), "labels": widths[-1]}

    def forward(self, x, labels):
        return F.cross_entropy(self.layer(x), labels)


class TwoBranches(nn.Module):
    """mlp@artifact"""

    def __init__(self, layers, hidden, inputs):
        super().__init__()
        self.left, self.right = (Stack(inputs, [hidden] * layers) for _ in range(2))
        self.inputs = {"left": (inputs,), "right": (inputs,), "labels": hidden}

    def forward(self, left, right, labels):
        return F.cross_entropy(self.left(left) + self.right(right), labels)


class Tables(nn.ModuleList):
    def __init__(self, rows, width):
        super().__init__(nn.EmbeddingBag(n, width, mode="sum") for n in rows)

    def forward(self, indices):
        return [table(i) for table, i in zip(self, indices)]

    def inputs(self):
        return {f"sparse.{i}": (table.num_embeddings, (1,)) for i, table in enumerate(self)}


class Dlrm(nn.Module):
    def __init__(self, rows, width, hidden):
        super().__init__()
        self.embedding = Tables([min(rows, n) for n in CRITEO_ROWS], width)
        self.bottom = Stack(13, [hidden, hidden // 2, hidden // 8, width], bias=True, relu_last=True)
        features = 1 + len(CRITEO_ROWS)
        self.top = Stack(width + features * (features - 1) // 2, [hidden, hidden // 2, 1], bias=True)
        self.inputs = {"dense": (13,), **self.embedding.inputs(), "label": "binary"}

    def forward(self, dense, *rest):
        *indices, label = rest
        x = self.bottom(dense)
        features = torch.stack([x, *self.embedding(indices)], 1)
        products = features @ features.transpose(1, 2)
        first, second = torch.tril_indices(features.size(1), features.size(1), -1)
        return F.binary_cross_entropy_with_logits(self.top(torch.cat([x, products[:, first, second]], 1)), label)


class DlrmArtifact(nn.Module):
    def __init__(self, rows, tables, width, hidden):
        super().__init__()
        self.embedding = Tables([rows] * tables, width)
        self.bottom = Stack(4, [hidden, hidden], relu_last=True)
        self.top = Stack(hidden + tables * width, [hidden, 2])
        self.inputs = {"dense": (4,), **self.embedding.inputs(), "labels": 2}

    def forward(self, dense, *rest):
        *indices, labels = rest
        return F.cross_entropy(self.top(torch.cat([self.bottom(dense), *self.embedding(indices)], 1)), labels)


class Xdl(nn.Module):
    def __init__(self, rows, tables, width, hidden):
        super().__init__()
        self.embedding = Tables([rows] * tables, width)
        self.layer = Stack(tables * width, [hidden, hidden, 2])
        self.inputs = {**self.embedding.inputs(), "labels": 2}

    def forward(self, *rest):
        *indices, labels = rest
        return F.cross_entropy(self.layer(torch.cat(self.embedding(indices), 1)), labels)


class CandleUno(nn.Module):
    FEATURES = {"cell.rnaseq": 942, "drug1.descriptors": 5270, "drug1.fingerprints": 2048, "drug2.descriptors": 5270,
                "drug2.fingerprints": 2048}

    def __init__(self, layers, top_layers, hidden, features):
        super().__init__()
        self.inputs = {"dose1": (1,), "dose2": (1,)}
        for name, size in self.FEATURES.items():
            group, part = name.split(".")
            if not hasattr(self, group):
                setattr(self, group, nn.Module())
            setattr(getattr(self, group), part, Stack(min(size, features), [hidden] * layers, relu_last=True))
            self.inputs[name] = (min(size, features),)
        self.top = Stack(2 + len(self.FEATURES) * hidden, [hidden] * top_layers, relu_last=True)
        self.growth = nn.Linear(hidden, 1, bias=False)
        self.inputs["label"] = (1,)

    def forward(self, dose1, dose2, *rest):
        *features, label = rest
        towers = [self.get_submodule(name)(x) for name, x in zip(self.FEATURES, features)]
        return F.mse_loss(self.growth(self.top(torch.cat([dose1, dose2, *towers], 1))), label)
