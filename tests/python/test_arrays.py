#!/usr/bin/env python3
"""Arrays in and out without a copy, by the addresses; whose memory it is, and for how long."""
import array
import copy
import ctypes
import gc
import pickle
import unittest

import support
import stepwell as sw


def shape_of(a):
    return tuple(a.shape.dim[:a.shape.rank])


class In(unittest.TestCase):
    def test_buffers_are_pointed_to(self):
        x = array.array("f", [1, 2, 3])
        a = sw.array(x)
        self.assertEqual((a.dtype, shape_of(a), a.data), (sw.SW_F32, (3,), x.buffer_info()[0]))
        self.assertEqual(sw.array(memoryview(array.array("i", range(6))).cast("B").cast("i", (2, 3))).dtype, sw.SW_I32)
        self.assertEqual(shape_of(sw.array(memoryview(bytes(range(6))).cast("B", (2, 3)))), (2, 3))
        self.assertEqual(sw.array(b"abc").dtype, sw.SW_U8)
        self.assertEqual(ctypes.string_at(sw.array(b"abc").data, 3), b"abc")
        self.assertIs(sw.array(a), a)

    def test_the_array_keeps_what_it_points_to(self):
        x = array.array("f", [1, 2, 3])
        a = sw.array(x)
        with self.assertRaises(BufferError):  # as long as it is held, it cannot move
            x.append(4)
        del a
        gc.collect()
        x.append(4)

    def test_numpy_arrays_are_pointed_to(self):
        numpy = support.need("numpy")
        for kind, dtype in (("f4", sw.SW_F32), ("f8", sw.SW_F64), ("i4", sw.SW_I32), ("u1", sw.SW_U8), ("u2", sw.SW_U16)):
            x = numpy.arange(24, dtype=kind).reshape(2, 3, 4)
            a = sw.array(x)
            self.assertEqual((a.dtype, shape_of(a), a.data), (dtype, (2, 3, 4), x.ctypes.data))
        x.flags.writeable = False
        self.assertEqual(sw.array(x).data, x.ctypes.data)
        self.assertEqual(shape_of(sw.array(numpy.float32(3))), ())
        self.assertEqual(shape_of(sw.array(numpy.zeros((0, 3), "f4"))), (0, 3))
        self.assertEqual(sw.array(x[1:]).data, x[1:].ctypes.data)

    def test_an_array_interface_is_enough(self):
        numpy = support.need("numpy")

        class Shows:
            def __init__(self, x):
                self.__array_interface__ = x.__array_interface__
        x = numpy.ones((3, 2), "f4")
        self.assertEqual(sw.array(Shows(x)).data, x.ctypes.data)
        with self.assertRaisesRegex(ValueError, "C-contiguous"):
            sw.array(Shows(x.T))
        with self.assertRaisesRegex(TypeError, "got '<c8'"):
            sw.array(Shows(x.astype("c8")))

    def test_tensors_of_pytorch_are_pointed_to(self):
        torch = support.need("torch")
        for kind, dtype in ((torch.float32, sw.SW_F32), (torch.bfloat16, sw.SW_BF16), (torch.int32, sw.SW_I32), (torch.uint8, sw.SW_U8)):
            x = torch.zeros((2, 5), dtype=kind)
            a = sw.array(x)
            self.assertEqual((a.dtype, shape_of(a), a.data), (dtype, (2, 5), x.data_ptr()))
        y = torch.zeros((4, 5))[2:]
        self.assertEqual(sw.array(y).data, y.data_ptr())

    def test_what_cannot_be_pointed_to_says_why_and_the_way_out(self):
        for x, kind, words in ((memoryview(bytes(4)).cast("?"), TypeError, "one of f32, .*got the buffer format '.'.*astype"),
                               ([1.0, 2.0], TypeError, "got list.*numpy.asarray"), ("text", TypeError, "got str")):
            with self.assertRaisesRegex(kind, words):
                sw.array(x)
        view = memoryview(array.array("f", range(10)))[::2]
        with self.assertRaisesRegex(ValueError, r"C-contiguous .got memoryview of shape .5,. with strides of .8,. bytes"):
            sw.array(view)

    def test_numpy_and_pytorch_are_refused_by_layout(self):
        numpy, torch = support.need("numpy"), support.need("torch")
        with self.assertRaisesRegex(ValueError, "strides of .4, 12. bytes.: pass a contiguous copy"):
            sw.array(numpy.zeros((3, 3), "f4").T)
        with self.assertRaisesRegex(ValueError, "C-contiguous"):
            sw.array(torch.zeros(3, 4).T)
        with self.assertRaisesRegex(TypeError, "DLPack code 2 of 16 bits"):
            sw.array(torch.zeros(3, dtype=torch.float16))
        with self.assertRaisesRegex(ValueError, "at most 8 dims .got 9."):
            sw.array(numpy.zeros((1,) * 9, "f4"))
        self.assertEqual(shape_of(sw.array(numpy.zeros((3, 1, 3), "f4").transpose(1, 0, 2))), (1, 3, 3))  # axes of length 1 do not matter


    def test_an_address_keeps_what_lies_there(self):
        x = array.array("f", range(8))
        holders = [
            lambda: sw.sw_samples(data=sw.array(x).data),
            lambda: sw.sw_samples(data=sw.samples(x).data),
            lambda: sw.sw_array(data=sw.array(x).data),
            lambda: sw.sw_array(data=sw.array(x).data + 4),
            lambda: sw.sw_array(data=4 + sw.array(x).data),
            lambda: sw.sw_array(data=sw.sw_samples(data=sw.array(x).data).data),
            lambda: sw.sw_run_args(inputs=[sw.sw_array(data=sw.array(x).data)]),
            lambda: sw.array(x).data,
        ]
        for made in holders:
            held = made()
            gc.collect()
            with self.assertRaises(BufferError):
                x.append(0)
            del held
            gc.collect()
            x.append(0)
            x.pop()

    def test_a_copy_of_an_address_is_a_number(self):
        address = sw.array(array.array("f", range(8))).data
        for copied in (copy.copy(address), copy.deepcopy(address), pickle.loads(pickle.dumps(address))):
            self.assertEqual((type(copied), copied), (int, int(address)))

    def test_a_data_set_of_an_address_reads_its_own_data(self):
        given = [sw.sw_samples(data=sw.array(array.array("f", [7.0] * 4096)).data, type=sw.SW_NUMBER_F32)]
        gc.collect()
        others = [array.array("f", [1.0] * 4096) for _ in range(32)]
        data = sw.make(sw.sw_dataset_arrays, 4096, given, 1, None)
        with sw.make(sw.sw_loader_create, data, sw.sw_loader_opts(batch=4096, inline_fill=1)) as loader:
            del given
            gc.collect()
            others += [array.array("f", [2.0] * 4096) for _ in range(32)]
            sw.sw_loader_epoch(loader, 0)
            inputs, _ = sw.get(sw.sw_loader_next, loader)
            self.assertEqual(ctypes.string_at(inputs[0].data, 4 * 4096), array.array("f", [7.0] * 4096).tobytes())
        data.close()

    def test_whole_numbers_become_int32_where_they_fit(self):
        for letter in "qQlLbhI":
            x = array.array(letter, [0, 2, 1, 100])
            a = sw.array(x)
            x[0] = 3  # a copy
            self.assertEqual((a.dtype, shape_of(a)), (sw.SW_I32, (4,)))
            self.assertEqual(ctypes.string_at(a.data, 16), array.array("i", [0, 2, 1, 100]).tobytes())
        self.assertEqual(shape_of(sw.array(memoryview(array.array("q", range(6))).cast("B").cast("q", (2, 3)))), (2, 3))
        self.assertEqual(sw.array(array.array("q")).dtype, sw.SW_I32)
        with self.assertRaisesRegex(ValueError, "must fit into int32 .got 2147483648 as number 2."):
            sw.array(array.array("q", [0, -1, 1 << 31]))
        with self.assertRaisesRegex(TypeError, "numpy.uint8"):
            sw.array(memoryview(bytes(4)).cast("?"))

    def test_labels_of_64_bits_are_labels(self):
        def step(c):
            sw.sw_output(c, "loss", sw.sw_softmax_ce(c, sw.sw_input(c, 0), sw.sw_input(c, 1)))
        logits = memoryview(array.array("f", [0.5, 1.0, -1.0, 2.0, 0.0, 0.25])).cast("B").cast("f", (2, 3))
        found = []
        with sw.make(sw.sw_exec_create, None) as exec:
            for letter in "qi":
                sw.sw_run(exec, sw.sw_run_args(fn=step, inputs=sw.arrays(logits, array.array(letter, [1, 0])), n_inputs=2, mode=sw.SW_EVAL))
                found.append(sw.output(exec, "loss").copy().tolist())
        self.assertEqual(found[0], found[1])


