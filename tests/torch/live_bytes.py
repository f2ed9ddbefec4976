"""Live tensor bytes of PyTorch, by watching every operator that it dispatches.

A storage counts from the operator that returns it (or from `track`) until its last reference is gone; what an operator
takes and gives back inside is not seen, so the figures are rather too small than too large.
"""
import weakref

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter


class LiveBytes(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.live = self.peak = 0
        self.known = {}

    def track(self, tensors):
        for tensor in tensors:
            storage = tensor.untyped_storage()
            key = storage._cdata
            if key in self.known:
                continue
            size = storage.nbytes()
            self.known[key] = weakref.ref(storage, lambda _, key=key, size=size: self.drop(key, size))
            self.live += size
        self.peak = max(self.peak, self.live)

    def drop(self, key, size):
        del self.known[key]
        self.live -= size

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.track(t for t in tree_iter(out) if isinstance(t, Tensor))
        return out
