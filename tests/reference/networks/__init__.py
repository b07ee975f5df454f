"""The built-in models in plain PyTorch, written from the publications. Parameters have the names that Unity gives them."""
