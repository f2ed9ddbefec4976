#!/usr/bin/env python3
"""Step functions and callbacks in Python: the bits of the same program in C, and what becomes of exceptions."""
import array
import copy
import ctypes
import gc
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import threading
import traceback
import unittest

import support
import stepwell as sw

PEER = next((w for w in sys.argv if os.path.basename(w) == "python_peer"), None)


class Net:
    """The net of peer.c."""

    def __init__(self, exec):
        self.model = sw.make(sw.sw_model_create, "peer")
        self.fc1, self.fc2 = sw.sw_linear_new(self.model, "fc1", 6, 16), sw.sw_linear_new(self.model, "fc2", 16, 3)
        self.adam = sw.borrow(sw.sw_optimizer_create, self.model, sw.sw_optimizer_opts(kind="adamw", lr=0.01))
        self.x = array.array("f", [(i * 37 % 101) / 64 - 1 for i in range(72)])
        self.t = array.array("B", [i % 3 for i in range(12)])
        sw.sw_model_ready(self.model, exec, 3)

    def step(self, c):
        h = sw.sw_dropout(c, sw.sw_relu(c, sw.sw_apply_linear(c, self.fc1, sw.sw_reshape(c, sw.sw_input(c, 0), (12, 6)))), 0.25)
        h = sw.sw_add(c, h, sw.sw_scale_by(c, sw.sw_randn(c, "noise", (12, 16)), 0.01))
        loss = sw.sw_softmax_ce(c, sw.sw_apply_linear(c, self.fc2, h), sw.sw_input(c, 1))
        sw.sw_metric(c, "loss", loss)
        sw.sw_backward(c, loss, [self.adam], 1)
        sw.sw_update(c, self.adam)

    def args(self, **more):
        return sw.sw_run_args(fn=self.step, models=[self.model], n_models=1, inputs=sw.arrays(self.x, self.t), n_inputs=2, **more)

    def parameters(self):
        return b"".join(bytes(sw.read(sw.sw_param_at(self.model, i)).memoryview()) for i in range(sw.sw_param_count(self.model)))


def one_run(step, **members):
    with sw.make(sw.sw_exec_create, None) as exec:
        sw.sw_run(exec, sw.sw_run_args(fn=step, inputs=[sw.array(array.array("f", [1, 2]))], n_inputs=1, **members))


class Training(unittest.TestCase):
    def test_precision_and_order_are_options_of_an_exec(self):
        ends = {}
        for name, more in (("f32", {}), ("pair", {"compute": sw.SW_BF16, "bf16_order": sw.SW_ORDER_PAIR}), ("tile", {"compute": sw.SW_BF16, "bf16_order": sw.SW_ORDER_TILE})):
            with sw.make(sw.sw_exec_create, sw.sw_exec_opts(threads=2, seed=7, **more)) as exec:
                net = Net(exec)
                with net.model:
                    for step in range(5):
                        sw.sw_run(exec, net.args(mode=sw.SW_TRAIN, step=step))
                    self.assertLess(sw.get(sw.sw_metric_get, exec, "loss"), 2)
                    ends[name] = net.parameters()
        self.assertNotEqual(ends["f32"], ends["pair"])
        self.assertEqual(len(ends["f32"]), len(ends["tile"]))
        with self.assertRaisesRegex(sw.Error, "bf16_order must be 0 where compute is SW_F32"):
            sw.make(sw.sw_exec_create, sw.sw_exec_opts(bf16_order=sw.SW_ORDER_TILE))

    def test_a_step_function_in_python_has_the_bits_of_one_in_c(self):
        if PEER is None:
            self.skipTest("python_peer was not named")
        for threads in 1, 3:
            said = subprocess.run([PEER, str(threads), "25"], check=True, capture_output=True).stdout
            with sw.make(sw.sw_exec_create, sw.sw_exec_opts(threads=threads, seed=7)) as exec:
                net = Net(exec)
                args = net.args()
                for k in range(25):
                    args.step = k
                    sw.sw_run(exec, args)
                ours = net.parameters() + struct.pack("d", sw.get(sw.sw_metric_get, exec, "loss"))
                self.assertEqual(said, ours)
                net.model.close()
        self.assertNotEqual(said, subprocess.run([PEER, "1", "24"], check=True, capture_output=True).stdout)

    def test_a_program_is_planned_once_for_each_function(self):
        traced = []
        with sw.make(sw.sw_exec_create, sw.sw_exec_opts(seed=7)) as exec:
            net = Net(exec)
            step = net.step
            net.step = lambda c: (traced.append(1), step(c))
            for k in range(5):
                sw.sw_run(exec, net.args(step=k))  # new arguments each time; the exec keeps the function
                gc.collect()
            self.assertEqual(len(traced), 1)
            self.assertEqual(sw.get(sw.sw_last_run, exec).warm, 1)
            other = sw.sw_run_args(fn=lambda c: traced.append(2), inputs=sw.arrays(net.x), n_inputs=1)
            sw.sw_run(exec, other)
            self.assertEqual(traced, [1, 2])
            net.model.close()

    def test_a_bound_method_is_one_function(self):
        class Counts:
            n = 0

            def step(self, c):
                self.n += 1
        counts = Counts()
        with sw.make(sw.sw_exec_create, None) as exec:
            for _ in range(3):
                sw.sw_run(exec, sw.sw_run_args(fn=counts.step))
        self.assertEqual(counts.n, 1)

    def test_a_step_function_that_is_gone_is_not_taken_for_another(self):
        """A new function may lie where the one before lay: its program must be its own."""
        with sw.make(sw.sw_exec_create, None) as exec:
            for k in range(20):
                def step(c, k=k):
                    sw.sw_metric(c, "k", sw.sw_mean(c, sw.sw_scale_by(c, sw.sw_input(c, 0), float(k)), 0))
                sw.sw_run(exec, sw.sw_run_args(fn=step, inputs=[sw.array(array.array("f", [1]))], n_inputs=1))
                self.assertEqual(sw.get(sw.sw_metric_get, exec, "k"), k)
                exec.steps.clear()
                del step
                gc.collect()