class Samples(unittest.TestCase):
    def data_of(self, *fields, n=None):
        """A data set of the fields, the address of each, and its batches."""
        given = [sw.samples(f) for f in fields]
        data = sw.make(sw.sw_dataset_arrays, n or len(fields[0]), given, len(given), None)
        return data, [sw.get(sw.sw_dataset_describe, data).field[i].data for i in range(len(given))]

    def test_samples_are_used_where_they_lie(self):
        x = array.array("f", range(8))
        y = array.array("B", [0, 1, 2, 1])
        data, at = self.data_of(memoryview(x).cast("B").cast("f", (4, 2)), y)
        self.assertEqual(at, [x.buffer_info()[0], y.buffer_info()[0]])
        loader = sw.make(sw.sw_loader_create, data, sw.sw_loader_opts(batch=4, inline_fill=1))
        data.close()
        with self.assertRaises(BufferError):  # the loader reads them still
            x.append(0)
        sw.sw_loader_epoch(loader, 0)
        inputs, _ = sw.get(sw.sw_loader_next, loader)
        self.assertEqual(ctypes.string_at(inputs[0].data, 32), x.tobytes())
        loader.close()
        del loader, data, inputs
        gc.collect()
        x.append(0)

    def test_strides_and_types_are_numpys(self):
        numpy = support.need("numpy")
        whole = numpy.arange(60, dtype="f4").reshape(10, 6)
        x = whole[::-2, :3]  # every second row from the end: used where it lies
        y = numpy.array([3, 1, 0, 2, 1], "i8")  # converted
        data, at = self.data_of(x, y)
        self.assertEqual(at[0], x.ctypes.data)
        self.assertEqual(sw.get(sw.sw_dataset_describe, data).n_classes, 4)
        with sw.make(sw.sw_loader_create, data, sw.sw_loader_opts(batch=5, inline_fill=1)) as loader:
            sw.sw_loader_epoch(loader, 0)
            inputs, _ = sw.get(sw.sw_loader_next, loader)
            self.assertEqual(numpy.asarray(sw.view(inputs[0], loader)).tolist(), x.tolist())
            self.assertEqual(numpy.asarray(sw.view(inputs[1], loader)).tolist(), y.tolist())
        data.close()

    def test_tensors_are_samples(self):
        torch = support.need("torch")
        x, y = torch.rand(6, 1, 4, 4).permute(0, 2, 3, 1), torch.tensor([0, 1, 0, 1, 1, 0], dtype=torch.bool)
        data, at = self.data_of(x, y)
        self.assertEqual(at[0], x.data_ptr())  # its axis of length 1 went elsewhere, its numbers did not
        data.close()

    def test_what_is_no_samples_says_so(self):
        numpy = support.need("numpy")
        with self.assertRaisesRegex(ValueError, "1 to 9 dims.*.got 0."):
            sw.samples(numpy.float32(1))
        with self.assertRaisesRegex(TypeError, "one of f32, .*i64 .got the buffer format 'e'"):
            sw.samples(numpy.zeros(3, "f2"))


