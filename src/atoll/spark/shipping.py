"""Ships a program to Spark's Python workers, which unpack it once and keep it.

User functions travel by value: the workers need not be able to import the module that a user's
file was loaded as.
"""

from __future__ import annotations

import hashlib
import sys
import sysconfig
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from atoll.topology.graph import asked_by

if TYPE_CHECKING:
    from atoll.engine.program import Program
    from atoll.topology.graph import Graph


_PROGRAMS_KEPT = 32


@dataclass(frozen=True)
class Shipped:
    """A pickled program and its digest, under which a worker keeps what it unpacked."""

    digest: str
    data: bytes

    def load(self) -> Program:
        """The program, unpacked at most once per process."""
        return _load(self.digest, self.data)


def ship_function(function: Callable[..., Any]) -> bytes:
    """Pickle one function of the user's by value, to be kept on the root."""
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    by_value = module is not None and not _installed(module)
    return _pickled(function, [module] if module is not None and by_value else [])


def ship(program: Program, graph: Graph) -> Shipped:
    """Pickle a program with the user's functions in it."""
    modules = {module.__name__: module for module in _user_modules(graph)}
    data = _pickled(program, modules.values())
    return Shipped(hashlib.blake2b(data, digest_size=16).hexdigest(), data)


_pickling = threading.Lock()
"""What is pickled by value is said to the whole process, and taken back by whoever said it."""


def _pickled(thing: object, by_value: Iterable[ModuleType]) -> bytes:
    """Pickle it, with what it refers to in some modules."""
    from pyspark import cloudpickle

    with _pickling, ExitStack() as said:
        for module in by_value:
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
            said.callback(cloudpickle.unregister_pickle_by_value, module)
        return cloudpickle.dumps(thing)  # type: ignore[no-any-return, no-untyped-call]


def is_loaded(digest: str) -> bool:
    """Whether this process keeps the program of that digest unpacked."""
    return digest in _loaded


_loaded: OrderedDict[str, Program] = OrderedDict()


def _load(digest: str, data: bytes) -> Program:
    from pyspark import cloudpickle

    if digest not in _loaded:
        _loaded[digest] = cloudpickle.loads(data)
        while len(_loaded) > _PROGRAMS_KEPT:
            _loaded.popitem(last=False)
    return _loaded[digest]


def _user_modules(graph: Graph) -> Iterator[ModuleType]:
    """The modules of the user's functions that a worker may be unable to import."""
    partitioners = [each.partition_by for each in graph.pstates.values() if each.partition_by]
    asked = [
        step
        for query in asked_by(graph.operators, graph.queries).values()
        for step in query.operators
    ]
    steps = (*graph.operators, *asked)
    functions = [each for operator in steps for each in _functions(operator)]
    for function in (*partitioners, *functions):
        module = sys.modules.get(getattr(function, "__module__", None) or "")
        if module is not None and not _installed(module):
            yield module


def _functions(operator: Any) -> Iterator[Any]:
    for value in vars(operator).values():
        if callable(value):
            yield value
        for field in value if isinstance(value, tuple) else ():
            aggregator = getattr(field, "aggregator", None)
            if aggregator is not None:
                yield from (each for each in vars(aggregator).values() if callable(each))


def _installed(module: ModuleType) -> bool:
    """Whether it belongs to Python, to an installed package or to Atoll."""
    name = module.__name__.partition(".")[0]
    file = getattr(module, "__file__", None)
    if name in ("atoll", "__main__") or file is None:
        return True  # the main module is pickled by value anyway
    places = {sysconfig.get_path(each) for each in ("stdlib", "platstdlib", "purelib", "platlib")}
    return any(Path(file).is_relative_to(place) for place in places)
