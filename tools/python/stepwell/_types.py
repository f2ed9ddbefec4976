"""The parts of _header.py: structs, callbacks, prototypes, and how Python values become C's."""
import ctypes
import os
import sys

FUNCTIONS = {}  # by name: function


class Opaque(ctypes.Structure):
    """An object of the library, of which only the address is known."""


class Struct(ctypes.Structure):
    """A struct of <stepwell.h>. A `size` in front is set to the struct's own; other members are 0,
    which means default, unless they are given by name. Python values become C's: text, lists,
    tuples (shapes too), functions and owners; the struct keeps them alive. Text is read as str."""

    def __init__(self, **members):
        super().__init__()
        if self._fields_[0] == ("size", ctypes.c_size_t):
            self.size = ctypes.sizeof(self)
        for name, value in members.items():
            setattr(self, name, value)

    def __setattr__(self, name, value):
        name = name.rstrip("_")
        kind = field_types(type(self)).get(name)
        if kind is None:
            raise AttributeError(f"{type(self).__name__} has no member {name} (it has {', '.join(field_types(type(self)))})")
        if getattr(kind, "is_step", False) and callable(value) and not isinstance(getattr(value, "c", value), ctypes._CFuncPtr):
            from ._calls import set_step
            set_step(self, value)
            return
        try:
            made = convert(kind, value)
            super().__setattr__(name, made)
        except (TypeError, ValueError, OverflowError) as refused:
            raise type(refused)(f"{type(self).__name__}.{name}: {refused}") from refused
        keep(self, name, (value, made))

    def __getattribute__(self, name):
        value = super().__getattribute__(name)
        if type(value) is int and field_types(type(self)).get(name) is ctypes.c_void_p:
            return Address(value, self)
        return value.decode(errors="replace") if type(value) is bytes else value

    def __getattr__(self, name):
        if name == "in_":
            return getattr(self, "in")
        raise AttributeError(f"{type(self).__name__} has no member {name}")

    def __repr__(self):
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in field_types(type(self)) if name != "size")
        return f"{type(self).__name__}({shown})"


class Address(int):
    """An address as a struct or a view has it: it keeps that, and so what lies there."""

    def __new__(cls, value, of):
        made = super().__new__(cls, value)
        made.of = of
        return made

    def __add__(self, other):
        return Address(int(self) + other, self.of)

    __radd__ = __add__

    def __reduce__(self):
        return int, (int(self),)


def keep(struct, name, value):
    """Keeps the target of a member as long as the struct. (No method: a member has this name.)"""
    struct.__dict__.setdefault("_kept", {})[name] = value


def kept_of(struct):
    return struct.__dict__.get("_kept", {})


_fields = {}


def field_types(kind):
    """The members of a struct, by name."""
    if kind not in _fields:
        _fields[kind] = {f[0]: f[1] for f in kind._fields_}
    return _fields[kind]


def callback(answer, made, result, *arguments):
    """A type of C functions that Python functions become. answer: what C gets where the Python
    function raised; made: the struct that it returns, as a number of the same bytes."""
    base = ctypes.CFUNCTYPE(result, *arguments)
    return type(base)("callback", (ctypes._CFuncPtr,), {"_flags_": base._flags_, "_restype_": result, "_argtypes_": arguments, "answer": answer, "made": made,
                                                        "is_step": False})


class function:
    """A prototype of <stepwell.h>."""

    def __init__(self, name, result, arguments, outs, must, variadic, text):
        self.name, self.result, self.arguments, self.outs = name, result, arguments, outs
        self.must, self.variadic, self.text = bool(must), bool(variadic), text
        FUNCTIONS[name] = self


def target(kind):
    """The target of a pointer type, or None."""
    return getattr(kind, "_type_", None) if isinstance(kind, type) and issubclass(kind, ctypes._Pointer) else None