class Exceptions(unittest.TestCase):
    def frames(self, kind, step):
        """The lines that the exception of a run went through (assertRaises drops them)."""
        try:
            one_run(step)
        except kind as raised:
            return traceback.extract_tb(raised.__traceback__)
        return self.fail(f"{kind.__name__} was not raised")
    def test_an_exception_passes_through_sw_run_with_its_traceback(self):
        def inner():
            raise KeyError("inside")

        def step(c):
            inner()
        names = [f.name for f in self.frames(KeyError, step)]
        self.assertEqual(names[-2:], ["step", "inner"])
        self.assertIn("one_run", names)

    def test_an_interrupt_in_a_step_function_passes_through(self):
        def step(c):
            raise KeyboardInterrupt
        with self.assertRaises(KeyboardInterrupt):
            one_run(step)

    def test_an_op_that_is_refused_raises_where_it_stands(self):
        lines = []

        def step(c):
            lines.append(sys._getframe().f_lineno + 1)
            sw.sw_matmul(c, sw.sw_input(c, 0), sw.sw_input(c, 0))
            lines.append("not reached")
        frames = self.frames(sw.Error, step)
        self.assertIn(lines[0], [f.lineno for f in frames if f.name == "step"])
        self.assertEqual(len(lines), 1)
        with self.assertRaisesRegex(sw.Error, "SW_INVALID: .*matmul"):
            one_run(step)

    def test_the_exec_goes_on_behind_an_exception(self):
        again = [True]

        def step(c):
            if again.pop():
                raise ValueError("once")
            sw.sw_metric(c, "sum", sw.sw_sum(c, sw.sw_input(c, 0), 0))
        again = [False, True]
        with sw.make(sw.sw_exec_create, None) as exec:
            args = sw.sw_run_args(fn=step, inputs=[sw.array(array.array("f", [1, 2]))], n_inputs=1)
            with self.assertRaises(ValueError):
                sw.sw_run(exec, args)
            sw.sw_run(exec, args)
            self.assertEqual(sw.get(sw.sw_metric_get, exec, "sum"), 3)

    def test_an_exception_of_an_immediate_run(self):
        def step(c):
            value = sw.get(sw.sw_item, c, sw.sw_sum(c, sw.sw_input(c, 0), 0))
            raise ValueError(f"sum {value}")
        with self.assertRaisesRegex(ValueError, "sum 3"):
            one_run(step, immediate=1)

    def test_sw_fail_is_the_error_of_the_run(self):
        with self.assertRaisesRegex(sw.Error, "no room here") as caught:
            one_run(lambda c: sw.sw_fail(c, sw.SW_NOMEM, "no room here"))
        self.assertEqual(caught.exception.status, sw.SW_NOMEM)

    def test_wrong_arguments_say_what_is_asked_for(self):
        with self.assertRaisesRegex(TypeError, "sw_run takes 2 arguments .got 1.: sw_status sw_run"):
            sw.sw_run(None)
        with self.assertRaisesRegex(AttributeError, "sw_exec_opts has no member thread .it has size, device, threads"):
            sw.sw_exec_opts(thread=2)
        with self.assertRaisesRegex(TypeError, "a text cannot be"):
            sw.sw_exec_opts(threads="2")
        with self.assertRaisesRegex(sw.Error, "SW_INVALID.*threads"):
            sw.make(sw.sw_exec_create, sw.sw_exec_opts(threads=1000))
        with self.assertRaisesRegex(TypeError, "use stepwell.make"):
            sw.borrow(sw.sw_exec_create, None)
        with self.assertRaisesRegex(TypeError, "use stepwell.borrow"):
            sw.make(sw.sw_optimizer_create, None, None)
        with self.assertRaisesRegex(TypeError, "sw_model is asked for"):
            with sw.make(sw.sw_exec_create, None) as exec:
                sw.sw_param_count(exec)


    def test_no_number_is_cut_to_the_bytes_of_its_type(self):
        for wrong in (lambda: sw.sw_exec_opts(threads=(1 << 32) + 1), lambda: sw.sw_loader_opts(batch=1 << 70), lambda: sw.sw_run_args(n_models=1 << 31)):
            with self.assertRaisesRegex(OverflowError, "sw_[a-z_]+.[a-z_]+: a number must be -.* .got"):
                wrong()
        with self.assertRaisesRegex(OverflowError, "argument 1: .*got 4294967297.: const char .sw_dtype_name"):
            sw.sw_dtype_name((1 << 32) + 1)

    def test_a_count_is_at_most_the_list(self):
        with sw.make(sw.sw_exec_create, None) as exec:
            def step(c):
                sw.sw_output(c, "y", sw.sw_concat(c, [sw.sw_input(c, 0)], n, 0))
            args = sw.sw_run_args(fn=step, inputs=sw.arrays(b"abcd"), n_inputs=2)
            with self.assertRaisesRegex(ValueError, "sw_run_args: n_inputs must be at most 1, which is what inputs has .got 2"):
                sw.sw_run(exec, args)
            args.n_inputs, n = 1, 3
            with self.assertRaisesRegex(ValueError, "sw_concat: n must be at most 1, which is what x has .got 3"):
                sw.sw_run(exec, args)
        with self.assertRaisesRegex(ValueError, "sw_dataset_arrays: n must be at most 4, which is what field 1 has .got 6"):
            sw.make(sw.sw_dataset_arrays, 6, [sw.samples(b"abcdef"), sw.samples(b"abcd")], 2, None)
        with self.assertRaisesRegex(ValueError, "n_fields must be at most 1"):
            sw.make(sw.sw_dataset_arrays, 4, [sw.samples(b"abcd")], 2, None)

    def test_files_are_named_by_paths_and_by_any_bytes(self):
        with tempfile.TemporaryDirectory() as folder, sw.make(sw.sw_exec_create, None) as exec, sw.make(sw.sw_model_create, "m") as model:
            sw.sw_linear_new(model, "fc", 2, 2)
            sw.sw_model_ready(model, exec, 1)
            sw.sw_model_save(model, pathlib.Path(folder) / "m.safetensors")
            sw.sw_model_load(model, pathlib.Path(folder) / "m.safetensors")
            sw.sw_model_save(model, os.path.join(folder, os.fsdecode(b"m\xff")))
            self.assertEqual(sorted(os.listdir(os.fsencode(folder))), [b"m.safetensors", b"m\xff"])

    def test_an_owner_is_not_copied(self):
        with sw.make(sw.sw_model_create, "m") as model:
            for copied in (copy.copy, copy.deepcopy):
                with self.assertRaisesRegex(TypeError, "model has one owner"):
                    copied(model)
            self.assertEqual(sw.sw_param_count(model), 0)


