"""Owners: objects of the library that end with a block, and in the order that <stepwell.h> asks."""
import atexit
import ctypes
import weakref

from . import _header
from ._calls import STEP, Error, Function, raw, stack
from ._types import FUNCTIONS, Opaque, Struct, kept_of, target

# Which objects must end before which others: those that borrow before those that are borrowed.
BORROWS = {
    "sw_exec": {"sw_budget", "sw_profile"},
    "sw_model": {"sw_exec"},
    "sw_members": {"sw_exec", "sw_model"},
    "sw_es": {"sw_model", "sw_exec", "sw_net"},
    "sw_zo": {"sw_model", "sw_net"},
    "sw_net": {"sw_exec"},
    "sw_evolution": {"sw_exec", "sw_dataset", "sw_search_space"},
    "sw_loader": {"sw_budget"},
    "sw_checkpoint": {"sw_exec", "sw_model", "sw_loader", "sw_members", "sw_net"},
}
# Calls after which the first object borrows the others.
BINDING = {"sw_model_ready", "sw_net_ready", "sw_exec_set_profile", "sw_checkpoint_loader", "sw_checkpoint_members"}
# Calls that run something in an exec: the memory of its outputs is used again.
RUNNING = {"sw_run", "sw_witness", "sw_es_evaluate", "sw_es_step", "sw_zo_step", "sw_zo_replay", "sw_members_run", "sw_members_run_all",
           "sw_evolution_advance"}

# In a step function nothing else can be destroyed.
CAN_END_ANYWHERE = {"sw_budget", "sw_dataset"}

_living = set()


def owners_in(value):
    """The owners that a value is, has or was made with."""
    if isinstance(value, Owner):
        return [value]
    if isinstance(value, Borrowed):
        return value.owners
    if isinstance(value, Struct):
        return [o for kept in kept_of(value).values() for o in owners_in(kept)]
    if isinstance(value, (list, tuple)):
        return [o for v in value for o in owners_in(v)]
    return []


def structs_in(value):
    if isinstance(value, Struct):
        return [value]
    if isinstance(value, (list, tuple)):
        return [s for v in value for s in structs_in(v)]
    return []


class Borrowed:
    """The address of an object that belongs to another one, and ends with it."""

    def __init__(self, pointer, made_of):
        self.pointer, self.owners = pointer, owners_in(list(made_of))

    @property
    def _as_parameter_(self):
        for owner in self.owners:
            owner.address()
        return self.pointer

    def __repr__(self):
        return f"<{type(self.pointer)._type_.__name__} of {', '.join(map(repr, self.owners)) or 'its owner'}>"


class Body:
    """The object itself. It has no reference to its owner, so that the order in which bodies end is
    known when the collector has taken a circle of owners, whose weak references are gone by then."""

    def __init__(self, kind, pointer):
        Body.serial += 1
        self.kind, self.pointer, self.serial = kind, pointer, Body.serial
        self.borrows, self.borrowed_by, self.calls = [], set(), set()
        _living.add(self)

    serial = 0

    def destroy(self):
        """The answer of the destroy function; None where it cannot fail."""
        pointer, self.pointer = self.pointer, None
        for other in self.borrows:
            other.borrowed_by.discard(self)
        self.borrows = []
        _living.discard(self)
        return raw(self.kind.__name__ + "_destroy")(pointer)

    def end(self):
        """Destroy it whatever goes on, after what borrows it; in a step function, and while a call uses it, after the call."""
        for other in sorted(self.borrowed_by, key=lambda b: -b.serial):
            other.end()
        if self.pointer is None:
            return
        calls = stack() if self.kind.__name__ not in CAN_END_ANYWHERE else []
        for call in [*calls[:1], *tuple(self.calls)[:1]]:
            call.later.append(self.end)
            break
        else:
            self.destroy()  # whether the file of a profile is whole, close() tells