def convert(kind, value):
    """A Python value as a member or an argument of a C type."""
    if hasattr(value, "_as_parameter_"):
        value = value._as_parameter_
    if kind is ctypes.c_char_p and isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        if kind is not ctypes.c_char_p:
            raise TypeError(f"a text cannot be {kind.__name__}")
        if "\0" in value:
            raise ValueError(f"a text must have no zero byte (got {value!r})")
        return value.encode(errors="surrogateescape")  # names of files may have any bytes
    if kind in _RANGES and hasattr(value, "__index__"):
        return in_range(kind, value)
    if isinstance(kind, type) and issubclass(kind, ctypes._CFuncPtr):
        return as_callback(kind, value)
    if isinstance(value, (list, tuple)):
        return from_list(kind, value)
    points_to = target(kind)
    if points_to is not None:
        return as_pointer(kind, points_to, value)
    return as_address(value) if kind is ctypes.c_void_p else value


# ctypes cuts a whole number that is too large down to the bytes that it has.
_RANGES = {}
for _kind in (ctypes.c_byte, ctypes.c_short, ctypes.c_int, ctypes.c_long, ctypes.c_longlong):
    _RANGES[_kind] = (-(1 << 8 * ctypes.sizeof(_kind) - 1), (1 << 8 * ctypes.sizeof(_kind) - 1) - 1)
for _kind in (ctypes.c_ubyte, ctypes.c_ushort, ctypes.c_uint, ctypes.c_ulong, ctypes.c_ulonglong):
    _RANGES[_kind] = (0, (1 << 8 * ctypes.sizeof(_kind)) - 1)


def in_range(kind, value):
    value = value.__index__()
    least, most = _RANGES[kind]
    if not least <= value <= most:
        raise OverflowError(f"a number must be {least} to {most} (got {value})")
    return value


def as_address(value):
    """A `void *` of what ctypes has, of bytes, or of a number."""
    if value is None or isinstance(value, (int, ctypes.c_void_p)) or type(value).__name__ == "CArgObject":
        return value
    if isinstance(value, ctypes.Structure):
        value = ctypes.pointer(value)
    if isinstance(value, (bytes, ctypes.Array, ctypes._Pointer, ctypes.c_char_p)):
        return ctypes.cast(value, ctypes.c_void_p)
    raise TypeError(f"an address cannot be made of {type(value).__name__}: pass stepwell.array(x).data, or an address as an int")


def as_callback(kind, value):
    if value is None:
        return kind()
    value = getattr(value, "c", value)  # a function of the library
    if isinstance(value, ctypes._CFuncPtr):
        return value if isinstance(value, kind) else ctypes.cast(value, kind)
    if not callable(value):
        raise TypeError(f"a function must be callable (got {type(value).__name__})")
    from ._calls import guarded
    return guarded(kind, value)


def from_list(kind, value):
    """A list as an array, as what a pointer points to, or, of numbers, as a shape."""
    if getattr(kind, "__name__", "") == "sw_shape":
        if len(value) > len(kind().dim):
            raise ValueError(f"a shape must have at most {len(kind().dim)} dims (got {len(value)})")
        made = kind(rank=len(value))
        made.dim[:len(value)] = value
        return made
    if isinstance(kind, type) and issubclass(kind, ctypes.Array):
        return kind(*[convert(kind._type_, v) for v in value])
    item = target(kind)
    if item is None:
        raise TypeError(f"a list cannot be {kind.__name__}" + (": pass stepwell.array(x).data" if kind is ctypes.c_void_p else ""))
    items = [convert(item, v) for v in value]
    made = (item * max(1, len(items)))(*items)
    made.items = (value, items)  # an array keeps copies of structs, and not what they point to
    return made


def as_pointer(kind, points_to, value):
    if value is None or isinstance(value, (kind, ctypes.Array)) or type(value).__name__ == "CArgObject":
        return value
    if isinstance(value, points_to):
        return ctypes.pointer(value)
    if isinstance(value, ctypes._Pointer):
        raise TypeError(f"{points_to.__name__} is asked for (got {type(value)._type_.__name__})")
    if points_to in (ctypes.c_char, ctypes.c_uint8) and isinstance(value, (bytes, bytearray)):
        raise TypeError("a text that C writes into is made by ctypes.create_string_buffer")
    raise TypeError(f"{points_to.__name__} is asked for (got {type(value).__name__})")


def number_of(struct):
    """The number whose bytes a small struct has: how a callback returns it."""
    return int.from_bytes(bytes(struct), sys.byteorder)
