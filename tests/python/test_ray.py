#!/usr/bin/env python3
"""The resources that a worker of Ray asks for, and the example: twelve trials in a limit, whose planned sums stay below it."""
import os
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

import support
import stepwell as sw

EXAMPLES = os.path.join(support.ROOT, "tools", "examples")
PLAN = {"total_bytes": 700, "programs": [{"total_bytes": 700}, {"total_bytes": 900}, {}]}


class Resources(unittest.TestCase):
    def test_the_sum_of_plan_data_and_worker(self):
        planned = sw.plan(model="mlp", hidden=[40, 20], batch=16)
        total = max(p["total_bytes"] for p in planned["programs"])
        self.assertEqual(sw.ray.resources(planned, worker=0), {"CPU": 1, "memory": total})
        self.assertEqual(sw.ray.resources(model="mlp", hidden=[40, 20], batch=16, worker=5, threads=3), {"CPU": 3, "memory": total + 5})
        self.assertEqual(sw.ray.actor(planned, worker=5, data_sets=7, more=10, threads=2), {"num_cpus": 2, "memory": total + 22})
        with sw.make(sw.sw_dataset_synthetic, 100, 1) as one, sw.make(sw.sw_dataset_synthetic, 10, 2) as two:
            self.assertEqual(sw.ray.resources(planned, worker=0, data_sets=[one, two])["memory"], total + 110 * 785)

    def test_the_largest_of_several_plans_counts(self):
        for plan, total in ((PLAN, 900), ({"plans": [PLAN, {"total_bytes": 950}]}, 950), ({"methods": [{"fits": False}, {"total_bytes": 3}]}, 3)):
            self.assertEqual(sw.ray.resources(plan, worker=1)["memory"], total + 1)
        said = sw.plan(model="lenet5", batch=[8, 64], method="backprop")
        self.assertEqual(sw.ray.resources(said, worker=0)["memory"], max(p["total_bytes"] for p in said["plans"]))

    def test_what_cannot_be_is_refused(self):
        for plan, more, words in (({"methods": [{"fits": False}]}, {}, "nothing .* fits"), ({**PLAN, "device": "cuda"}, {}, "cuda"),
                                  (PLAN, {"batch": 3}, "options already .got batch")):
            with self.assertRaisesRegex((ValueError, TypeError), words):
                sw.ray.resources(plan, worker=0, **more)

    def test_a_worker_is_measured_once(self):
        """In a process of its own: what this one has taken does not count."""
        taken = bytearray(os.urandom(1) * (256 << 20))
        with unittest.mock.patch.dict(os.environ, support.environment()):
            found = sw.ray.worker_bytes()
        self.assertTrue(4 << 20 < found < (4096 << 20 if support.SANITIZED else 64 << 20), found)
        with unittest.mock.patch.object(subprocess, "run", side_effect=AssertionError):
            self.assertEqual(sw.ray.worker_bytes(), found)
            self.assertEqual(sw.ray.resources(PLAN)["memory"], 900 + found)
        self.assertNotIn("ray", sys.modules)
        del taken


class Trials(unittest.TestCase):
    """With Ray."""

    def setUp(self):
        os.environ.update(RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0",
                          PYTHONPATH=os.pathsep.join([EXAMPLES, os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")]))
        self.ray = support.need("ray")
        support.need("ray.tune")
        if support.PRELOAD:
            self.skipTest("Ray's workers begin without the sanitizer")
        sys.path.insert(0, EXAMPLES)
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def test_a_checkpoint_is_the_pack(self):
        """A trial that goes on from it has the bits of a whole one."""
        from tune_widths import Digits
        config = {"width": 32, "lr": 0.03}
        whole, first, then = Digits(config), Digits(config), Digits(config)
        losses = [whole.train()["loss"] for _ in range(4)]
        self.assertEqual([first.train()["loss"] for _ in range(2)], losses[:2])
        first.save(self.folder.name)
        then.restore(self.folder.name)
        self.assertEqual([then.train()["loss"] for _ in range(2)], losses[2:])
        for one in whole, then:
            one.save(self.folder.name)
            with open(os.path.join(self.folder.name, "member"), "rb") as f:
                one.pack = f.read()
        self.assertEqual(len(whole.pack), sw.sw_members_packed_bytes(whole.group))
        self.assertEqual(whole.pack, then.pack)
        for one in whole, first, then:
            one.stop()

    def test_twelve_trials_stay_below_a_limit(self):
        """Planned sums of the trials that run at one time: three and more share the limit, and all at once would pass it."""
        import tune_widths
        log = os.path.join(self.folder.name, "log")

        class Logged(tune_widths.Digits):
            def note(self, what):
                with open("/proc/self/status", encoding="ascii") as status, open(log, "a", encoding="ascii") as f:
                    peak = status.read().split("VmHWM:")[1].split()[0]
                    f.write(f"{time.monotonic():.6f} {what} {self.trial_id} {self.config['width']} {peak}\n")

            def setup(self, config):
                super().setup(config)
                self.note("start")

            def step(self):
                time.sleep(1)  # a worker begins as slowly
                return super().step()

            def cleanup(self):
                super().cleanup()
                self.note("end")

        limit = 1 << 30
        self.ray.init(num_cpus=tune_widths.TRIALS, _memory=limit, object_store_memory=80 << 20, include_dashboard=False, log_to_driver=False)
        self.addCleanup(self.ray.shutdown)
        ends = tune_widths.search(Logged, storage_path=self.folder.name, verbose=0)
        self.assertEqual((len(ends), ends.num_errors), (12, 0))
        self.assertLess(ends.get_best_result().metrics["loss"], 0.2)
        needs = {w: int(tune_widths.resources_of({"width": w}).required_resources["memory"]) for w in (32, 256, 1024)}
        with open(log, encoding="ascii") as f:
            rows = sorted((float(t), what, name, int(width), int(peak) * 1024) for t, what, name, width, peak in map(str.split, f))
        self.assertEqual([sum(r[1] == what for r in rows) for what in ("start", "end")], [12, 12])
        now, most, at_once = {}, 0, 0
        for _, what, name, width, _ in rows:
            if what == "start":
                now[name] = needs[width]
            else:
                del now[name]
            most, at_once = max(most, sum(now.values())), max(at_once, len(now))
        peaks = {w: max(r[4] for r in rows if r[3] == w) for w in needs}
        said = ", ".join(f"{need:,} for width {w} (its peak was {peaks[w]:,})" for w, need in needs.items())
        print(f"asked for: {said}; a worker has {sw.ray.worker_bytes():,}; at most {at_once} at once, {most:,} of {limit:,} bytes")
        self.assertLessEqual(most, limit)
        self.assertGreaterEqual(at_once, 3)
        self.assertGreater(4 * sum(needs.values()), limit)
        for width, need in needs.items():  # what Tune's own parts of a trial take is not known before
            self.assertTrue(0.95 * need < peaks[width] < 1.05 * need, (width, need, peaks[width]))


if __name__ == "__main__":
    support.main()
