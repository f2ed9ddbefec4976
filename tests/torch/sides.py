"""The two sides of the comparisons with PyTorch, in one process. Exit status 77 (skipped) where PyTorch or NumPy is missing."""
import ctypes
import sys

try:
    import numpy as np
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import stepwell as sw


class Side:
    """A model of stepwell's that trains on an exec of its own; its tensors have PyTorch's names."""

    def __init__(self, declare, seed=7, group=None, budget=None, **optimizer):
        """declare(model) registers the parameters, and what it returns is `net`; group(net): groups of parameters, for the optimizer."""
        self.exec = sw.make(sw.sw_exec_create, sw.sw_exec_opts(threads=2, seed=3, budget=budget))
        self.model = sw.make(sw.sw_model_create, "net")
        self.net = declare(self.model)
        if group is not None:
            optimizer["groups"] = group(self.net)
            optimizer["n_groups"] = len(optimizer["groups"])
        self.optimizer = sw.borrow(sw.sw_optimizer_create, self.model, sw.sw_optimizer_opts(**optimizer))
        sw.sw_model_ready(self.model, self.exec, seed)

    def args(self, fn, inputs, **more):
        return sw.sw_run_args(fn=fn, models=[self.model], n_models=1, inputs=sw.arrays(*inputs), n_inputs=len(inputs), **more)

    def run(self, fn, inputs=(), **more):
        sw.sw_run(self.exec, self.args(fn, inputs, **more))

    def params(self):
        found = [sw.sw_param_at(self.model, i) for i in range(sw.sw_param_count(self.model))]
        return {sw.sw_param_name(p): p for p in found}

    def tensors(self):
        return {name: torch.from_numpy(np.array(sw.read(p))) for name, p in self.params().items()}

    def gradients(self):
        """Of all parameters, which the optimizer keeps. Running statistics have none."""
        made = {n: np.empty_like(np.array(sw.read(p))) for n, p in self.params().items() if "running_" not in n}
        for name, p in self.params().items():
            if name in made:
                sw.sw_param_gradient(p, sw.array(made[name]).data, made[name].nbytes)
        return {n: torch.from_numpy(g) for n, g in made.items()}

    def output(self, name):
        return torch.from_numpy(np.array(sw.output(self.exec, name)))

    def backward(self, c, loss, update=True):
        """The end of a step: an update, or gradients alone."""
        sw.sw_backward(c, loss, [self.optimizer], 1)
        (sw.sw_update if update else sw.sw_accumulate)(c, self.optimizer)


class ToolSide(Side):
    """The same of a model of the program (nets.c)."""

    def __init__(self, model, fields, classes, counts=(), factors=(-1.0, -1.0), budget=None, order=None, **optimizer):
        """order: of the sums of products in bf16."""
        lib, pixels = sw.library(), (ctypes.c_float * 2)()
        half = {} if order is None else {"compute": sw.SW_BF16, "bf16_order": order}
        self.exec = sw.make(sw.sw_exec_create, sw.sw_exec_opts(threads=2, budget=budget, **half))
        info = sw.sw_dataset_info(n_classes=classes, n_fields=2, name="drawn", field=[sw.sw_array(dtype=t, shape=s) for t, s in fields])
        opts = sw.sw_optimizer_opts(**optimizer)
        lib.net_new.restype, lib.net_free.argtypes = ctypes.POINTER(ctypes.c_void_p), [ctypes.c_void_p]
        self.net = lib.net_new(model.encode(), ctypes.byref(info), ctypes.byref(opts), (ctypes.c_int64 * 5)(*counts), (ctypes.c_double * 2)(*factors), pixels)
        if not self.net:
            raise RuntimeError(sw.sw_last_error())
        self.model = ctypes.cast(self.net[0], ctypes.POINTER(sw.sw_model))
        self.scale, self.shift = pixels
        sw.sw_model_ready(self.model, self.exec, 7)

    def args(self, fn, inputs, **more):
        """The step is the model's own; its metrics are "loss" and, of classes, "accuracy"."""
        return super().args(sw.library().tool_net_step, inputs, user=ctypes.cast(self.net, ctypes.c_void_p).value, **more)

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        sw.library().net_free(self.net)
        self.exec.close()


def worst(ours, theirs, floor=1e-3):
    """The largest disagreement: |a - b| / max(|b|, floor * |all b|) by norm, and whose it is."""
    assert ours.keys() == theirs.keys(), sorted(ours.keys() ^ theirs.keys())
    total = sum(float(t.detach().double().norm()) ** 2 for t in theirs.values()) ** 0.5
    found = (0.0, "all")
    for name, reference in theirs.items():
        reference = reference.detach().double()
        assert ours[name].numel() == reference.numel(), f"{name}: {ours[name].numel()} elements, PyTorch has {reference.numel()}"
        difference = float((ours[name].double().flatten() - reference.flatten()).norm())
        found = max(found, (difference / max(float(reference.norm()), floor * total), name))
    return found
