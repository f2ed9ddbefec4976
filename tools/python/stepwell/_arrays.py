"""Arrays in and out without a copy: the buffer protocol, __array_interface__ and DLPack."""
import ctypes
import sys
from array import array as numbers

from . import _header
from ._calls import Error, raw
from ._owners import owners_in
from ._types import Address, keep

_python = ctypes.pythonapi
_ENDIAN = "<" if sys.byteorder == "little" else ">"


class _Dtype:
    """A type of the header: what it is (f, i, u, b for bool, bf) and its bytes; the rest for those of sw_dtype."""

    def __init__(self, name, kind, size, ctype=None, letter=None, dlpack=None):
        self.number, self.name, self.kind = getattr(_header, name, None), name, (kind, size)
        self.ctype, self.letter, self.dlpack = ctype, letter, dlpack

    @property
    def typestr(self):
        if self.kind[0] == "bf":
            raise TypeError("NumPy has no type for bf16: use torch.from_dlpack")
        return ("|" if self.kind[1] == 1 else _ENDIAN) + f"{self.kind[0]}{self.kind[1]}"


_DTYPES = [d for d in (
    _Dtype("SW_F32", "f", 4, ctypes.c_float, "f", 2), _Dtype("SW_F64", "f", 8, ctypes.c_double, "d", 2),
    _Dtype("SW_BF16", "bf", 2, ctypes.c_uint16, "H", 4), _Dtype("SW_I32", "i", 4, ctypes.c_int32, "i", 0),
    _Dtype("SW_U8", "u", 1, ctypes.c_uint8, "B", 1), _Dtype("SW_U16", "u", 2, ctypes.c_uint16, "H", 1),
) if d.number is not None]
_NUMBERS = [_Dtype(f"SW_NUMBER_{name}", kind, size) for name, kind, size in (
    ("F32", "f", 4), ("F64", "f", 8), ("U8", "u", 1), ("I8", "i", 1), ("BOOL", "b", 1), ("U16", "u", 2), ("I16", "i", 2), ("U32", "u", 4),
    ("I32", "i", 4), ("U64", "u", 8), ("I64", "i", 8))]
_WHOLE = {("i", 1): ctypes.c_int8, ("i", 2): ctypes.c_int16, ("i", 8): ctypes.c_int64, ("u", 4): ctypes.c_uint32, ("u", 8): ctypes.c_uint64}
_LETTERS = {**dict.fromkeys("fd", "f"), **dict.fromkeys("bhilqn", "i"), **dict.fromkeys("BHILQN", "u"), "?": "b"}
_CODES = {0: "i", 1: "u", 2: "f", 4: "bf", 6: "b"}


def _by_number(number):
    return next(d for d in _DTYPES if d.number == number)


class _Found:
    """Memory of others: kind and bytes of its numbers, shape, strides in bytes or None, address, and what holds it."""

    def __init__(self, x, kind, said, shape, strides, address, source):
        self.what, self.kind, self.said = type(x).__name__, kind, said
        self.shape, self.strides, self.address, self.source = tuple(shape), strides, address or 0, source

    def dtype(self, table):
        for dtype in table:
            if dtype.kind == self.kind:
                return dtype
        names = ", ".join(d.name.split("_")[-1].lower() for d in table)
        other = "uint8" if self.kind is not None and self.kind[0] == "b" else "float32"
        raise TypeError(f"the type of an array must be one of {names} (got {self.said}): convert it first, in NumPy by x.astype(numpy.{other})")

    def as_known(self):
        """Whole numbers of a width that sw_dtype lacks, labels and ids, as an I32 copy."""
        wide = _WHOLE.get(self.kind)
        if wide is None or any(d.kind == self.kind for d in _DTYPES):
            return self
        self.must_be_contiguous()
        n = 1
        for dim in self.shape:
            n *= dim
        values = (wide * n).from_address(self.address) if n else []
        try:
            made = numbers("i", values)
        except OverflowError:
            at, value = next((i, v) for i, v in enumerate(values) if not -(1 << 31) <= v < 1 << 31)
            raise ValueError(f"whole numbers of an array must fit into int32 (got {value} as number {at})") from None
        return _Found(self.what, ("i", 4), self.said, self.shape, None, made.buffer_info()[0], made)

    def byte_strides(self):
        if self.strides is not None:
            return list(self.strides)
        made = [self.kind[1]]
        for n in reversed(self.shape[1:]):
            made.insert(0, made[0] * n)
        return made[:len(self.shape)]

    def must_be_contiguous(self):
        """Strides must be those of rows one after the other; axes of length 1 do not matter."""
        if self.strides is None or 0 in self.shape:
            return
        expected = self.kind[1]
        for n, stride in zip(reversed(self.shape), reversed(self.strides)):
            if n != 1 and stride != expected:
                raise ValueError(f"an array must be C-contiguous (got {self.what} of shape {self.shape} with strides of {tuple(self.strides)} bytes): "
                                 "pass a contiguous copy, in NumPy numpy.ascontiguousarray(x), in PyTorch x.contiguous()")
            expected *= n


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