class Owner:
    """The only owner of an object. It is given to functions as the object's address; it ends with
    its block, by close(), or with its last reference, in this order: what borrows others first."""

    kind = None  # set by the classes below

    def __init__(self, pointer, made_of=()):
        self.body = Body(self.kind, pointer)
        self.kept, self.steps, self.runs = [made_of], set(), 0
        self.exports = weakref.WeakSet()
        self.bind(made_of)

    def bind(self, others):
        """From now on the object borrows these, where it is of a kind that does."""
        for other in owners_in(list(others)):
            body = other.body
            if body.kind.__name__ in BORROWS.get(self.kind.__name__, ()) and body not in self.body.borrows:
                self.body.borrows.append(body)
                body.borrowed_by.add(self.body)
                self.kept.append(other)

    @property
    def pointer(self):
        return self.body.pointer

    def address(self):
        if self.pointer is None:
            raise Error(_header.SW_INVALID, f"{type(self).__name__} was closed: make another one")
        return self.pointer

    _as_parameter_ = property(address)

    def __bool__(self):
        return self.pointer is not None

    def __copy__(self):
        raise TypeError(f"{type(self).__name__} has one owner, and cannot be copied")

    def __deepcopy__(self, memo):
        return self.__copy__()

    def __reduce__(self):
        return self.__copy__()

    def __repr__(self):
        return f"<stepwell.{type(self).__name__} {'closed' if self.pointer is None else hex(ctypes.addressof(self.pointer.contents))}>"

    def __enter__(self):
        self.address()
        return self

    def __exit__(self, *raised):
        if raised[0] is None:
            self.close()
        else:
            self.body.end()

    def close(self):
        """Destroy the object; a second call does nothing. stepwell.Error while others borrow it, or
        while arrays of its memory are in use."""
        if self.pointer is None:
            return
        name = type(self).__name__
        others = sorted({body.kind.__name__[3:] for body in self.body.borrowed_by})
        if others:
            raise Error(_header.SW_BUSY, f"{name} is in use by {', '.join(others)}: close {'it' if len(others) == 1 else 'them'} first")
        if len(self.exports):
            raise Error(_header.SW_BUSY, f"{name} has memory that arrays show: drop them first, or copy them (.copy())")
        if stack() and self.kind.__name__ not in CAN_END_ANYWHERE:
            raise Error(_header.SW_BUSY, f"{name} cannot be closed in a step function or a callback")
        if self.body.calls:
            raise Error(_header.SW_BUSY, f"{name} cannot be closed while a call uses it on another thread: wait for that thread first")
        status = self.body.destroy()
        self.steps = set()
        if self.kind.__name__ != "sw_dataset":  # loaders read its samples longer, and keep this owner
            self.kept = []
        if status is not None and status != _header.SW_OK:
            raise Error(status)

    def release(self):
        """The address, which the caller owns from now on."""
        pointer = self.address()
        self.body.pointer = None
        for other in self.body.borrows:
            other.borrowed_by.discard(self.body)
        _living.discard(self.body)
        return pointer

    def __del__(self):
        if hasattr(self, "body"):
            self.body.end()


@atexit.register
def _end_all():
    for body in sorted(_living, key=lambda b: -b.serial):
        body.end()


# One for each destroy function of the header: stepwell.exec of sw_exec, and so on.
OWNERS = {}
for _name in FUNCTIONS:
    if _name.endswith("_destroy"):
        _kind = target(FUNCTIONS[_name].arguments[0])
        OWNERS[_kind] = type(_kind.__name__[3:], (Owner,), {"kind": _kind, "__module__": "stepwell", "__doc__": f"Owner of a {_kind.__name__}."})


# ---- calls that make, and that fill -----------------------------------------------------------


def the_function(fn):
    if not isinstance(fn, Function):
        raise TypeError(f"a function of <stepwell.h> is asked for (got {fn!r})")
    return fn


def fill(fn, given, places):
    """Call fn with the arguments that are given and the places that are not: (arguments, places)."""
    kinds = fn.row.arguments
    made = {i: target(kinds[i])() for i in places}
    rest = iter(given)
    return [made[i] if i in made else next(rest) for i in range(len(kinds))], list(made.values())


