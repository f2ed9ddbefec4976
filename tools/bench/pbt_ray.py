#!/usr/bin/env python3
"""Population based training of perceptrons on MNIST by Ray Tune: wall time, memory, accuracy.

usage: pbt_ray.py --data DIR [--python PYTHON] [--members 10] [--steps 2000] [--interval 100] [--batch 128]
                  [--cpus 2] [--at-once N] [--seed 1] [--memory-limit BYTES] [--too-wide WIDTH] [--smoke] [--json]
       pbt_ray.py --stepwell COMMAND...      the same figures of a command of ours; the last option

DIR has MNIST's four IDX files, packed by gzip or not. PYTHON has PyTorch and ray[tune] (default: this one).

A member is a perceptron 784-h-h/2-10 with relu and Dropout(0.2), trained by SGD with momentum. All --steps of it are
made in intervals; after each the test accuracy is the score, and Ray's PopulationBasedTraining (quantile 0.25,
resample 0.25, factors 1.2 and 0.8) may exploit. It explores the learning rate and the momentum. Ray applies
no bounds, so a custom_explore_fn keeps both in the declared range. The width h is drawn at the start, and goes along
where a donor is copied: the member is then built anew. Ray has no way to change a width and keep what was learned.

Ray is run as its documentation advises: actors are used again (reset_config), data lie once in the object store,
one thread for each trial, no dashboard. --at-once trials live at one time (default: all of them, each with its share
of --cpus); fewer take turns, which Ray does by a checkpoint and a restart.

--too-wide gives member 0 that width. --memory-limit holds for all processes together where a cgroup can be made,
else for the addresses of each trial (RLIMIT_AS). The outcome is printed, not prevented. RLIMIT_AS counts addresses:
PyTorch alone has several GB of them.

Memory is the sum of PSS over the whole tree of processes, sampled five times a second where that takes at most a
twentieth of a core (in the first two seconds as often as goes). Processes of other parents that share no memory
with them are not seen.
"""
import argparse
import ctypes
import gzip
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

LR, MOMENTUM = (1e-3, 0.3), (0.5, 0.98)
WIDTHS = [32, 48, 64, 96, 128, 192, 256]


# ---- measuring a command -----------------------------------------------------------------------

