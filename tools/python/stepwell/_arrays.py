"""Arrays in and out without a copy: the buffer protocol, __array_interface__ and DLPack."""
import ctypes
import sys

from . import _header
from ._calls import Error, raw
from ._owners import owners_in
from ._types import keep

_python = ctypes.pythonapi
_ENDIAN = "<" if sys.byteorder == "little" else ">"


class _Dtype:
    def __init__(self, name, fmt, typestr, dlpack, ctype):
        self.number = getattr(_header, name, None)
        self.name, self.format, self.typestr, self.dlpack, self.ctype = name, fmt, typestr, dlpack, ctype


# Format of buffers, type of __array_interface__, (code, bits) of DLPack.
_DTYPES = [d for d in (
    _Dtype("SW_F32", "f", "f4", (2, 32), ctypes.c_float),
    _Dtype("SW_F64", "d", "f8", (2, 64), ctypes.c_double),
    _Dtype("SW_BF16", None, None, (4, 16), ctypes.c_uint16),
    _Dtype("SW_I32", "i", "i4", (0, 32), ctypes.c_int32),
    _Dtype("SW_U8", "B", "u1", (1, 8), ctypes.c_uint8),
    _Dtype("SW_U16", "H", "u2", (1, 16), ctypes.c_uint16),
) if d.number is not None]


def _dtype(match, got):
    for dtype in _DTYPES:
        if match(dtype):
            return dtype
    names = ", ".join(d.name[3:].lower() for d in _DTYPES)
    raise TypeError(f"the type of an array must be one of {names} (got {got}): convert it first, in NumPy by x.astype(numpy.float32)")


def _by_number(number):
    return next(d for d in _DTYPES if d.number == number)


# ---- in -------------------------------------------------------------------------------------


class _PyBuffer(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
                ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p),
                ("shape", ctypes.POINTER(ctypes.c_ssize_t)), ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
                ("suboffsets", ctypes.POINTER(ctypes.c_ssize_t)), ("internal", ctypes.c_void_p)]


class _Held:
    """A buffer of another object, held as long as an array points into it."""

    def __init__(self, x):
        self.buffer = _PyBuffer()
        self.open = False
        flags = 0x0004 | 0x0008 | 0x0010  # format, dims, strides
        _python.PyObject_GetBuffer(ctypes.py_object(x), ctypes.byref(self.buffer), ctypes.c_int(flags))
        self.open = True

    def __del__(self):
        if self.open:
            _python.PyBuffer_Release(ctypes.byref(self.buffer))


def _contiguous(shape, strides, what):
    """Strides (in elements) must be those of rows behind each other; axes of length 1 do not matter."""
    if strides is None or 0 in shape:
        return
    expected = 1
    for n, stride in zip(reversed(shape), reversed(strides)):
        if n != 1 and stride != expected:
            raise ValueError(f"an array must be C-contiguous (got {what} of shape {tuple(shape)} with strides of {tuple(strides)} elements): "
                             "pass a contiguous copy, in NumPy numpy.ascontiguousarray(x), in PyTorch x.contiguous()")
        expected *= n


def _made(dtype, shape, address, source):
    if len(shape) > _header.SW_MAX_RANK:
        raise ValueError(f"an array must have at most {_header.SW_MAX_RANK} dims (got {len(shape)})")
    made = _header.sw_array(dtype=dtype.number, shape=tuple(shape), data=address)
    keep(made, "of", source)
    return made


def _from_buffer(x):
    held = _Held(x)
    view = held.buffer
    text = (view.format or b"B").decode()
    letter = text[1:] if text[:1] in ("@", "=", _ENDIAN) else text
    if letter == "l" and view.itemsize == 4:
        letter = "i"
    dtype = _dtype(lambda d: d.format == letter and ctypes.sizeof(d.ctype) == view.itemsize, f"the buffer format {text!r}")
    shape = [view.shape[i] for i in range(view.ndim)]
    strides = [view.strides[i] // view.itemsize for i in range(view.ndim)] if view.strides else None
    _contiguous(shape, strides, type(x).__name__)
    return _made(dtype, shape, view.buf, (x, held))


def _from_interface(x):
    face = x.__array_interface__
    typestr = face["typestr"]
    dtype = _dtype(lambda d: typestr[1:] == d.typestr and typestr[0] in ("|", "=", _ENDIAN), f"{typestr!r}")
    if not isinstance(face.get("data"), tuple):
        raise ValueError(f"an array must say where its data are (got {face.get('data')!r} in __array_interface__)")
    size = ctypes.sizeof(dtype.ctype)
    strides = None if face.get("strides") is None else [s // size for s in face["strides"]]
    _contiguous(face["shape"], strides, type(x).__name__)
    return _made(dtype, face["shape"], face["data"][0], (x, face))


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _DLManaged(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_DLManaged))
_DLManaged._fields_ = [("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", _Deleter)]

_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _python))
_new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_New", _python))
_is_capsule = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _python))
_address_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _python))
_NAME = b"dltensor"  # an object that lives as long as the capsules


