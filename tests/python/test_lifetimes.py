#!/usr/bin/env python3
"""Owners: the order in which objects end, closing twice, use after the end, and what step functions may not end."""
import gc
import os
import tempfile
import threading
import time
import unittest
import unittest.mock

import support
import stepwell as sw


def net(exec):
    model = sw.make(sw.sw_model_create, "m")
    sw.sw_linear_new(model, "fc", 3, 2)
    sw.sw_model_ready(model, exec, 1)
    return model


class Ends(unittest.TestCase):
    def refused(self, owner, words):
        with self.assertRaisesRegex(sw.Error, words) as caught:
            owner.close()
        self.assertEqual(caught.exception.status, sw.SW_BUSY)
        self.assertTrue(owner)

    def test_what_is_borrowed_cannot_be_closed(self):
        budget = sw.make(sw.sw_budget_create, 1 << 24)
        exec = sw.make(sw.sw_exec_create, sw.sw_exec_opts(budget=budget))
        model = net(exec)
        data = sw.make(sw.sw_dataset_synthetic, 64, 1)
        loader = sw.make(sw.sw_loader_create, data, sw.sw_loader_opts(batch=8, budget=budget))
        self.refused(budget, "budget is in use by exec, loader: close them first")
        self.refused(exec, "exec is in use by model: close it first")
        data.close()  # the samples stay until the last loader has ended
        sw.sw_loader_epoch(loader, 0)
        inputs, n = sw.get(sw.sw_loader_next, loader)
        self.assertEqual((n, list(inputs[0].shape.dim[:4])), (2, [8, 1, 28, 28]))
        for owner in loader, model, exec, budget:
            owner.close()
            self.assertFalse(owner)

    def test_closing_twice_is_fine(self):
        exec = sw.make(sw.sw_exec_create, None)
        exec.close()
        exec.close()
        self.assertIn("closed", repr(exec))

    def test_use_behind_the_end_names_the_object(self):
        exec = sw.make(sw.sw_exec_create, None)
        model = net(exec)
        adam = None
        with sw.make(sw.sw_model_create, "other") as other:
            sw.sw_linear_new(other, "fc", 3, 2)
            adam = sw.borrow(sw.sw_optimizer_create, other, sw.sw_optimizer_opts(kind="sgd"))
        with self.assertRaisesRegex(sw.Error, "SW_INVALID|model was closed"):
            sw.sw_optimizer_lr(adam, 0)
        model.close()
        with self.assertRaisesRegex(sw.Error, "model was closed: make another one") as caught:
            sw.sw_param_count(model)
        self.assertEqual(caught.exception.status, sw.SW_INVALID)
        with self.assertRaisesRegex(sw.Error, "model was closed"):
            sw.sw_run_args(models=[model], n_models=1)
        exec.close()
        with self.assertRaisesRegex(sw.Error, "exec was closed"), exec:
            pass

    def test_a_block_ends_its_object_when_an_exception_leaves_it(self):
        with self.assertRaises(KeyError):
            with sw.make(sw.sw_exec_create, None) as exec:
                model = net(exec)
                raise KeyError
        self.assertFalse(exec)
        self.assertFalse(model)  # it borrows the exec, so it ended first

    def test_the_last_reference_ends_what_borrows_first(self):
        exec = sw.make(sw.sw_exec_create, None)
        model = net(exec)
        model.self = exec.model = model  # a circle: the collector has no order of its own
        ended = []

        def raw(name, found=sw._owners.raw):
            ended.append(name)
            return found(name)
        with unittest.mock.patch.object(sw._owners, "raw", raw):
            del exec, model
            gc.collect()
        self.assertEqual(ended, ["sw_model_destroy", "sw_exec_destroy"])

    def test_what_borrows_keeps_what_it_borrows(self):
        exec = sw.make(sw.sw_exec_create, None)
        model = net(exec)
        del exec
        gc.collect()
        self.assertEqual(len(sw.read(sw.sw_param_at(model, 0)).tolist()), 2)
        model.close()

    def test_an_object_that_was_not_made_has_no_owner(self):
        with self.assertRaisesRegex(sw.Error, "SW_INVALID"):
            sw.make(sw.sw_exec_create, sw.sw_exec_opts(threads=-1))

    def test_release_gives_the_object_away(self):
        exec = sw.make(sw.sw_exec_create, None)
        pointer = exec.release()
        self.assertFalse(exec)
        sw.sw_exec_destroy(pointer)

    def test_a_profile_whose_file_fails_says_so_when_it_is_closed(self):
        resource = support.need("resource")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "p.jsonl")
            profile = sw.make(sw.sw_profile_create, sw.sw_profile_opts(path=path))
            sw.sw_profile_flush(profile)
            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(path), limits[1]))
            try:
                with self.assertRaisesRegex(sw.Error, "SW_IO: .*p.jsonl"):
                    profile.close()
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            self.assertFalse(profile)

    def test_an_exec_keeps_its_profile(self):
        with tempfile.TemporaryDirectory() as folder:
            profile = sw.make(sw.sw_profile_create, sw.sw_profile_opts(path=os.path.join(folder, "p.jsonl")))
            exec = sw.make(sw.sw_exec_create, None)
            sw.sw_exec_set_profile(exec, profile)
            self.refused(profile, "profile is in use by exec")
            exec.close()
            profile.close()


