"""The library, its functions under their names, and Python functions that it calls."""
import collections
import ctypes
import ctypes.util
import os
import sys
import threading
import weakref

from . import _header
from ._counts import check_call
from ._types import FUNCTIONS, Opaque, Struct, convert, keep, number_of, target

HERE = os.path.dirname(os.path.abspath(__file__))
_local = threading.local()
_stray = collections.deque()  # exceptions of callbacks on threads that made no call
_immortal = []                # functions that the library keeps without an end
# The first is there where the library uses jemalloc, which a program that runs cannot load.
NAMES = ("libstepwell-malloc.so.0", "libstepwell.so.0")
KEPT_FOR_EVER = {"sw_interrupt_set", "sw_op_register"}
STEP = "step function"  # what keeps it in a struct; no member has this name
_library = None


class Error(Exception):
    """A status that is not SW_OK. status: which; out: what the call filled all the same, if it
    was made by stepwell.get."""

    def __init__(self, status, message=None):
        self.status = _header.sw_status(status)
        self.out = None
        super().__init__(message if message is not None else f"{self.status.name}: {last_error()}")


# ---- the library ----------------------------------------------------------------------------


def candidates():
    """Where the library may be, first the nearest."""
    if os.environ.get("STEPWELL_LIBRARY"):
        return [os.environ["STEPWELL_LIBRARY"]]
    prefix = os.path.normpath(os.path.join(HERE, "..", "..", "..", ".."))  # of PREFIX/share/stepwell/python/stepwell
    places = [HERE, *(os.path.join(prefix, folder) for folder in ("lib", os.path.join("lib", getattr(sys.implementation, "_multiarch", "")), "lib64"))]
    found = [p for p in (os.path.join(folder, name) for folder in places for name in NAMES) if os.path.exists(p)]
    named = filter(None, (ctypes.util.find_library(name) for name in ("stepwell-malloc", "stepwell")))
    return [*found, *named, *NAMES]


def library():
    """The shared library, loaded once."""
    global _library
    if _library is None:
        _library = load()
    return _library


def load():
    why = []
    for path in candidates():
        try:
            found = ctypes.CDLL(path)
        except OSError as refused:
            why.append(str(refused))
            continue
        found.sw_version.restype = ctypes.c_char_p
        version = found.sw_version().decode()
        if version.split(".")[:2] != _header.VERSION.split(".")[:2]:
            raise ImportError(f"{path} is stepwell {version}, and this package is of {_header.VERSION}: use the package of the library, "
                              "which is installed in share/stepwell/python beside it, or name another library with STEPWELL_LIBRARY")
        return found
    if any("static TLS" in w for w in why):
        raise ImportError("the library uses jemalloc, which Python cannot load while it runs: name libstepwell-malloc.so.0, which is built beside it, "
                          "with STEPWELL_LIBRARY=PATH. Tried: " + "; ".join(why))
    raise ImportError("the library was not found: name libstepwell-malloc.so.0, or libstepwell.so.0 of a build without jemalloc, with "
                      "STEPWELL_LIBRARY=PATH, or install it (meson setup build && ninja -C build && meson install -C build && ldconfig). Tried: "
                      + "; ".join(why))


def raw(name):
    """A function of the library with its types, and nothing around it."""
    row = FUNCTIONS[name]
    try:
        found = getattr(library(), name)
    except AttributeError:
        raise AttributeError(f"the library {library()._name} has no {name}: it is older than this package") from None
    found.argtypes, found.restype = row.arguments, row.result
    return found


def last_error():
    return (raw("sw_last_error")() or b"").decode(errors="replace")


# ---- calls ----------------------------------------------------------------------------------


def stack():
    """The calls of this thread that are under way, each with what its callbacks raised."""
    if not hasattr(_local, "calls"):
        _local.calls = []
    return _local.calls


class Call:
    def __init__(self):
        self.raised, self.kept, self.later = [], [], []


