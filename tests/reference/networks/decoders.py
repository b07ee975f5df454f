"""GPT-2, the same with Switch mixtures of experts, T5 and ViT."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from networks.transformers import attend, module


class Attention(nn.Module):
    """Dense layers q, k, v and one of the name `out`."""

    def __init__(self, width, heads, out, inner=None, bias=True, **how):
        super().__init__()
        inner = inner or width
        self.heads, self.out, self.how = heads, out, how
        self.q, self.k, self.v = (nn.Linear(width, inner, bias) for _ in range(3))
        setattr(self, out, nn.Linear(inner, width, bias))

    def forward(self, x, memory=None, bias=0):
        memory = x if memory is None else memory
        y = attend(self.q(x), self.k(memory), self.v(memory), self.heads, bias=bias, **self.how)
        return getattr(self, self.out)(y)


class GptMlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Switch(nn.Module):
    """Fedus, Zoph, Shazeer, "Switch Transformers", section 2: each token to its best expert, as long as that has room
    (in the order of the sequence), times its gate. `balance` is the loss of equation 4 after a call, without alpha."""

    def __init__(self, width, inner, experts, capacity):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = module(wi=nn.Parameter(torch.zeros(experts, width, inner)),
                              wo=nn.Parameter(torch.zeros(experts, inner, width)))
        self.capacity = capacity

    def forward(self, x):
        gates = self.router(x).softmax(-1)
        gate, best = gates.max(-1)
        chosen = F.one_hot(best, gates.size(-1))
        place = (chosen.cumsum(1) * chosen).sum(-1)  # from 1, in the queue of its expert
        hidden = F.gelu(torch.einsum("btd,edf->btef", x, self.experts.wi), approximate="tanh")
        every = torch.einsum("btef,efd->bted", hidden, self.experts.wo)
        y = (every * chosen[..., None]).sum(2) * gate[..., None]
        self.balance = gates.size(-1) * (chosen.to(x.dtype).mean((0, 1)) * gates.mean((0, 1))).sum()
        self.dropped = int((place > self.capacity).sum())
        return y * (place <= self.capacity)[..., None]


class GptLayer(nn.Module):
    def __init__(self, width, heads, switch=None):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads, "c_proj", causal=True)
        self.kind = "mlp" if switch is None else "moe"
        setattr(self, self.kind, GptMlp(width) if switch is None else switch)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + getattr(self, self.kind)(self.ln_2(x))


class Gpt2(nn.Module):
    def __init__(self, vocabulary, length, layers, width, heads, experts=0, balance=False):
        super().__init__()
        capacity = math.ceil(1.25 * length / experts) if experts else 0
        switch = lambda i: Switch(width, 4 * width, experts, capacity) if experts and i % 2 else None
        self.transformer = module(wte=nn.Embedding(vocabulary, width), wpe=nn.Embedding(length, width),
                                  h=nn.ModuleList(GptLayer(width, heads, switch(i)) for i in range(layers)),
                                  ln_f=nn.LayerNorm(width))
        self.balance = balance
        self.inputs = {"tokens": (vocabulary, (length,)), "labels": (vocabulary, (length,))}

    def forward(self, tokens, labels):
        t = self.transformer
        x = t.wte(tokens) + t.wpe.weight
        for layer in t.h:
            x = layer(x)
        logits = t.ln_f(x) @ t.wte.weight.T
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        if self.balance:
            loss = loss + 0.01 * sum(layer.moe.balance for layer in t.h if layer.kind == "moe")
        return loss


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * self.weight


def relative_bucket(distance, bidirectional, buckets=32, furthest=128):
    """Of key minus query (Raffel et al., section 2.1): half of the buckets are for one exact distance each, the others
    for logarithmically larger ranges; the last has all from `furthest` on."""
    result = 0
    if bidirectional:
        buckets //= 2
        result, distance = (buckets if distance > 0 else 0), abs(distance)
    else:
        distance = max(-distance, 0)
    exact = buckets // 2
    if distance < exact:
        return result + distance
    far = exact + int(math.log(distance / exact) / math.log(furthest / exact) * (buckets - exact))
    return result + min(far, buckets - 1)


class T5Part(nn.Module):
    def __init__(self, width, name, part):
        super().__init__()
        self.layer_norm, self.name = RmsNorm(width), name
        setattr(self, name, part)

    def forward(self, x, *more):
        return x + getattr(self, self.name)(self.layer_norm(x), *more)


class T5Dense(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.wi, self.wo = nn.Linear(width, inner, bias=False), nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.wo(F.relu(self.wi(x)))


class T5Stack(nn.Module):
    def __init__(self, layers, width, heads, inner, dense, decoder):
        super().__init__()
        self.decoder, self.block = decoder, nn.ModuleList()
        attention = lambda causal: Attention(width, heads, "o", inner, False, scale=1.0, causal=causal)
        for _ in range(layers):
            parts = [T5Part(width, "SelfAttention", attention(decoder))]
            if decoder:
                parts.append(T5Part(width, "EncDecAttention", attention(False)))
            parts.append(T5Part(width, "DenseReluDense", T5Dense(width, dense)))
            self.block.append(module(layer=nn.ModuleList(parts)))
        self.block[0].layer[0].SelfAttention.relative_attention_bias = nn.Embedding(32, heads)
        self.final_layer_norm = RmsNorm(width)

    def forward(self, x, memory=None):
        n = x.size(1)
        buckets = torch.tensor([[relative_bucket(k - q, not self.decoder) for k in range(n)] for q in range(n)])
        bias = self.block[0].layer[0].SelfAttention.relative_attention_bias(buckets).permute(2, 0, 1)
        for block in self.block:
            parts = list(block.layer)
            x = parts[0](x, None, bias)
            if self.decoder:
                x = parts[1](x, memory)
            x = parts[-1](x)
        return self.final_layer_norm(x)


class T5(nn.Module):
    def __init__(self, vocabulary, source, target, layers, width, heads, head_size, dense):
        super().__init__()
        self.shared = nn.Embedding(vocabulary, width)
        self.encoder = T5Stack(layers, width, heads, heads * head_size, dense, False)
        self.decoder = T5Stack(layers, width, heads, heads * head_size, dense, True)
        self.inputs = {"tokens": (vocabulary, (source,)), "decoder_tokens": (vocabulary, (target,)),
                       "labels": (vocabulary, (target,))}

    def forward(self, tokens, decoder_tokens, labels):
        x = self.decoder(self.shared(decoder_tokens), self.encoder(self.shared(tokens)))
        logits = (x * x.size(-1) ** -0.5) @ self.shared.weight.T
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


class VitBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.attn = Attention(width, heads, "proj")
        self.mlp = module(fc1=nn.Linear(width, 4 * width), fc2=nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp.fc2(F.gelu(self.mlp.fc1(self.norm2(x))))


class Vit(nn.Module):
    def __init__(self, image, patch, layers, width, heads, classes):
        super().__init__()
        self.patch_embed = module(proj=nn.Conv2d(3, width, patch, patch))
        self.cls_token = nn.Parameter(torch.zeros(1, width))
        self.pos_embed = nn.Parameter(torch.zeros((image // patch) ** 2 + 1, width))
        self.blocks = nn.ModuleList(VitBlock(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, classes)
        self.inputs = {"image": (3, image, image), "labels": classes}

    def forward(self, image, labels):
        x = self.patch_embed.proj(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.size(0), 1, -1), x], 1) + self.pos_embed
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)[:, 0]), labels)
