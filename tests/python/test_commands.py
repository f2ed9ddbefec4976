#!/usr/bin/env python3
"""plan, train, report and frames: what the program says with --json, its errors and Ctrl-C."""
import os
import signal
import subprocess
import sys
import tempfile

import unittest
import unittest.mock

import support
import stepwell as sw

SMALL = {"model": "lenet5", "synthetic_n": 64, "batch": 8}


class Trained(unittest.TestCase):
    """A small training, with its profile."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.profile = os.path.join(cls.folder.name, "p.jsonl")
        cls.trained = sw.train(**SMALL, steps=14, profile=cls.profile, op_clocks=True, memory_budget=None)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()


class Commands(Trained):
    def test_training_says_what_was_predicted_and_measured(self):
        self.assertEqual((self.trained["model"], self.trained["batch"], self.trained["steps"]), ("lenet5", 8, 14))
        self.assertEqual(self.trained["predicted"], self.trained["measured"])

    def test_a_plan_is_the_trainings(self):
        planned = sw.plan(model="lenet5", batch=8)
        self.assertEqual(planned["predicted"], self.trained["predicted"])

    def test_lists_are_options_with_commas(self):
        said = sw.plan(model="lenet5", batch=[8, 16])
        self.assertEqual([p["batch"] for p in said["plans"]], [8, 16])

    def test_reports_of_a_profile(self):
        said = sw.report(self.profile)
        self.assertEqual((said["measured_peak_bytes"], said["equal"]), (self.trained["measured_peak_bytes"], True))
        by_layer = sw.report(self.profile, by="layer")
        self.assertEqual(sum(r["at_peak_bytes"] for r in by_layer["rows"] if r["layer"] != "(all)"), by_layer["at_peak_bytes"])

    def test_errors_have_message_and_status(self):
        for options, status, words in (({"model": "lenet5", "batch": 0}, 2, "batch"), ({"modell": "lenet5"}, 2, "--modell"),
                                       ({"model": "lenet5", "batch": 8, "memory_budget": "1KiB"}, 4, "KiB|bytes|budget")):
            with self.assertRaisesRegex(sw.CommandError, f"stepwell plan ended with status {status} .*{words}") as caught:
                sw.plan(**options)
            self.assertEqual(caught.exception.status, status)
        with self.assertRaises(sw.CommandError) as caught:
            sw.report(os.path.join(self.folder.name, "none.jsonl"))
        self.assertEqual(caught.exception.status, 3)
        self.assertIn("none.jsonl", caught.exception.message)

    def test_progress_goes_where_it_is_asked_for(self):
        with open(os.path.join(self.folder.name, "progress"), "w+", encoding="utf-8") as f:
            sw.command("train", progress=f, **SMALL, steps=2)
            f.seek(0)
            self.assertIn("step 2", f.read())

    def test_an_interrupt_ends_the_training_and_is_told(self):
        """The program is stopped by the signal that Python gets, and says how far it came; also by one
        that comes when it has started and Python has not yet its process."""
        program = """
import json, os, subprocess, sys, stepwell as sw
start = subprocess.Popen.__init__
def started(self, *words, **options):
    start(self, *words, **options)
    os.kill(os.getpid(), 2)
if sys.argv[1:]:
    subprocess.Popen.__init__ = started
try:
    sw.command("train", progress=sys.stderr, model="lenet5", synthetic_n=64, batch=8, epochs=1000000)
except KeyboardInterrupt as stopped:
    print(json.dumps([stopped.result and stopped.result["model"]]))
    sys.exit(7)
"""
        for early in [], ["early"]:
            words = [sys.executable, "-c", program, *early]
            with self.subTest(early=early), subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
                if not early:
                    child.stderr.readline()  # the training goes on
                    child.send_signal(signal.SIGINT)
                out, err = child.communicate(timeout=60)
                self.assertEqual(child.returncode, 7, err)
                self.assertTrue('"lenet5"' in out or early and "null" in out, out)  # before it trains it says nothing

    def test_a_program_that_is_not_there_is_named(self):
        with unittest.mock.patch.dict(os.environ, {"STEPWELL": "/not/there"}), self.assertRaisesRegex(FileNotFoundError, "/not/there"):
            sw.plan(model="lenet5", batch=8)
        with unittest.mock.patch.dict(os.environ, {"STEPWELL": "", "STEPWELL_LIBRARY": "", "PATH": ""}), self.assertRaisesRegex(FileNotFoundError, "STEPWELL=PATH"):
            sw.plan(model="lenet5", batch=8)


class Frames(Trained):
    def test_frames_say_what_the_report_says(self):
        support.need("pandas")
        frames = sw.frames(self.profile)
        self.assertEqual(sorted(frames), sorted(("layers", "roles", "ops", "phases", "steps")))
        peak = self.trained["measured_peak_bytes"]
        for table in "layers", "roles":
            rows = frames[table].set_index(table[:-1])["at_peak_bytes"]
            self.assertEqual((rows["(all)"], rows.drop("(all)").sum()), (peak, peak))
        phases = frames["phases"].set_index("phase")
        self.assertEqual(dict(phases["measured_peak_bytes"]), {k: v["peak_bytes"] for k, v in self.trained["measured"].items()})
        steps = frames["steps"]
        self.assertEqual(list(steps[steps["run"] == "train"]["step"]), list(range(1, 15)))  # the report's table has 12 at most
        self.assertEqual((steps["run"] == "eval").sum(), sw.report(self.profile)["evaluations"])
        self.assertEqual((steps["peak_bytes"].max(), steps["phases.backward.peak_bytes"].max()), (peak, peak))
        self.assertTrue((steps.filter(regex=r"phases\..*\.ns").sum(axis=1) <= steps["ns"]).all() and steps["loss"].notna().all())
        self.assertEqual(frames["ops"]["live_bytes"].max(), peak)

    def test_events_are_a_frame_too(self):
        support.need("pandas")
        events = sw.frames(self.profile, "events")["events"]
        self.assertEqual(events["live_bytes"].max(), self.trained["measured_peak_bytes"])
        with self.assertRaisesRegex(ValueError, "one of layers, .*events .got 'layer'."):
            sw.frames(self.profile, "layer")

    def test_without_pandas_the_error_says_so(self):
        with unittest.mock.patch.dict(sys.modules, {"pandas": None}), self.assertRaisesRegex(ImportError, "needs pandas"):
            sw.frames(self.profile)


if __name__ == "__main__":
    support.main()