def _from_dlpack(x):
    if hasattr(x, "__dlpack_device__") and int(x.__dlpack_device__()[0]) != 1:
        raise ValueError(f"an array must lie in the memory of the host (got DLPack device {tuple(map(int, x.__dlpack_device__()))}): "
                         "copy it there first, in PyTorch by x.cpu()")
    capsule = x.__dlpack__()  # kept unused: it ends what it holds when it ends
    tensor = ctypes.cast(_pointer_of(capsule, _NAME), ctypes.POINTER(_DLManaged)).contents.tensor
    if tensor.device_type != 1:
        raise ValueError(f"an array must lie in the memory of the host (got DLPack device type {tensor.device_type})")
    kind = (tensor.code, tensor.bits)
    dtype = _dtype(lambda d: d.dlpack == kind and tensor.lanes == 1, f"DLPack code {kind[0]} of {kind[1]} bits")
    shape = [tensor.shape[i] for i in range(tensor.ndim)]
    strides = [tensor.strides[i] for i in range(tensor.ndim)] if tensor.strides else None
    _contiguous(shape, strides, type(x).__name__)
    return _made(dtype, shape, (tensor.data or 0) + tensor.byte_offset, (x, capsule))


def array(x):
    """An sw_array of x without a copy: what has the buffer protocol (bytes, array.array, NumPy),
    __array_interface__, or __dlpack__ in the memory of the host (PyTorch). C-contiguous, of a type
    of sw_dtype. It keeps x, and x must not be resized; what changes in x changes in it."""
    if isinstance(x, _header.sw_array):
        return x
    try:
        memoryview(x).release()
    except TypeError:
        pass
    except (ValueError, BufferError) as refused:
        raise TypeError(f"{type(x).__name__} gives no buffer that an array can point to: {refused}") from refused
    else:
        return _from_buffer(x)
    if hasattr(x, "__array_interface__"):
        return _from_interface(x)
    if hasattr(x, "__dlpack__"):
        return _from_dlpack(x)
    raise TypeError(f"an array must have the buffer protocol, __array_interface__ or __dlpack__ (got {type(x).__name__}): pass "
                    "numpy.asarray(x, numpy.float32), or array.array('f', x)")


def arrays(*xs):
    """sw_run_args(inputs=..., n_inputs=...) of several: a list of sw_array for `inputs`."""
    return [array(x) for x in xs]


# ---- out ------------------------------------------------------------------------------------


class _Export:
    """Memory that another library shows: as long as it does, what owns the memory stays."""

    def __init__(self, view):
        self.view = view
        for owner in view.owners:
            owner.exports.add(self)

    @property
    def __array_interface__(self):
        v = self.view
        if v.dtype.typestr is None:
            raise TypeError(f"NumPy has no type for {v.dtype.name}: use torch.from_dlpack")
        mark = "|" if ctypes.sizeof(v.dtype.ctype) == 1 else _ENDIAN
        return {"version": 3, "shape": v.shape, "typestr": mark + v.dtype.typestr, "data": (v.address, v.readonly)}


_shown = {}  # what DLPack shows elsewhere, by the address of its record


@_Deleter
def _dlpack_end(managed):
    _shown.pop(ctypes.addressof(managed.contents), None)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _capsule_end(capsule):
    if _is_capsule(capsule, _NAME):  # not taken by anyone
        _shown.pop(_address_of(capsule, _NAME), None)