def _from_buffer(x):
    held = _Held(x)
    view = held.buffer
    text = (view.format or b"B").decode()
    letter = text[1:] if text[:1] in ("@", "=", _ENDIAN) else text
    shape, strides = ([values[i] for i in range(view.ndim)] if values else None for values in (view.shape, view.strides))
    return _Found(x, (_LETTERS.get(letter), view.itemsize), f"the buffer format {text!r}", shape or [], strides, view.buf, (x, held))


def _from_interface(x):
    face = x.__array_interface__
    typestr = face["typestr"]
    if not isinstance(face.get("data"), tuple):
        raise ValueError(f"an array must say where its data are (got {face.get('data')!r} in __array_interface__)")
    kind = (typestr[1], int(typestr[2:])) if typestr[0] in ("|", "=", _ENDIAN) else None
    return _Found(x, kind, repr(typestr), face["shape"], face.get("strides"), face["data"][0], (x, face))


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
    kind = (_CODES.get(tensor.code), tensor.bits // 8) if tensor.lanes == 1 and tensor.bits % 8 == 0 else None
    shape, strides = ([values[i] for i in range(tensor.ndim)] if values else None for values in (tensor.shape, tensor.strides))
    strides = None if strides is None else [n * tensor.bits // 8 for n in strides]
    said = f"DLPack code {tensor.code} of {tensor.bits} bits"
    return _Found(x, kind, said, shape or [], strides, (tensor.data or 0) + tensor.byte_offset, (x, capsule))


def _found(x):
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


def array(x):
    """An sw_array of x without a copy: what has the buffer protocol (bytes, array.array, NumPy),
    __array_interface__, or __dlpack__ in the memory of the host (PyTorch). C-contiguous, of a type
    of sw_dtype. It keeps x, and x must not be resized; what changes in x changes in it. But whole
    numbers of another width (int64 labels) become a copy as int32, if they fit."""
    if isinstance(x, _header.sw_array):
        return x
    found = _found(x).as_known()
    dtype = found.dtype(_DTYPES)
    found.must_be_contiguous()
    if len(found.shape) > _header.SW_MAX_RANK:
        raise ValueError(f"an array must have at most {_header.SW_MAX_RANK} dims (got {len(found.shape)})")
    made = _header.sw_array(dtype=dtype.number, shape=found.shape, data=found.address)
    keep(made, "of", found.source)
    return made


def arrays(*xs):
    """A list of sw_array, for `inputs` of sw_run_args and sw_members_args."""
    return [array(x) for x in xs]


def samples(x, scale=0.0, shift=0.0):
    """An sw_samples of x, whose first axis goes from sample to sample, for sw_dataset_arrays: any
    strides, any type of sw_number. Arrays that sw_dataset_arrays uses in place are not copied."""
    found = _found(x)
    if not 1 <= len(found.shape) <= _header.SW_MAX_RANK + 1:
        raise ValueError(f"samples must have 1 to {_header.SW_MAX_RANK + 1} dims, the first of them from sample to sample (got {len(found.shape)})")
    strides = found.byte_strides()
    made = _header.sw_samples(data=found.address, type=found.dtype(_NUMBERS).number, shape=found.shape[1:], scale=scale, shift=shift)
    made.strides[:len(strides)] = strides
    keep(made, "of", found.source)
    keep(made, "samples", found.shape[0])
    return made


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
        return {"version": 3, "shape": v.shape, "typestr": v.dtype.typestr, "data": (v.address, v.readonly)}


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
    is stale after the exec's next run; copy() is the bytes of its own that stay."""

    address = property(lambda self: Address(self.at, self))

    def __init__(self, array, owners, memory=None, readonly=True):
        self.dtype, self.readonly = _by_number(array.dtype), readonly
        self.at = array.data or 0
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
                raise Error(_header.SW_STALE, "the output is of an earlier run, and its memory is another's: ask for it again, after each run")
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
        shaped = flat.cast(self.dtype.letter) if 0 in self.shape else flat.cast(self.dtype.letter, self.shape)
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
        record.tensor = _DLTensor(self.address, 1, 0, len(self.shape), self.dtype.dlpack, 8 * self.dtype.kind[1], 1, shape, None, 0)
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