def objects_of(fn, given, word):
    """The places of objects that fn makes."""
    row = the_function(fn).row
    places = [i for i in row.outs if target(target(row.arguments[i])) is not None and issubclass(target(target(row.arguments[i])), Opaque)]
    if not places or len(given) + len(places) != len(row.arguments):
        raise TypeError(f"stepwell.{word} calls {row.name} without the place of what it makes, so with {len(row.arguments) - len(places)} "
                        f"arguments (got {len(given)}): {row.text}")
    return places


def make(fn, *given):
    """Call a function of <stepwell.h> that makes an object, with all arguments but the place of it:
    stepwell.make(sw_dataset_idx, "mnist", "train"). Returns the owner, or a tuple of them."""
    places = objects_of(fn, given, "make")
    kinds = [target(target(fn.row.arguments[i])) for i in places]
    for kind in kinds:
        if kind not in OWNERS:
            raise TypeError(f"{kind.__name__} belongs to another object: use stepwell.borrow")
    arguments, made = fill(fn, given, places)
    fn(*arguments)
    owners = tuple(OWNERS[kind](pointer, given) if pointer else None for kind, pointer in zip(kinds, made))
    return owners[0] if len(owners) == 1 else owners


def borrow(fn, *given):
    """The same for what belongs to another object, which ends it: an optimizer to its model."""
    places = objects_of(fn, given, "borrow")
    kind = target(target(fn.row.arguments[places[0]]))
    if kind in OWNERS:
        raise TypeError(f"the caller must end a {kind.__name__}: use stepwell.make")
    arguments, made = fill(fn, given, places)
    fn(*arguments)
    return Borrowed(made[0], given)


def get(fn, *given):
    """Call a function of <stepwell.h> without its last arguments, which are places that it fills,
    and return what it filled: get(sw_metric_get, exec, "loss") is a float, get(sw_plan, exec, args)
    an sw_plan_info. Several are a tuple. stepwell.Error has it too, as `out`."""
    row = the_function(fn).row
    n = len(row.arguments) - len(given)
    if not 0 < n <= len(row.outs) or row.outs[-n:] != list(range(len(row.arguments) - n, len(row.arguments))):
        raise TypeError(f"stepwell.get calls {row.name} without the places at its end that it fills (got {len(given)} arguments): {row.text}")
    arguments, made = fill(fn, given, row.outs[-n:])
    try:
        fn(*arguments)
    except Error as refused:
        refused.out = [found(m) for m in made]
        refused.out = refused.out[0] if n == 1 else tuple(refused.out)
        raise
    if n == 2 and isinstance(made[0], ctypes.c_void_p) and isinstance(made[1], ctypes.c_size_t):
        return ctypes.string_at(made[0], made[1].value) if made[0] else None
    values = [found(m) for m in made]
    return values[0] if n == 1 else tuple(values)


def found(made):
    """The Python value of a place that was filled."""
    if isinstance(made, ctypes.c_char_p):
        return None if made.value is None else made.value.decode(errors="replace")
    return made.value if isinstance(made, ctypes._SimpleCData) else made


def sized(kind, **members):
    """A struct that begins with its own size: all zero, which means default, but for what is given."""
    return kind(**members)


def check(status):
    """Raise stepwell.Error for all but SW_OK."""
    if status != _header.SW_OK:
        raise Error(status)


# ---- what a call means for the objects that it was given ------------------------------------


def before_call(name, given):
    """Steps live as long as the objects that ran them; memory that arrays show is not run over."""
    if not structs_in(given) and name not in RUNNING:
        return
    owners = owners_in([g for g in given if isinstance(g, (Owner, Borrowed, list, tuple))])
    if name in RUNNING:
        owners += [b for o in owners for b in owners_in(o.kept) if b.kind.__name__ == "sw_exec" and b not in owners]
    steps = {kept_of(s)[STEP] for s in structs_in(given) if STEP in kept_of(s)}
    for owner in owners:
        owner.steps |= steps
        if name in RUNNING:
            if len(owner.exports):
                raise Error(_header.SW_BUSY, "arrays show outputs of the last run, whose memory this run takes: drop them first, or copy "
                                             "them (.copy())")
            owner.runs += 1


def after_call(name, given):
    if name in BINDING:
        first = given[0]
        if isinstance(first, Owner):
            first.bind(given[1:])