class Out(unittest.TestCase):
    def setUp(self):
        self.exec = sw.make(sw.sw_exec_create, None)
        self.x = array.array("f", range(6))

        def step(c):
            x = sw.sw_reshape(c, sw.sw_input(c, 0), (2, 3))
            sw.sw_output(c, "y", sw.sw_scale_by(c, x, 2.0))
            sw.sw_output(c, "sum", sw.sw_sum(c, x, 0))
        self.args = sw.sw_run_args(fn=step, inputs=sw.arrays(self.x), n_inputs=1)
        sw.sw_run(self.exec, self.args)

    def tearDown(self):
        gc.collect()
        self.exec.close()

    def test_a_view_is_the_librarys_memory(self):
        given = sw.get(sw.sw_output_get, self.exec, "y")
        view = sw.output(self.exec, "y")
        self.assertEqual((view.address, view.shape, view.nbytes), (given.data, (2, 3), 24))
        shown = view.memoryview()
        self.assertEqual((shown.tolist(), shown.shape, shown.format, shown.readonly), ([[0, 2, 4], [6, 8, 10]], (2, 3), "f", True))
        self.assertEqual(sw.output(self.exec, "sum").memoryview().tolist(), 15)
        with self.assertRaisesRegex(sw.Error, "SW_INVALID"):
            sw.output(self.exec, "z")

    def test_numpy_shows_it(self):
        numpy = support.need("numpy")
        view = sw.output(self.exec, "y")
        shown = numpy.asarray(view)
        self.assertEqual((shown.ctypes.data, shown.shape, shown.dtype, shown.flags.writeable), (view.address, (2, 3), "f4", False))
        self.assertEqual(shown.tolist(), [[0, 2, 4], [6, 8, 10]])
        self.assertEqual(numpy.asarray(view, dtype="f8").dtype, "f8")
        self.assertNotEqual(numpy.array(view, copy=True).ctypes.data, view.address)
        self.assertEqual(numpy.from_dlpack(sw.output(self.exec, "sum")).shape, ())

    def test_pytorch_shows_it(self):
        torch = support.need("torch")
        view = sw.output(self.exec, "y")
        shown = torch.from_dlpack(view)
        self.assertEqual((shown.data_ptr(), tuple(shown.shape), shown.dtype), (view.address, (2, 3), torch.float32))
        self.assertEqual(shown.tolist(), [[0, 2, 4], [6, 8, 10]])

    def test_an_array_that_shows_it_holds_the_exec(self):
        numpy = support.need("numpy")
        part = numpy.asarray(sw.output(self.exec, "y"))[1:, :2]  # numpy alone holds it
        self.refused()
        self.assertEqual(part.tolist(), [[6, 8]])
        del part
        sw.sw_run(self.exec, self.args)

    def test_a_memoryview_holds_the_exec(self):
        shown = sw.output(self.exec, "y").memoryview()
        self.refused()
        self.assertEqual(shown.tolist(), [[0, 2, 4], [6, 8, 10]])
        del shown
        sw.sw_run(self.exec, self.args)

    def test_a_tensor_holds_the_exec(self):
        torch = support.need("torch")
        shown = torch.from_dlpack(sw.output(self.exec, "y"))[1:]
        self.refused()
        del shown
        gc.collect()
        sw.sw_run(self.exec, self.args)

    def test_a_capsule_that_nothing_takes_holds_the_exec_as_long_as_it_lives(self):
        view = sw.output(self.exec, "y")
        self.assertEqual(view.__dlpack_device__(), (1, 0))
        capsule = view.__dlpack__()
        self.refused()
        del capsule
        gc.collect()
        sw.sw_run(self.exec, self.args)

    def refused(self):
        gc.collect()
        with self.assertRaisesRegex(sw.Error, "arrays show.*copy") as caught:
            sw.sw_run(self.exec, self.args)
        self.assertEqual(caught.exception.status, sw.SW_BUSY)
        with self.assertRaisesRegex(sw.Error, "exec has memory that arrays show"):
            self.exec.close()

    def test_a_view_is_stale_behind_the_next_run(self):
        view = sw.output(self.exec, "y")
        copy = view.copy()
        self.x[0] = 5
        sw.sw_run(self.exec, self.args)
        for use in (view.memoryview, view.copy, view.__dlpack__):
            with self.assertRaisesRegex(sw.Error, "earlier run") as caught:
                use()
            self.assertEqual(caught.exception.status, sw.SW_STALE)
        self.assertEqual(copy.tolist(), [[0, 2, 4], [6, 8, 10]])
        self.assertEqual(sw.output(self.exec, "y").tolist(), [[10, 2, 4], [6, 8, 10]])  # what changed in x was seen

    def test_a_view_of_a_closed_exec_is_refused(self):
        view = sw.output(self.exec, "y")
        self.exec.close()
        with self.assertRaisesRegex(sw.Error, "exec was closed"):
            view.memoryview()

    def test_a_view_keeps_the_exec(self):
        view = sw.output(self.exec, "y")
        del self.exec
        gc.collect()
        self.assertEqual(view.tolist(), [[0, 2, 4], [6, 8, 10]])
        self.exec = view.owners[0]

    def test_outputs_are_inputs(self):
        view = sw.output(self.exec, "y")
        given = sw.array(view)
        self.assertEqual(given.data, view.address)
        self.refused()
        del given
        sw.sw_run(self.exec, self.args)


class Parameters(unittest.TestCase):
    def test_parameters_are_read_and_written(self):
        with sw.make(sw.sw_exec_create, None) as exec, sw.make(sw.sw_model_create, "m") as model:
            fc = sw.sw_linear_new(model, "fc", 3, 2)
            sw.sw_model_ready(model, exec, 1)
            sw.write(fc.weight, memoryview(array.array("f", range(6))).cast("B").cast("f", (2, 3)))
            self.assertEqual(sw.read(fc.weight).tolist(), [[0, 1, 2], [3, 4, 5]])
            with self.assertRaisesRegex(ValueError, r"shape must be .2, 3. .got .6,.."):
                sw.write(fc.weight, array.array("f", range(6)))
            with self.assertRaisesRegex(sw.Error, "SW_INVALID"):
                sw.write(fc.bias, array.array("d", range(2)))
            with self.assertRaisesRegex(TypeError, "stepwell.array.x..data"):
                sw.sw_param_write(fc.bias, [1.0, 2.0], 8)


if __name__ == "__main__":
    support.main()
