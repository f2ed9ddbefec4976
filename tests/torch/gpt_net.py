"""The model gpt in PyTorch: the same network, with the same names; and its optimizer."""
import torch


class Net(torch.nn.Module):
    def __init__(self, layers, width, heads, context, vocabulary):
        super().__init__()
        nn = torch.nn
        self.heads, self.width = heads, width
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(context, width)
        self.blocks = [f"block{i + 1}" for i in range(layers)]
        for name in self.blocks:
            self.add_module(name, nn.ModuleDict({
                "norm1": nn.LayerNorm(width), "qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width),
                "norm2": nn.LayerNorm(width), "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width)}))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        batch, rows = ids.shape
        x = self.tokens(ids) + self.places.weight[:rows]
        for name in self.blocks:
            b = getattr(self, name)
            q, k, v = (t.reshape(batch, rows, self.heads, -1).transpose(1, 2)
                       for t in b["qkv"](b["norm1"](x)).split(self.width, dim=-1))
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + b["out"](y.transpose(1, 2).reshape(batch, rows, self.width))
            x = x + b["down"](torch.nn.functional.gelu(b["up"](b["norm2"](x))))
        return torch.nn.functional.linear(self.norm(x), self.tokens.weight)

    def loss(self, ids, following):
        return torch.nn.functional.cross_entropy(self(ids).flatten(0, 1), following.flatten())


def adamw(net, **more):
    return torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.1, **more)