def parents():
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    found[int(name)] = int(file.read().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                pass
    return found


def below_us():
    """All processes that this one has started, and those of theirs."""
    above, members = parents(), {os.getpid()}
    grown = True
    while grown:
        more = {pid for pid, parent in above.items() if parent in members} - members
        members |= more
        grown = bool(more)
    return members - {os.getpid()}


def tree_bytes():
    """PSS of all below us, and how many processes these are."""
    total, n = 0, 0
    for pid in below_us():
        try:
            with open(f"/proc/{pid}/smaps_rollup") as file:
                total += sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
            n += 1
        except OSError:
            pass
    return total, n


def watch(command, env, limit):
    """Run it; wall time, peak PSS, processes at that time, the exit status, standard output."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: what loses its parent stays below us
    group = make_group(limit) if limit else None
    if limit:
        env = {**env, "PBT_RAY_LIMIT": "" if group else str(limit)}

    def enter():
        if group:
            with open(os.path.join(group, "cgroup.procs"), "w") as file:
                file.write(str(os.getpid()))

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    start, peak, most = time.monotonic(), 0, 0
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env, preexec_fn=enter)
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(child.stdout), daemon=True)
    reader.start()
    try:
        while child.poll() is None:
            before = time.monotonic()
            now, n = tree_bytes()
            if now > peak:
                peak, most = now, n
            took = time.monotonic() - before
            time.sleep(max(0.2, 20 * took) if before - start > 2 else 0.005)
        wall = time.monotonic() - start
    finally:
        for pid in below_us():  # what an interrupt or a failure leaves
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
    reader.join(5)
    found = {"wall_s": wall, "peak_pss_bytes": peak, "processes": most, "status": child.returncode,
             "largest_resident_bytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024}
    if limit:
        found["limit"] = {"bytes": limit, "by": "cgroup" if group else "RLIMIT_AS of each trial"}
    if group:
        with open(os.path.join(group, "memory.events")) as file:
            found["limit"].update({k: int(v) for k, v in (line.split() for line in file) if k in ("max", "oom_kill")})
    return found, lines


def make_group(limit):
    """A cgroup with that limit, or None where none can be made."""
    try:
        with open("/proc/self/cgroup") as file:
            inside = [line.split("::")[1].strip() for line in file if line.startswith("0::")]
        group = f"/sys/fs/cgroup{inside[0]}/pbt-ray-{os.getpid()}"
        if not os.path.exists(os.path.join(os.path.dirname(group), "cgroup.subtree_control")):
            return None  # no such file system, or none that knows memory
        os.mkdir(group)
        if not os.path.exists(os.path.join(group, "memory.max")):
            os.rmdir(group)
            return None
        with open(os.path.join(group, "memory.max"), "w") as file:
            file.write(str(limit))
        if os.path.exists(os.path.join(group, "memory.swap.max")):
            with open(os.path.join(group, "memory.swap.max"), "w") as file:
                file.write("0")
        return group
    except (OSError, IndexError):
        return None


# ---- what is trained ---------------------------------------------------------------------------

def read_idx(folder, name, head):
    import numpy
    path = os.path.join(folder, name)
    opened = gzip.open(path + ".gz", "rb") if os.path.exists(path + ".gz") else open(path, "rb")
    with opened as file:
        return numpy.frombuffer(file.read(), numpy.uint8, offset=head).copy()


def read_mnist(folder):
    parts = []
    for part in ("train", "t10k"):
        parts += [read_idx(folder, f"{part}-images-idx3-ubyte", 16).reshape(-1, 784),
                  read_idx(folder, f"{part}-labels-idx1-ubyte", 8)]
    return parts


def trainable(tune, torch):
    class Perceptron(tune.Trainable):
        def setup(self, config, data=None):
            limit = os.environ.get("PBT_RAY_LIMIT")
            if limit:
                resource.setrlimit(resource.RLIMIT_AS, (int(limit), int(limit)))
            torch.set_num_threads(1)
            self.data = [torch.from_numpy(part) for part in data]
            self.build(config)

        def build(self, config):
            self.done_steps = 0
            nn, h = torch.nn, config["hidden"]
            self.net = nn.Sequential(nn.Linear(784, h), nn.ReLU(), nn.Dropout(0.2), nn.Linear(h, h // 2), nn.ReLU(),
                                     nn.Dropout(0.2), nn.Linear(h // 2, 10))
            self.optimizer = torch.optim.SGD(self.net.parameters(), lr=config["lr"], momentum=config["momentum"],
                                             fused=True)

        def reset_config(self, config):
            self.build(config)  # another trial's actor: this one's state comes from its checkpoint, if it has one
            return True

        def knobs(self, config):
            for group in self.optimizer.param_groups:
                group["lr"], group["momentum"] = config["lr"], config["momentum"]

        def rows(self, images):
            return images.float().mul_(1 / (255 * 0.3081)).sub_(0.1307 / 0.3081)

        def step(self):
            images, labels, batch = self.data[0], self.data[1], self.config["batch"]
            self.net.train()
            for _ in range(self.config["interval"]):
                at = torch.randint(0, len(labels), (batch,))
                loss = torch.nn.functional.cross_entropy(self.net(self.rows(images[at])), labels[at].long())
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward()
                self.optimizer.step()
                self.done_steps += 1
            self.net.eval()
            right = 0
            with torch.no_grad():
                for i in range(0, len(self.data[3]), 1000):
                    found = self.net(self.rows(self.data[2][i:i + 1000])).argmax(1)
                    right += (found == self.data[3][i:i + 1000]).sum().item()
            return {"accuracy": right / len(self.data[3]), "steps": self.done_steps}

        def save_checkpoint(self, folder):
            torch.save({"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict(),
                        "steps": self.done_steps}, os.path.join(folder, "state.pt"))

        def load_checkpoint(self, folder):
            state = torch.load(os.path.join(folder, "state.pt"))
            self.net.load_state_dict(state["net"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.done_steps = state["steps"]
            self.knobs(self.config)

    return Perceptron


def explore(config):
    """Ray multiplies beyond the range that a value is drawn from; this brings it back."""
    config["lr"] = min(max(config["lr"], LR[0]), LR[1])
    config["momentum"] = min(max(config["momentum"], MOMENTUM[0]), MOMENTUM[1])
    return config


def count_exploits(folder):
    n = 0
    for at, _, names in os.walk(folder):
        if "pbt_global.txt" in names:
            with open(os.path.join(at, "pbt_global.txt")) as file:
                n += sum(1 for _ in file)
    return n


def experiment(args):
    import random

    import numpy
    import ray
    import torch
    from ray import tune
    from ray.tune.schedulers import PopulationBasedTraining
    random.seed(args.seed)
    numpy.random.seed(args.seed)
    widths = [random.choice(WIDTHS) for _ in range(args.members)]
    if args.too_wide:
        widths[0] = args.too_wide
    at_once = args.at_once or args.members
    with tempfile.TemporaryDirectory() as folder:
        ray.init(num_cpus=args.cpus, include_dashboard=False, object_store_memory=256 << 20, log_to_driver=False,
                 logging_level="ERROR", _temp_dir=os.path.join(folder, "r"))
        space = {"lr": tune.loguniform(*LR), "momentum": tune.uniform(*MOMENTUM), "hidden": tune.grid_search(widths),
                 "batch": args.batch, "interval": args.interval}
        scheduler = PopulationBasedTraining(
            time_attr="training_iteration", perturbation_interval=1, quantile_fraction=0.25,
            resample_probability=0.25, custom_explore_fn=explore,
            hyperparam_mutations={"lr": tune.loguniform(*LR), "momentum": tune.uniform(*MOMENTUM)})
        member = tune.with_resources(tune.with_parameters(trainable(tune, torch), data=read_mnist(args.data)),
                                     {"cpu": args.cpus / at_once})
        tuner = tune.Tuner(
            member, param_space=space,
            tune_config=tune.TuneConfig(metric="accuracy", mode="max", scheduler=scheduler, reuse_actors=True),
            run_config=tune.RunConfig(stop={"training_iteration": args.steps // args.interval}, verbose=0,
                                      storage_path=os.path.join(folder, "s")))
        start = time.monotonic()
        results = tuner.fit()
        seconds = time.monotonic() - start
        scores = [r.metrics["accuracy"] for r in results if r.metrics and "accuracy" in r.metrics]
        steps = [r.metrics["steps"] for r in results if r.metrics and "steps" in r.metrics]
        found = {"ray": ray.__version__, "torch": torch.__version__, "fit_s": seconds, "best": max(scores, default=None),
                 "accuracies": sorted(scores), "widths": widths, "steps_of_each": steps,
                 "exploits": count_exploits(os.path.join(folder, "s")),
                 "errors": [str(e).strip().splitlines()[-1] for e in results.errors]}
        ray.shutdown()
    print("\n" + json.dumps(found), flush=True)


# ---- the command -------------------------------------------------------------------------------

def missing(python):
    """Names of what this interpreter lacks."""
    test = ("import importlib.util as u; "
            "print(' '.join(n for n in ('torch', 'numpy', 'ray', 'ray.tune') if not u.find_spec(n)))")
    try:
        done = subprocess.run([python, "-c", test], capture_output=True, text=True)
    except OSError as why:
        sys.exit(f"pbt_ray.py: --python {python}: {why.strerror}")
    return done.stdout.split() if done.returncode == 0 else ["torch", "ray[tune]"]


def report(args, found, inner):
    if args.json:
        print(json.dumps({**found, "experiment": inner}))
        return
    print(f"wall time    {found['wall_s']:.1f} s" + (f", {inner['fit_s']:.1f} s of them training" if inner and
          "fit_s" in inner else ""))
    print(f"memory       {found['peak_pss_bytes'] / 2**20:,.1f} MiB at most (PSS), then {found['processes']} processes; "
          f"the largest one {found['largest_resident_bytes'] / 2**20:,.1f} MiB resident")
    if "limit" in found:
        print(f"limit        {found['limit']}")
    if inner and "accuracies" in inner:
        print(f"accuracy     {100 * inner['best']:.2f} % the best, all: " +
              " ".join(f"{100 * a:.2f}" for a in inner["accuracies"]) if inner["best"] else "accuracy     none")
        print(f"members      widths {inner['widths']}, steps {inner['steps_of_each']}, {inner['exploits']} exploits")
        print(f"failed       {len(inner['errors'])} trials" + "".join(f"\n             {e}" for e in inner["errors"]))
    if found["status"] != 0:
        print(f"exit status  {found['status']}")


def main():
    parser = argparse.ArgumentParser(description="Population based training by Ray Tune, measured.")
    parser.add_argument("--data", help="the folder of MNIST's IDX files")
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has PyTorch and ray[tune]")
    for name, usual in (("--members", 10), ("--steps", 2000), ("--interval", 100), ("--batch", 128), ("--cpus", 2),
                        ("--at-once", 0), ("--seed", 1), ("--memory-limit", 0), ("--too-wide", 0)):
        parser.add_argument(name, default=usual, type=int)
    parser.add_argument("--smoke", action="store_true", help="3 intervals of 20 steps, 4 members")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--stepwell", nargs=argparse.REMAINDER, help="measure this command instead; the last option")
    args = parser.parse_args()
    if args.smoke:
        args.members, args.steps, args.interval = 4, 60, 20
    if args.inside:
        return experiment(args)
    if args.stepwell:
        found, lines = watch(args.stepwell, os.environ, args.memory_limit)
        sys.stdout.writelines(lines if not args.json else [])
        return report(args, found, {"output": "".join(lines)})
    if not args.data or not os.path.isdir(args.data):
        parser.error("--data must be the folder of MNIST's IDX files")
    lacks = missing(args.python)
    if lacks:
        sys.exit(f"pbt_ray.py: {args.python} has no {', '.join(lacks)}; pip install torch 'ray[tune]', or give --python")
    words = [w for name in ("data", "members", "steps", "interval", "batch", "cpus", "at-once", "seed", "too-wide")
             for w in ("--" + name, str(getattr(args, name.replace("-", "_"))))]
    env = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
           "RAY_AIR_NEW_OUTPUT": "0"}
    found, lines = watch([args.python, os.path.abspath(__file__), "--inside", *words], env, args.memory_limit)
    objects = [json.loads(line) for line in lines if line.startswith('{"ray"')]
    report(args, found, objects[-1] if objects else None)
    return 0 if objects else 1


if __name__ == "__main__":
    sys.exit(main())
