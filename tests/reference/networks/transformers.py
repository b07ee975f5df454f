"""BERT."""
import torch
from torch import nn
from torch.nn import functional as F


class BertNorm(nn.Module):
    """Layer norm whose weights are named as in the publication."""

    def __init__(self, width, eps=1e-12):
        super().__init__()
        self.gamma, self.beta, self.eps = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width)), eps

    def forward(self, x):
        return F.layer_norm(x, self.gamma.shape, self.gamma, self.beta, self.eps)


def attend(q, k, v, heads, scale=None, bias=0, causal=False):
    """softmax(q k^T scale + bias) v for each head; q, k, v: [b, s, heads * e]."""
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (q, k, v))
    scores = q @ k.transpose(-2, -1) * (q.size(-1) ** -0.5 if scale is None else scale) + bias
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores[0, 0]).triu(1).bool(), float("-inf"))
    return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


class BertAttention(nn.Module):
    def __init__(self, width, heads, bias=True):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width, bias) for _ in range(4))

    def forward(self, x):
        return self.output(attend(self.query(x), self.key(x), self.value(x), self.heads))


def module(**parts):
    result = nn.Module()
    for name, part in parts.items():
        setattr(result, name, part)
    return result


class BertLayer(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.attention = BertAttention(width, heads)
        self.attention.norm = BertNorm(width)
        self.ffn = module(norm=BertNorm(width), **{"in": nn.Linear(width, inner), "out": nn.Linear(inner, width)})

    def forward(self, x):
        x = self.attention.norm(x + self.attention(x))
        inner = F.gelu(getattr(self.ffn, "in")(x))
        return self.ffn.norm(x + self.ffn.out(inner))


class Bert(nn.Module):
    def __init__(self, vocabulary, length, layers, width, heads, inner, next_sentence=False):
        super().__init__()
        table = lambda rows: nn.Parameter(torch.zeros(rows, width))
        self.embeddings = module(words=table(vocabulary), positions=table(length), types=table(2), norm=BertNorm(width))
        self.encoder = nn.ModuleList(BertLayer(width, heads, inner) for _ in range(layers))
        self.head = module(transform=nn.Linear(width, width), norm=BertNorm(width),
                           bias=nn.Parameter(torch.zeros(vocabulary)))
        self.inputs = {"tokens": (vocabulary, (length,)), "token_types": (2, (length,)), "labels": (vocabulary, (length,))}
        self.pooler = None
        if next_sentence:
            self.pooler, self.nsp = nn.Linear(width, width), nn.Linear(width, 2)
            self.inputs["next_sentence"] = 2

    def forward(self, tokens, types, labels, next_sentence=None):
        e = self.embeddings
        x = e.norm(F.embedding(tokens, e.words) + e.positions + F.embedding(types, e.types))
        for layer in self.encoder:
            x = layer(x)
        y = self.head.norm(F.gelu(self.head.transform(x)))
        loss = F.cross_entropy((y @ e.words.T + self.head.bias).flatten(0, 1), labels.flatten())
        if self.pooler is not None:
            loss = loss + F.cross_entropy(self.nsp(torch.tanh(self.pooler(x[:, 0]))), next_sentence)
        return loss


class BertArtifact(nn.Module):
    """Attention and two dense layers with ReLU between them, over and over; no norms, residuals and biases."""

    def __init__(self, length, layers, width, heads):
        super().__init__()
        self.encoder = nn.ModuleList(
            module(attention=BertAttention(width, heads, False),
                   ffn=nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(2))) for _ in range(layers))
        self.head = nn.Linear(width, 1, bias=False)
        self.inputs = {"x": (length, width), "label": (length, 1)}

    def forward(self, x, label):
        for layer in self.encoder:
            x = layer.ffn[1](F.relu(layer.ffn[0](layer.attention(x))))
        return F.mse_loss(self.head(x), label)