class InSteps(unittest.TestCase):
    def test_nothing_is_closed_while_another_thread_uses_it(self):
        """A save into a pipe uses the model until the pipe has its reader."""
        with tempfile.TemporaryDirectory() as folder, sw.make(sw.sw_exec_create, None) as exec:
            model, path = net(exec), os.path.join(folder, "pipe")
            os.mkfifo(path)
            saver = threading.Thread(target=lambda: sw.sw_model_save(model, path))
            saver.start()
            while not model.body.calls:
                time.sleep(0.001)
            with self.assertRaisesRegex(sw.Error, "while a call uses it on another thread") as caught:
                model.close()
            self.assertEqual(caught.exception.status, sw.SW_BUSY)
            with open(path, "rb") as f:
                self.assertIn(b"fc.weight", f.read())
            saver.join()
            model.close()

    def test_nothing_is_closed_in_a_step_function(self):
        with sw.make(sw.sw_exec_create, None) as exec:
            model = net(exec)

            def step(c):
                model.close()
            with self.assertRaisesRegex(sw.Error, "cannot be closed in a step function") as caught:
                sw.sw_run(exec, sw.sw_run_args(fn=step))
            self.assertEqual(caught.exception.status, sw.SW_BUSY)
            self.assertTrue(model)
            model.close()

    def test_what_loses_its_last_reference_in_a_step_function_ends_behind_it(self):
        models = [sw.make(sw.sw_model_create, "unused")]
        address = models[0].pointer
        with sw.make(sw.sw_exec_create, None) as exec:
            def step(c):
                models.clear()
                gc.collect()
                self.assertEqual(sw.sw_param_count(address), 0)  # it is still there
                self.assertEqual(sw.sw_last_error(), before)
            before = sw.sw_last_error()
            sw.sw_run(exec, sw.sw_run_args(fn=step))
            self.assertEqual(models, [])
            if support.SANITIZED:
                return  # its memory went back to the heap: a look at it ends the process, as another test sees
            sw.sw_param_count(address)
            self.assertIn("destroyed", sw.sw_last_error())


class Exits(unittest.TestCase):
    def test_an_interpreter_that_ends_ends_its_objects(self):
        """In the order of their dependence, with loaders' threads and a profile's; nothing on standard error."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "p.jsonl")
            program = f"""
import stepwell as sw
profile = sw.make(sw.sw_profile_create, sw.sw_profile_opts(path={path!r}))
exec = sw.make(sw.sw_exec_create, sw.sw_exec_opts(threads=2, profile=profile))
model = sw.make(sw.sw_model_create, "m")
sw.sw_linear_new(model, "fc", 3, 2)
sw.sw_model_ready(model, exec, 1)
data = sw.make(sw.sw_dataset_synthetic, 64, 1)
loader = sw.make(sw.sw_loader_create, data, sw.sw_loader_opts(batch=8, shuffle=1))
sw.sw_loader_epoch(loader, 0)
inputs, n = sw.get(sw.sw_loader_next, loader)
def step(c):
    sw.sw_output(c, "y", sw.sw_to_f32(c, sw.sw_input(c, 0), 1.0, 0.0))
sw.sw_run(exec, sw.sw_run_args(fn=step, inputs=inputs, n_inputs=n))
shown = sw.output(exec, "y").memoryview()
"""
            done = support.python(program)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with open(path, encoding="utf-8") as f:
                self.assertIn('"status":"done"', f.read().replace(" ", ""))

    @unittest.skipUnless("address" in support.SANITIZED, "built without the address sanitizer")
    def test_the_address_sanitizer_sees_into_the_library(self):
        """A planted fault: a look at a model that was destroyed."""
        done = support.python("""
import stepwell as sw
address = sw.make(sw.sw_model_create, "m").release()
sw.sw_model_destroy(address)
sw.sw_param_count(address)
""")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "heap-use-after-free(.|\n)*sw_param_count")

    def test_a_library_that_is_not_there_says_what_to_do(self):
        done = support.python("import stepwell as sw; print(sw.SW_NOMEM.name, sw.sw_exec_opts(threads=2).threads); sw.sw_version()",
                              STEPWELL_LIBRARY="/not/there.so")
        self.assertEqual((done.returncode, done.stdout), (1, "SW_NOMEM 2\n"))  # numbers and structs need no library
        self.assertIn("STEPWELL_LIBRARY=PATH", done.stderr.splitlines()[-1])
        self.assertIn("/not/there.so", done.stderr.splitlines()[-1])

    def test_a_library_of_another_version_is_refused(self):
        program = "import stepwell._header as h; h.VERSION = '7.1.0'; import stepwell; stepwell.sw_version()"
        done = support.python(program)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.splitlines()[-1], r"ImportError: .*libstepwell.* is stepwell \d+\.\d+\.\d+, and this package is of 7\.1\.0")


if __name__ == "__main__":
    support.main()
