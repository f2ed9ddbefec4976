#!/usr/bin/env python3
"""The kinds of PyTorch's tensors, by rules and by PyTorch itself: the roles of `stepwell report` against
named_parameters, optimizer.state, the gradients and saved_tensors_hooks, to the byte.

usage: roles.py STEPWELL

Small nets are trained under the profiler, on the CPU. Exit status 77 (skipped) where PyTorch is missing.
"""
import json
import os
import pickle
import subprocess
import sys
import tempfile

try:
    import torch
    from torch.cuda import _memory_viz as viz
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

STEPS = 4


class Convolutions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 24, 3)
        self.second = torch.nn.Conv2d(24, 40, 3)
        self.last = torch.nn.Linear(40 * 12 * 12, 11)

    def forward(self, x):
        x = torch.relu(self.second(torch.tanh(self.first(x))))
        return self.last(x.flatten(1))


def perceptron():
    return torch.nn.Sequential(torch.nn.Linear(96, 130), torch.nn.GELU(), torch.nn.Linear(130, 70), torch.nn.Sigmoid(),
                               torch.nn.Linear(70, 12))


NETS = {
    "perceptron, Adam": (perceptron, (64, 96), lambda p: torch.optim.Adam(p, foreach=False)),
    "perceptron, momentum": (perceptron, (64, 96), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
    "convolutions, Adam": (Convolutions, (8, 3, 16, 16), lambda p: torch.optim.Adam(p, foreach=False)),
}


class Known:
    """The storages that PyTorch itself names."""

    def __init__(self):
        self.most, self.now = 0, {}

    def pack(self, tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self.others:
            self.now[storage.data_ptr()] = storage.nbytes()
            self.most = max(self.most, sum(self.now.values()))
        return tensor


def nbytes(tensors):
    return sum({tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}.values())


def record(path, make, shape, optimizer_of):
    """Train, write the snapshot, and say what must be in it."""
    torch.manual_seed(1)
    net = make()
    optimizer = optimizer_of(net.parameters())
    known, gradients = Known(), 0
    with torch.profiler.profile(profile_memory=True, record_shapes=True, with_stack=True,
                                activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(STEPS):
            optimizer.zero_grad()
            inputs, labels = torch.randn(shape), torch.randint(0, 11, (shape[0],))
            known.now = {}
            known.others = {tensor.untyped_storage().data_ptr() for tensor in [inputs, labels, *net.parameters()]}
            with torch.autograd.graph.saved_tensors_hooks(known.pack, lambda tensor: tensor):
                loss = torch.nn.functional.cross_entropy(net(inputs), labels)
            loss.backward()
            gradients = max(gradients, nbytes([p.grad for p in net.parameters()]))
            optimizer.step()
    snapshot = viz._profile_to_snapshot(profile)
    for event in [e for trace in snapshot["device_traces"] for e in trace]:
        event.pop("category", None)  # what PyTorch's profiler finds out itself: cards' snapshots have none
    with open(path, "wb") as file:
        pickle.dump(snapshot, file)
    state = [x for values in optimizer.state.values() for x in values.values() if torch.is_tensor(x)]
    return {"parameter": nbytes([p for _, p in net.named_parameters()]), "optimizer_state": nbytes(state),
            "gradient": gradients, "saved": known.most}


def main():
    stepwell, mistakes = sys.argv[1], 0
    with tempfile.TemporaryDirectory() as folder:
        for name, net in NETS.items():
            path = os.path.join(folder, "roles.pickle")
            must = record(path, *net)
            said = json.loads(subprocess.run([stepwell, "report", path, "--by", "role", "--json"], check=True,
                                             capture_output=True, text=True).stdout)
            most = {row["role"]: row["own_peak_bytes"] for row in said["rows"]}
            for role, bytes_ in must.items():
                ok = most.get(role, 0) == bytes_
                mistakes += not ok
                print(f"{name}: {role} {most.get(role, 0):,} of {bytes_:,}{'' if ok else ': wrong'}")
            plan = json.loads(subprocess.run([stepwell, "report", path, "--replan", "--json"], check=True,
                                             capture_output=True, text=True).stdout)["devices"][0]
            if plan["steps"] != STEPS or plan["steps_are"] != "optimizer steps":
                mistakes += 1
                print(f"{name}: {plan['steps']} {plan['steps_are']}: wrong")
    print(f"{len(NETS)} nets, {mistakes} mistakes")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
