"""stepwell in Python: the functions and structs of <stepwell.h> under their names, by ctypes alone.

    import stepwell as sw

    with sw.make(sw.sw_exec_create, sw.sw_exec_opts(threads=2)) as exec, \\
         sw.make(sw.sw_model_create, "mlp") as model:
        layer = sw.sw_linear_new(model, "fc1", 784, 10)
        sw.sw_model_ready(model, exec, 1)

No second API: what a function does, its shapes, units and errors, is said by <stepwell.h>. Added is
what Python needs. Functions that can fail raise stepwell.Error. make() gives owners, get() fills
places, array() points to arrays of others, and output() shows memory of the library. plan(), train()
and report() run the program `stepwell`; ray.resources() says what a worker of Ray asks for. The guide
is tools/docs/python.md."""
from . import _header, ray
from ._arrays import View, array, arrays, output, read, samples, view, write
from ._calls import Error, Function, library, set_step
from ._command import CommandError, command, frames, plan, report, train
from ._evolution import Evolution
from ._owners import OWNERS, Borrowed, Owner, borrow, check, get, make, sized
from ._text import SW_AXIS, SW_DOUT, SW_IN, SW_OUT, SW_SCALAR, SW_SHAPE, print, save, scope
from ._types import FUNCTIONS

for _made in (Error, CommandError, Evolution, View, Owner, Borrowed, Function):
    _made.__module__ = "stepwell"
__version__ = _header.VERSION
globals().update({name: getattr(_header, name) for name in dir(_header) if name.lower().startswith("sw_")})
globals().update({kind.__name__[3:]: made for kind, made in OWNERS.items()})
__all__ = ["Error", "Evolution", "View", "array", "arrays", "borrow", "check", "get", "make", "output", "read", "samples", "set_step", "sized", "write",
           "SW_AXIS", "SW_DOUT", "SW_IN", "SW_OUT", "SW_SCALAR", "SW_SHAPE", *FUNCTIONS, *(n for n in dir(_header) if n.lower().startswith("sw_"))]


def __getattr__(name):
    """Functions of the library; it is loaded when the first is asked for."""
    if name not in FUNCTIONS:
        raise AttributeError(f"stepwell has no {name}")
    made = globals()[name] = Function(name)
    return made


def __dir__():
    return sorted({*globals(), *FUNCTIONS})