class View:
    """Memory of the library, or made for it, as an array: numpy.asarray(view), torch.from_dlpack(view),
    view.memoryview(), none of which copies. It keeps the object whose memory it is; that object
    refuses to close, and to run, while an array made from the view is alive. A view of an output
    is stale behind the exec's next run; copy() is the bytes of its own that stay."""

    def __init__(self, array, owners, memory=None, readonly=True):
        self.dtype, self.address, self.readonly = _by_number(array.dtype), array.data or 0, readonly
        self.shape = tuple(array.shape.dim[:array.shape.rank])
        self.owners, self.memory = owners, memory
        self.runs = [o.runs for o in owners]

    @property
    def nbytes(self):
        n = ctypes.sizeof(self.dtype.ctype)
        for dim in self.shape:
            n *= dim
        return n

    def export(self):
        for owner, runs in zip(self.owners, self.runs):
            owner.address()
            if owner.runs != runs:
                raise Error(_header.SW_STALE, "the output is of an earlier run, and its memory is another's: ask for it again, behind each run")
        return _Export(self)

    def __array__(self, dtype=None, copy=None):
        import numpy
        made = numpy.asarray(self.export())
        if dtype is not None and made.dtype != dtype:
            if copy is False:
                raise ValueError(f"a view of {made.dtype} cannot be one of {dtype} without a copy")
            return made.astype(dtype)
        return made.copy() if copy else made

    def memoryview(self):
        """A memoryview of shape and type (bytes as they are for bf16)."""
        export = self.export()
        kind = self.dtype.ctype * (self.nbytes // ctypes.sizeof(self.dtype.ctype))
        holder = type("memory", (kind,), {})
        made = holder.from_address(self.address) if self.nbytes else holder()
        made.export = export
        flat = memoryview(made).cast("B")
        if self.shape == () or 0 in self.shape:
            shaped = flat.cast(self.dtype.format or "H", self.shape) if 0 not in self.shape else flat.cast(self.dtype.format or "H")
        else:
            shaped = flat.cast(self.dtype.format or "H", self.shape)
        return shaped.toreadonly() if self.readonly else shaped

    def tolist(self):
        return self.memoryview().tolist()

    def copy(self):
        """The bytes now, as a view of memory of its own."""
        export = self.export()
        kept = ctypes.create_string_buffer(ctypes.string_at(self.address, self.nbytes), max(1, self.nbytes))
        del export
        made = _header.sw_array(dtype=self.dtype.number, shape=self.shape, data=ctypes.addressof(kept))
        return View(made, [], kept, readonly=False)

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, stream=None, **newer):
        record = _DLManaged()
        shape = (ctypes.c_int64 * max(1, len(self.shape)))(*self.shape)
        code, bits = self.dtype.dlpack
        record.tensor = _DLTensor(self.address, 1, 0, len(self.shape), code, bits, 1, shape, None, 0)
        record.deleter = _dlpack_end
        address = ctypes.addressof(record)
        _shown[address] = (record, shape, self.export())
        return _new_capsule(address, _NAME, ctypes.cast(_capsule_end, ctypes.c_void_p))

    def __repr__(self):
        return f"<stepwell.View {self.dtype.name[3:].lower()} {self.shape}>"


def view(array, *owners):
    """A View of an sw_array that the library gave, which belongs to `owners`."""
    return View(array, owners_in(list(owners)), array)


def output(exec, name):
    """sw_output_get as a View, without a copy."""
    from ._calls import Function
    from ._owners import get
    return view(get(Function("sw_output_get"), exec, name), exec)


def read(param, dtype=None):
    """sw_param_read as a View of memory of its own; dtype: SW_F32 where it is not given."""
    from ._calls import Function
    shape = raw("sw_param_shape")(param)
    kind = _by_number(_header.SW_F32 if dtype is None else dtype)
    n = ctypes.sizeof(kind.ctype)
    for dim in shape.dim[:shape.rank]:
        n *= dim
    kept = ctypes.create_string_buffer(max(1, n))
    Function("sw_param_read")(param, kept, n)
    return View(_header.sw_array(dtype=kind.number, shape=shape, data=ctypes.addressof(kept)), [], kept, readonly=False)


def write(param, x):
    """sw_param_write of anything that stepwell.array takes, of the parameter's shape."""
    from ._calls import Function
    given = array(x)
    shape = raw("sw_param_shape")(param)
    got, asked = (tuple(s.dim[:s.rank]) for s in (given.shape, shape))
    if got != asked:
        raise ValueError(f"the shape must be {asked} (got {got})")
    n = ctypes.sizeof(_by_number(given.dtype).ctype)
    for dim in got:
        n *= dim
    Function("sw_param_write")(param, given.data, n)
