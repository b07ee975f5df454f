"""The models that compare_models.py compares: their reduced sizes, optimizers, and the same in PyTorch."""
import dataclasses
import typing

from networks.decoders import Gpt2, T5, Vit
from networks.inception import Inception
from networks.nasnet import NasNet
from networks.perceptrons import CandleUno, Dlrm, DlrmArtifact, Mlp, TwoBranches, Xdl
from networks.residual import PlainBlock, ResNet, Vgg16
from networks.transformers import Bert, BertArtifact


@dataclasses.dataclass
class Case:
    model: str
    options: dict
    batch: int
    optimizer: str
    make: typing.Callable
    gain: float = 2.0  # of initial weights: their variance is gain / fan_in
    seed: int = 11  # of the data
    precisions: tuple = ("f32", "f64")

    def network(self):
        model = self.make()
        model.gain = self.gain
        return model


SGD = "sgd 0.01 momentum=0.9 weight_decay=1e-4"
# A large epsilon: where a gradient is nothing but rounding, Adam would make steps of it.
ADAMW = "adamw 1e-3 epsilon=1e-3 weight_decay=0.05"

# Batch norm makes the gradients of early layers large.
SLOW = "sgd 1e-3 momentum=0.9 weight_decay=1e-3"

CASES = {
    "resnext-50": Case("resnext-50", {"image": 64, "classes": 10, "divisor": 8, "groups": 8}, 16, SLOW,
                       lambda: ResNet(64, 10, 8, 16, 2, 8)),
    "resnext-50@artifact": Case("resnext-50@artifact", {"image": 64, "classes": 10, "divisor": 8, "groups": 8}, 8, SGD,
                                lambda: ResNet(64, 10, 8, 16, 2, 8, PlainBlock), seed=2),
    "inception-v3": Case("inception-v3", {"image": 139, "classes": 10, "divisor": 8}, 8, SLOW,
                         lambda: Inception(139, 10, 8), seed=5),
    "inception-v3 aux": Case("inception-v3", {"image": 299, "classes": 10, "divisor": 16, "aux": 1}, 64, SLOW,
                             lambda: Inception(299, 10, 16, aux=True), precisions=("f64",)),
    "inception-v3@artifact": Case("inception-v3@artifact", {"image": 107, "classes": 10, "divisor": 8}, 4, SGD,
                                  lambda: Inception(107, 10, 8, artifact=True)),
    "bert-tiny": Case("bert-tiny", {"nsp": 1}, 12, ADAMW, lambda: Bert(128, 16, 2, 64, 4, 128, True), 1.0),
    "bert-large": Case("bert-large", {"layers": 2, "hidden": 64, "heads": 4, "seq-len": 32, "vocab": 500}, 4,
                       "adam 1e-3 epsilon=1e-3", lambda: Bert(500, 32, 2, 64, 4, 256), 1.0),
    "bert@artifact": Case("bert@artifact", {"layers": 4, "hidden": 64, "heads": 4, "seq-len": 32}, 4,
                          "sgd 1 momentum=0.9 weight_decay=1e-4",
                          lambda: BertArtifact(32, 4, 64, 4), 0.4),
    "dlrm": Case("dlrm", {"rows": 100, "width": 16, "hidden": 64}, 64, SGD, lambda: Dlrm(100, 16, 64)),
    "dlrm@artifact": Case("dlrm@artifact", {"rows": 100}, 64, SGD, lambda: DlrmArtifact(100, 4, 64, 64)),
    "xdl": Case("xdl", {"rows": 100, "hidden": 64}, 64, SGD, lambda: Xdl(100, 4, 64, 64)),
    "candle-uno": Case("candle-uno", {"hidden": 48, "features": 200}, 32, SGD, lambda: CandleUno(8, 4, 48, 200)),
    "mlp": Case("mlp", {"hidden": 64}, 32, SGD, lambda: Mlp([64] * 17)),
    "mlp@artifact": Case("mlp@artifact", {"hidden": 64, "input": 32}, 32, SGD, lambda: TwoBranches(8, 64, 32)),
    "mlp-tiny": Case("mlp-tiny", {}, 64, "adam 1e-3", lambda: Mlp([64, 512, 10])),
    "vgg-16": Case("vgg-16", {"image": 32, "classes": 10, "divisor": 8, "hidden": 64}, 8, SGD,
                   lambda: Vgg16(32, 10, 64, 8)),
    "resnet-50": Case("resnet-50", {"image": 64, "classes": 10, "divisor": 8}, 16, SLOW,
                      lambda: ResNet(64, 10, 8, 8, 4)),
    "nasnet-a-mobile": Case("nasnet-a-mobile", {"image": 64, "classes": 10, "filters": 8, "stem": 8, "cells": 2}, 16, SLOW,
                            lambda: NasNet(64, 10, 8, 2, 8)),
    "nasnet-a-mobile odd": Case("nasnet-a-mobile", {"image": 75, "classes": 10, "filters": 8, "stem": 8, "cells": 1}, 8,
                                SLOW, lambda: NasNet(75, 10, 8, 1, 8)),
    "gpt2-small": Case("gpt2-small", {"layers": 3, "hidden": 48, "heads": 4, "seq-len": 24, "vocab": 200}, 4, ADAMW,
                       lambda: Gpt2(200, 24, 3, 48, 4), 1.0),
    "gpt2-small fused": Case("gpt2-small", {"layers": 3, "hidden": 48, "heads": 4, "seq-len": 24, "vocab": 200,
                                            "fused": 1}, 4, ADAMW, lambda: Gpt2(200, 24, 3, 48, 4), 1.0),
    "moe-transformer": Case("moe-transformer", {"layers": 4, "hidden": 48, "heads": 4, "seq-len": 24, "vocab": 200,
                                                "experts": 4}, 4, ADAMW, lambda: Gpt2(200, 24, 4, 48, 4, 4), 1.0),
    "moe-transformer balance": Case("moe-transformer", {"layers": 4, "hidden": 48, "heads": 4, "seq-len": 24,
                                                        "vocab": 200, "experts": 4, "balance": 1}, 4, ADAMW,
                                    lambda: Gpt2(200, 24, 4, 48, 4, 4, True), 1.0),
    "t5-small": Case("t5-small", {"layers": 2, "hidden": 48, "heads": 4, "head-size": 8, "ffn": 96, "seq-len": 150,
                                  "target-len": 140, "vocab": 200}, 2, ADAMW,
                     lambda: T5(200, 150, 140, 2, 48, 4, 8, 96), 1.0),
    "vit-b16": Case("vit-b16", {"image": 48, "patch": 16, "layers": 3, "hidden": 48, "heads": 4, "classes": 10}, 8, ADAMW,
                    lambda: Vit(48, 16, 3, 48, 4, 10), 1.0),
    "vit-b16 fused": Case("vit-b16", {"image": 48, "patch": 16, "layers": 3, "hidden": 48, "heads": 4, "classes": 10,
                                      "fused": 1}, 8, ADAMW, lambda: Vit(48, 16, 3, 48, 4, 10), 1.0),
}
