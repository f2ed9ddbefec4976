"""The memory and CPUs that a worker of Ray asks for, from a plan: Ray places workers by these numbers, and holds none to them.

    from ray.tune import PlacementGroupFactory, with_resources
    with_resources(T, lambda config: PlacementGroupFactory([stepwell.ray.resources(model="mlp", hidden=config["hidden"])]))
    T.options(**stepwell.ray.actor(model="lenet5", batch=128)).remote()

Ray is not imported here."""
import functools
import importlib
import os
import subprocess
import sys

from ._calls import Function, library
from ._command import plan as planned
from ._owners import get

OTHERS = ("ray", "ray.tune")  # what workers import beside this package


def resources(plan=None, *, data_sets=0, more=0, threads=1, worker=None, **options):
    """The bundle {"CPU", "memory"} of a worker that trains what was planned: its total_bytes, those of the data sets that it holds, and
    what a worker has before it trains.

    plan       what `stepwell plan --json` says, as a dict; of several plans the largest counts. None: it is made by these options
    data_sets  objects of sw_dataset, whose samples are counted, or already a number of bytes
    more       bytes of what else it holds, such as a pack while that is saved
    threads    of the worker, which are its CPUs
    worker     bytes of a worker that has not begun; None: worker_bytes()"""
    if plan is None:
        plan = planned(threads=threads, **options)
    elif options:
        raise TypeError(f"a plan that was made has its options already (got {', '.join(options)})")
    if plan.get("device", "cpu") != "cpu":
        raise ValueError(f"memory of {plan['device']} is not asked of Ray in bytes: plan for the cpu, or ask for GPUs")
    totals = [p["total_bytes"] for one in plan.get("plans") or plan.get("methods") or [plan] for p in one.get("programs", [one]) if "total_bytes" in p]
    if not totals:
        raise ValueError("nothing that was planned fits its budget")
    sets = data_sets if isinstance(data_sets, int) else sum(get(Function("sw_dataset_describe"), one).bytes for one in data_sets)
    return {"CPU": threads, "memory": max(totals) + sets + more + (worker_bytes() if worker is None else worker)}


def actor(plan=None, **words):
    """The same as options of an actor or a task: num_cpus and memory."""
    bundle = resources(plan, **words)
    return {"num_cpus": bundle["CPU"], "memory": bundle["memory"]}


def worker_bytes():
    """The memory of a worker that has this package, its library, and the modules of Ray that this process has; measured once. Where
    Ray runs it is that of one of its workers, else of another interpreter, which lacks the connection to Ray (some 15 MB)."""
    modules = tuple(name for name in OTHERS if name in sys.modules)
    return _measured(modules, bool(modules) and sys.modules["ray"].is_initialized())


@functools.lru_cache(maxsize=None)
def _measured(modules, by_ray):
    if by_ray:
        ray = sys.modules["ray"]
        return ray.get(ray.remote(num_cpus=0, max_calls=1)(bare_bytes).remote(modules))
    words = [sys.executable, "-c", "import sys; sys.path[:0] = sys.argv[1:2]; import stepwell; print(stepwell.ray.bare_bytes(sys.argv[2:]))"]
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return int(subprocess.run([*words, package, *modules], stdout=subprocess.PIPE, text=True, check=True).stdout)


def bare_bytes(modules):
    """The memory of this process, once it has the library and these modules."""
    for name in modules:
        importlib.import_module(name)
    library()
    with open("/proc/self/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
