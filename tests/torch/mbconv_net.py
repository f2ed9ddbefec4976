"""The model mbconv in PyTorch: the same network, with the same names."""
import math

import torch

STAGES = [(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5),
          (6, 320, 1, 1, 3)]  # expand, channels, blocks, stride, kernel
nn = torch.nn


class ConvNorm(nn.Module):
    def __init__(self, inside, out, kernel, stride=1, groups=1):
        super().__init__()
        self.conv = nn.Conv2d(inside, out, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.norm = nn.BatchNorm2d(out, eps=1e-3, momentum=0.1)

    def forward(self, x):
        return self.norm(self.conv(x))


class Block(nn.Module):
    def __init__(self, expand, inside, out, kernel, stride):
        super().__init__()
        wide, few = inside * expand, max(1, inside // 4)
        self.adds = stride == 1 and inside == out
        self.expand = ConvNorm(inside, wide, 1) if expand > 1 else None
        self.depth = ConvNorm(wide, wide, kernel, stride, wide)
        self.reduce, self.excite = nn.Conv2d(wide, few, 1), nn.Conv2d(few, wide, 1)
        self.project = ConvNorm(wide, out, 1)

    def forward(self, x):
        silu = nn.functional.silu
        y = silu(self.expand(x)) if self.expand is not None else x
        y = silu(self.depth(y))
        y = y * torch.sigmoid(self.excite(silu(self.reduce(nn.functional.adaptive_avg_pool2d(y, 1)))))
        y = self.project(y)
        return x + y if self.adds else y


class Net(nn.Module):
    def __init__(self, channels, side, width, depth):
        super().__init__()

        def widened(n):
            rounded = max(8, int(n * width + 4) // 8 * 8)
            return rounded + 8 if rounded < 0.9 * n * width else rounded

        inside = widened(32)
        self.stem = ConvNorm(channels, inside, 3, 1 if side <= 32 else 2)
        self.blocks = 0
        for expand, out, blocks, stride, kernel in STAGES:
            for k in range(math.ceil(blocks * depth)):
                self.blocks += 1
                block = Block(expand, inside, widened(out), kernel, stride if k == 0 else 1)
                setattr(self, f"block{self.blocks}", block)
                inside = widened(out)
        self.head = ConvNorm(inside, widened(1280), 1)
        self.classes = nn.Linear(widened(1280), 10)

    def forward(self, x):
        x = nn.functional.silu(self.stem(x))
        for i in range(self.blocks):
            x = getattr(self, f"block{i + 1}")(x)
        x = nn.functional.adaptive_avg_pool2d(nn.functional.silu(self.head(x)), 1)
        return self.classes(x.flatten(1))
