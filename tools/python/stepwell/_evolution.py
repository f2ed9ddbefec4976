"""A search of architectures whose candidates the program trains."""
from . import _header
from ._calls import Function
from ._owners import get, make

NONE = 2 ** 32 - 1


class Evolution:
    """Evolution(exec, train=..., validation=..., trainings=20, ...): the members of sw_evolution_opts, of which the data say shapes and classes
    alone. ask() is an sw_evolution_job, whose price says the predicted bytes, or None: tell first; with nothing to tell the search has ended."""

    def __init__(self, exec, **opts):
        self.owner = make(Function("sw_evolution_create"), exec, _header.sw_evolution_opts(**opts))

    def ask(self):
        job = get(Function("sw_evolution_ask"), self.owner)
        return None if job.candidate == NONE else job

    def tell(self, job, fitness):
        """Its fitness, higher is better; NaN: it is invalid. The order of jobs is free."""
        Function("sw_evolution_tell")(self.owner, job.candidate, fitness)

    @property
    def best(self):
        """The answer so far, an sw_candidate."""
        return get(Function("sw_evolution_best"), self.owner)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return self.owner.__exit__(*error)