class Callbacks(unittest.TestCase):
    def test_a_result_that_is_no_number_is_raised(self):
        made = sw._calls.guarded(sw.sw_fitness_fn, lambda candidate, user: "good")
        call = sw._calls.Call()
        sw._calls.stack().append(call)
        made(None, None)
        sw._calls.stack().pop()
        self.assertRegex(str(call.raised), "TypeError.*a text cannot be c_double")

    def test_every_function_is_in_the_library(self):
        for name in sw.FUNCTIONS:
            self.assertEqual(getattr(sw, name).__name__, name)
        self.assertRegex(sw.sw_run.__doc__, "^sw_status sw_run.sw_exec .exec, const sw_run_args .args.")
        with self.assertRaisesRegex(AttributeError, "stepwell has no sw_nothing"):
            sw.sw_nothing

    def test_a_visitor_sees_a_plan_and_may_raise(self):
        with sw.make(sw.sw_exec_create, None) as exec:
            net = Net(exec)
            ops, storages = [], []
            seen = sw.sw_plan_visitor(op=lambda to, at, name, phase: ops.append((at, name, phase)),
                                      storage=lambda to, one: storages.append(one.contents.role))
            sw.sw_plan_visit(exec, net.args(), seen)
            self.assertEqual([o[0] for o in ops], list(range(len(ops))))
            self.assertIn("fc1 linear", [o[1] for o in ops])
            self.assertIn("gradient", storages)
            plan = sw.get(sw.sw_plan, exec, net.args())
            self.assertEqual(len(ops), plan.n_ops)

            def stop(*_):
                raise LookupError("seen enough")
            with self.assertRaisesRegex(LookupError, "seen enough"):
                sw.sw_plan_visit(exec, net.args(), sw.sw_plan_visitor(op=stop))
            net.model.close()

    def test_a_gradient_hook_gives_structs_back(self):
        """Gradients of 0 for one parameter: it stays, the others move."""
        with sw.make(sw.sw_exec_create, sw.sw_exec_opts(seed=7)) as exec:
            net, names = Net(exec), []
            step = net.step

            def hook(c, param, gradient, user):
                names.append(sw.sw_param_name(param))
                return sw.sw_scale_by(c, gradient, 0.0) if names[-1] == "fc2.bias" else gradient

            def hooked(c):
                sw.sw_gradient_hook(c, net.model, hook, None)
                step(c)
            net.step = hooked
            before = {n: sw.read(sw.sw_param_find(net.model, n)).tolist() for n in ("fc2.bias", "fc1.bias")}
            sw.sw_run(exec, net.args())
            after = {n: sw.read(sw.sw_param_find(net.model, n)).tolist() for n in before}
            self.assertEqual(sorted(names), ["fc1.bias", "fc1.weight", "fc2.bias", "fc2.weight"])
            self.assertNotEqual(before["fc1.bias"], after["fc1.bias"])
            self.assertEqual(before["fc2.bias"], after["fc2.bias"])
            net.model.close()

    def test_members_that_are_python_functions(self):
        """On threads of the exec; an exception is raised after the call."""
        threads, bad = set(), []

        def member(view, user):
            threads.add(threading.get_ident())
            if bad:
                raise ArithmeticError("a member failed")
            view.contents.score = view.contents.knobs[0] * 2
            return sw.SW_OK
        with sw.make(sw.sw_exec_create, sw.sw_exec_opts(threads=2)) as exec, sw.make(sw.sw_model_create, "shape") as shape:
            knob = sw.sw_knob_new(shape, "x", 1.5)
            with sw.make(sw.sw_members_create, exec, sw.sw_members_opts(shape=shape, callback=member)) as group:
                members = []
                for k in range(4):
                    one = sw.sw_member()
                    sw.sw_member_new(one, group, k)
                    sw.sw_member_knob_set(one, knob, float(k))
                    members.append(one)
                args = sw.sw_members_args(members=members, n=4)
                sw.sw_members_run(group, args)
                scores = (ctypes.c_double * 4)()
                sw.sw_members_metric(group, "score", scores, 4)
                self.assertEqual(list(scores), [0, 2, 4, 6])
                bad.append(1)
                with self.assertRaisesRegex(ArithmeticError, "a member failed") as caught:
                    sw.sw_members_run(group, args)
                self.assertEqual([str(o) for o in caught.exception.others], ["a member failed"] * 3)
                bad.clear()
                for one in members:
                    sw.sw_member_progress_set(one, 0, 0)  # nothing is left of the exceptions

    def test_an_op_whose_kernel_is_python(self):
        def infer(types, n, attrs, out):
            out[0] = types[0]
            return sw.SW_OK

        def double(launch):
            given, made = launch.contents.in_[0], launch.contents.out[0]
            n = given.type.shape.dim[0]
            source, to = (ctypes.cast(b.ptr, ctypes.POINTER(ctypes.c_float)) for b in (given, made))
            for i in range(n):
                to[i] = 2 * source[i]
            return sw.SW_OK
        op = sw.get(sw.sw_op_register, sw.sw_op_desc(name="python_double", n_in=1, n_out=1, infer=infer, forward=double, no_gradient=1))
        with sw.make(sw.sw_exec_create, None) as exec:
            def step(c):
                sw.sw_output(c, "y", sw.sw_op_apply(c, op, [sw.sw_input(c, 0)], 1, None))
            sw.sw_run(exec, sw.sw_run_args(fn=step, inputs=[sw.array(array.array("f", [1, 2.5]))], n_inputs=1))
            self.assertEqual(sw.output(exec, "y").tolist(), [2, 5])

    def test_the_interpreter_goes_on_while_a_call_waits(self):
        """sw_model_save into a pipe waits for its reader, which is a thread of Python: with its lock held there would be no end."""
        with tempfile.TemporaryDirectory() as folder, sw.make(sw.sw_exec_create, None) as exec, sw.make(sw.sw_model_create, "m") as model:
            sw.sw_linear_new(model, "fc", 300, 200)  # more than a pipe has room for
            sw.sw_model_ready(model, exec, 1)
            path, got = os.path.join(folder, "pipe"), []
            os.mkfifo(path)

            def read():
                with open(path, "rb") as f:
                    got.append(f.read())
            reader = threading.Thread(target=read)
            reader.start()
            sw.sw_model_save(model, path)
            reader.join()
            sw.sw_model_save(model, path + ".file")
            with open(path + ".file", "rb") as f:
                self.assertEqual(got, [f.read()])

    def test_two_threads_train_side_by_side(self):
        results, failed = {}, []

        def train(name):
            try:
                with sw.make(sw.sw_exec_create, sw.sw_exec_opts(seed=7)) as exec:
                    net = Net(exec)
                    for k in range(30):
                        sw.sw_run(exec, net.args(step=k))
                    results[name] = net.parameters()
                    net.model.close()
            except BaseException as raised:
                failed.append(raised)
        threads = [threading.Thread(target=train, args=(n,)) for n in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failed, [])
        self.assertEqual(len(set(results.values())), 1)

    def test_a_net_of_a_genome_trains_by_the_librarys_step_function(self):
        """A function of the library where C wants one, and an owner as its user pointer."""
        with sw.make(sw.sw_dataset_synthetic, 200, 1) as data, sw.make(sw.sw_exec_create, None) as exec, \
                sw.make(sw.sw_loader_create, data, sw.sw_loader_opts(batch=20, shuffle=1)) as loader:
            info = sw.get(sw.sw_dataset_describe, data)
            self.assertEqual((info.n, info.n_classes, info.name), (200, 10, "synthetic"))
            task = sw.sw_task(channels=1, height=28, width=28, classes=10)
            with sw.make(sw.sw_search_space_default, task) as space, sw.make(sw.sw_genome_draw, space, task, 3) as genome, \
                    sw.make(sw.sw_net_create, genome, None) as net:
                price = sw.get(sw.sw_genome_price, genome, exec, None, sw.SW_U8)
                self.assertGreater(price.peak_bytes, price.model_bytes)
                sw.sw_net_ready(net, exec, 1)
                model = sw.sw_net_model(net)
                args = sw.sw_run_args(fn=sw.sw_net_step, user=net, models=[model], n_models=1)
                sw.sw_loader_epoch(loader, 0)
                runs = 0
                while True:
                    args.inputs, args.n_inputs = sw.get(sw.sw_loader_next, loader)
                    if args.n_inputs == 0:
                        break
                    args.step = runs
                    sw.sw_run(exec, args)
                    runs += 1
                self.assertEqual(runs, 10)
                self.assertGreater(sw.get(sw.sw_metric_get, exec, "loss"), 0)
            with self.assertRaisesRegex(sw.Error, "net was closed"):
                sw.sw_param_count(model)

    def test_an_exception_on_a_thread_of_the_library_is_raised_by_a_later_call(self):
        """`before` runs on the thread that writes a checkpoint; its failure fails the save."""
        with tempfile.TemporaryDirectory() as folder, sw.make(sw.sw_exec_create, None) as exec, sw.make(sw.sw_model_create, "m") as model:
            sw.sw_linear_new(model, "fc", 3, 2)
            sw.sw_model_ready(model, exec, 1)
            fails = [True]

            def before(user):
                if fails:
                    raise OSError("the log is full")
                return sw.SW_OK
            opts = sw.sw_checkpoint_opts(path=os.path.join(folder, "run.sws"), models=[model], n_models=1, before=before)
            with sw.make(sw.sw_checkpoint_create, exec, opts) as checkpoint:
                sw.sw_checkpoint_put(checkpoint, "note", b"bytes", 5)
                with self.assertRaisesRegex(OSError, "the log is full"):
                    sw.sw_checkpoint_save(checkpoint, 7)
                fails.clear()
                sw.sw_checkpoint_save(checkpoint, 8)
                found = sw.get(sw.sw_checkpoint_find, checkpoint, None)
                self.assertEqual((found.found, found.step), (1, 8))
                self.assertEqual(sw.get(sw.sw_checkpoint_get, checkpoint, "note"), b"bytes")
                self.assertIsNone(sw.get(sw.sw_checkpoint_get, checkpoint, "other"))

    def test_a_refusal_that_fills_its_result_gives_it(self):
        with sw.make(sw.sw_budget_create, 4096) as budget, sw.make(sw.sw_exec_create, sw.sw_exec_opts(budget=budget)) as exec, \
                sw.make(sw.sw_model_create, "m") as model:
            sw.sw_linear_new(model, "fc", 100, 100)
            args = sw.sw_run_args(fn=lambda c: None, models=[model], n_models=1)
            with self.assertRaisesRegex(sw.Error, "SW_NOMEM") as caught:
                sw.get(sw.sw_plan, exec, args)
            self.assertGreaterEqual(caught.exception.out.model_bytes, 100 * 101 * 4)

    def test_scopes_end_with_their_block_and_name_layers(self):
        def step(c):
            with sw.scope(c, "block"):
                y = sw.sw_relu(c, sw.sw_input(c, 0))
            sw.sw_output(c, "y", sw.sw_tanh(c, y))
            if fails:
                with sw.scope(c, "other"):
                    raise ValueError("in a scope")
        fails, ops = [], []
        args = sw.sized(sw.sw_run_args, inputs=[sw.array(array.array("f", [1, -1]))], n_inputs=1)
        sw.set_step(args, step)
        with sw.make(sw.sw_exec_create, None) as exec:
            sw.sw_plan_visit(exec, args, sw.sw_plan_visitor(op=lambda to, at, name, phase: ops.append(name)))
            self.assertEqual(ops, ["block relu", "tanh"])
            fails.append(1)
            args.variant = 1
            with self.assertRaisesRegex(ValueError, "in a scope"):
                sw.sw_run(exec, args)
        sw.check(sw.SW_OK)
        with self.assertRaisesRegex(sw.Error, "SW_IO"):
            sw.check(sw.SW_IO)
        with self.assertRaisesRegex(TypeError, "a step must be callable .got int."):
            sw.set_step(args, 3)

    def test_decisions_are_saved_as_bytes(self):
        with sw.make(sw.sw_space_create) as space:
            sw.sw_space_parse(space, "lr=log:1e-4..1")
            opts = sw.sw_pbt_opts(space=space, members=4, interval=1.0, seed=3)
            with sw.make(sw.sw_pbt_create, opts) as pbt, sw.make(sw.sw_pbt_create, opts) as other:
                value = sw.get(sw.sw_pbt_value, pbt, 2, 0)
                sw.sw_pbt_value_set(pbt, 2, 0, value / 2)
                saved = sw.save(pbt)
                sw.sw_pbt_restore(other, saved, len(saved))
                self.assertEqual(sw.get(sw.sw_pbt_value, other, 2, 0), value / 2)
                with self.assertRaisesRegex(sw.Error, "SW_FORMAT"):
                    sw.sw_pbt_restore(other, saved[:-1], len(saved) - 1)
                ids = (ctypes.c_int * 4)()
                n, until = sw.get(sw.sw_pbt_next, pbt, ids, 4)
                self.assertEqual((n, until, list(ids)), (4, 1.0, [0, 1, 2, 3]))

    def test_texts_and_lists_of_the_library(self):
        self.assertEqual(sw.sw_status_name(sw.SW_NOMEM), "nomem")
        task = sw.sw_task(channels=3, height=8, width=8, classes=10)
        with sw.make(sw.sw_search_space_default, task) as space, sw.make(sw.sw_genome_draw, space, task, 5) as genome:
            said = sw.print(genome)
            with sw.make(sw.sw_genome_parse, said, len(said.encode()), "again") as again:
                self.assertEqual(sw.print(again), said)
            a, b = sw.make(sw.sw_genome_crossover, genome, genome, sw.sw_crossover_opts(seed=1))
            a.close(), b.close()


if __name__ == "__main__":
    support.main()