class Function:
    """A function of <stepwell.h>. One that the header asks to be looked at raises stepwell.Error
    for every status but SW_OK. The lock of the interpreter is free while it runs."""

    def __init__(self, name):
        self.row, self.c = FUNCTIONS[name], raw(name)
        self.__name__, self.__doc__ = name, f"{self.row.text}\n\n<stepwell.h> says what it does."
        makes = self.row.result is _header.sw_value and self.row.arguments[:1] == [ctypes.POINTER(_header.sw_ctx)]
        self.traced = makes  # its empty result says that an op was refused

    def __repr__(self):
        return f"<{self.row.text}>"

    def __call__(self, *given):
        row = self.row
        if len(given) != len(row.arguments) and not (row.variadic and len(given) > len(row.arguments)):
            raise TypeError(f"{row.name} takes {len(row.arguments)} arguments (got {len(given)}): {row.text}")
        call = Call()
        arguments = [self.argument(i, value) for i, value in enumerate(given[:len(row.arguments)])]
        arguments += given[len(row.arguments):]
        check_call(row, given)
        before(row.name, given)
        calls = stack()
        (calls[-1].kept if calls else call.kept).append(arguments)
        if row.name in KEPT_FOR_EVER:
            _immortal.append((given, arguments))
        used = in_use(given, call)
        calls.append(call)
        try:
            result = self.c(*arguments)
        except ctypes.ArgumentError as refused:
            raise TypeError(f"{row.name}: {refused}: {row.text}") from refused
        finally:
            calls.pop()
            for body in used:
                body.calls.discard(call)
            for end in call.later:
                end() if not calls else calls[-1].later.append(end)
        return self.finish(result, call, given, not calls)

    def argument(self, i, value):
        try:
            return convert(self.row.arguments[i], value)
        except (TypeError, ValueError, OverflowError) as refused:
            raise type(refused)(f"argument {i + 1}: {refused}: {self.row.text}") from refused

    def finish(self, result, call, given, outermost):
        """The Python value of a result, or the error of the call."""
        raised = call.raised
        while outermost and _stray:
            raised.append(_stray.popleft())
        if raised:
            raised[0].others = raised[1:]
            raise raised[0]
        if self.row.must and result != _header.SW_OK:
            raise Error(result)
        if self.traced and result.generation == 0 and raw("sw_ctx_status")(given[0]) != _header.SW_OK:
            raise Error(raw("sw_ctx_status")(given[0]))
        after(self.row.name, given)
        if isinstance(result, bytes):
            return result.decode(errors="replace")
        kind = target(self.row.result)
        if kind is not None and issubclass(kind, Opaque):
            from ._owners import Borrowed
            return Borrowed(result, given) if result else None
        return result


def before(name, given):
    from ._owners import before_call
    before_call(name, given)


def in_use(given, call):
    """The objects of a call, which no other thread may end meanwhile."""
    from ._owners import owners_in
    bodies = [owner.body for owner in owners_in(list(given))]
    for body in bodies:
        body.calls.add(call)
    return bodies


def after(name, given):
    from ._owners import after_call
    after_call(name, given)


# ---- Python functions that the library calls -----------------------------------------------


def note(raised):
    """An exception that left a Python function: the call under way raises it when it returns."""
    calls = stack()
    (calls[-1].raised if calls else _stray).append(raised)
    text = f"{type(raised).__name__}: {raised}".replace("\n", " ").replace("\0", " ").encode(errors="replace")
    raw("sw_error_set")(_header.SW_STOPPED, b"python", 0, b"%s", text)
    return text


def guarded(kind, python):
    """A C function of type `kind` that calls a Python function, whose exceptions do not get lost."""
    def run(*arguments):
        try:
            result = python(*(a.decode(errors="replace") if type(a) is bytes else a for a in arguments))
            if kind._restype_ is None:
                return None
            if kind.made is not None:
                return number_of(result)
            return kind._restype_(0 if result is None else convert(kind._restype_, result)).value
        except BaseException as raised:  # C cannot be left by an exception
            note(raised)
            return kind.answer
    made = kind(run)
    made.python = python
    return made


class Step:
    """A Python function as a step function: one C function serves all, and `user` says which. The
    number is never used again, so that no program of one is taken for another's."""

    numbers, living = 0, weakref.WeakValueDictionary()
    known = weakref.WeakValueDictionary()  # by Python function

    def __init__(self, python):
        Step.numbers += 1
        self.python, self.number = python, Step.numbers
        Step.living[self.number] = self

    @classmethod
    def of(cls, python):
        try:
            found = cls.known.get(python)
            if found is None:
                found = cls.known[python] = cls(python)
            return found
        except TypeError:  # no hash: known by itself
            return cls(python)


def _run_step(ctx, user):
    try:
        step = Step.living.get(user)
        if step is None:
            raise RuntimeError("the step function has ended: keep the struct that has it, or the exec that ran it")
        step.python(ctx)
    except BaseException as raised:  # C cannot be left by an exception
        text = note(raised)
        raw("sw_fail")(ctx, _header.SW_STOPPED, text)


_header.sw_step_fn.is_step = True
_the_step = _header.sw_step_fn(_run_step)


def set_step(arguments, step):
    """Set fn and user of sw_run_args or sw_members_opts to a Python function of the ctx. A
    program is planned once for each function; the struct keeps it, and each exec that it ran
    in."""
    if not callable(step):
        raise TypeError(f"a step must be callable (got {type(step).__name__})")
    kept = Step.of(step)
    Struct.__setattr__(arguments, "fn", _the_step)
    Struct.__setattr__(arguments, "user", kept.number)
    keep(arguments, STEP, kept)
