"""Macros of <stepwell.h>, scopes, and texts that the library makes."""
import contextlib
import ctypes

from . import _header
from ._calls import Function

SW_SCALAR = _header.sw_shape()


def SW_SHAPE(*dims):
    """SW_SHAPE(batch, 3, 32, 32): a shape of these dims. A tuple is taken in its place everywhere."""
    made = _header.sw_shape(rank=len(dims))
    made.dim[:len(dims)] = dims
    return made


def SW_AXIS(i):
    return 1 << i


def SW_IN(i):
    return 0x100 | i


def SW_OUT(i):
    return 0x200 | i


def SW_DOUT(i):
    return 0x300 | i


@contextlib.contextmanager
def scope(ctx, name):
    """sw_scope_begin, and sw_scope_end where the block ends."""
    Function("sw_scope_begin")(ctx, name)
    try:
        yield
    finally:
        Function("sw_scope_end")(ctx)


def print(genome):
    """The text of a genome, as sw_genome_print gives it."""
    text, n = ctypes.POINTER(ctypes.c_char)(), ctypes.c_size_t()
    # The place is of a `char *`, which ctypes would copy as a text.
    place = ctypes.cast(ctypes.pointer(text), ctypes.POINTER(ctypes.c_char_p))
    Function("sw_genome_print")(genome, place, n)
    made = ctypes.string_at(text, n.value)
    Function("sw_text_free")(text, n.value)
    return made.decode()


def save(pbt):
    """The bytes that sw_pbt_save gives."""
    data, n = ctypes.c_void_p(), ctypes.c_size_t()
    Function("sw_pbt_save")(pbt, data, n)
    made = ctypes.string_at(data, n.value)
    Function("sw_pbt_free")(data, n.value)
    return made
