"""The models of the check, at the sizes at which Unity and PyTorch train them on one GPU."""

# name: (options of Unity's model, options of PyTorch's network in experiments/cpu-speed/networks.py, or None)
MODELS = {
    "bert-large": (["--batch-per-gpu", "8", "--seq-len", "512"], {"batch": 8, "layers": 24, "length": 512}),
    "resnext-50": (["--batch-per-gpu", "64"], {"batch": 64}),
    "inception-v3": (["--batch-per-gpu", "64"], {"batch": 64}),
    "mlp": (["--batch-per-gpu", "256"], {"batch": 256, "hidden": 8192}),
    "dlrm": (["--batch-per-gpu", "1024"], {"batch": 1024, "rows": 1 << 62}),
    "candle-uno": ([], None),
    "xdl": ([], None),
}

PROFILED = sorted(MODELS, key=["dlrm", "mlp", "xdl", "candle-uno", "bert-large", "resnext-50", "inception-v3"].index)

# The same models on four logical devices that share the GPU.
SHARED = {"bert-large": ["--batch-per-gpu", "2", "--seq-len", "512"], "resnext-50": ["--batch-per-gpu", "16"]}

# Training steps that are timed: those that have goals, in all ways before any other; then the most telling first.
FIRST = [("bert-large", "bf16"), ("resnext-50", "bf16"), ("mlp", "bf16"), ("dlrm", "f32")]
TIMED = [*FIRST, ("resnext-50", "tf32"), ("bert-large", "tf32"), ("mlp", "tf32"), ("inception-v3", "bf16"),
         ("inception-v3", "tf32"), ("resnext-50", "f32"), ("bert-large", "f32")]

# The ways in which PyTorch runs a model; the fastest one that is not compiled is its eager time.
EAGER_MODES = {"resnext-50": ["eager", "channels-last"], "inception-v3": ["eager", "channels-last"],
               "dlrm": ["eager", "sparse"]}


def eager_modes(model):
    return EAGER_MODES.get(model, ["eager"])
