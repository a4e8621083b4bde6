"""What a row costs in `process`: the handles over a session in memory, without Spark and disk.

    python bench/process_step.py [--rows 100000] [--repeat 7]

Prints the processor's nanoseconds per row, the median of the repetitions, for states of several
kinds. Run it on two versions of the source, in turn, to compare them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from atoll.pstate.handles import handle_for
from atoll.pstate.spec import pstate_spec
from atoll.schema import List, Map, Struct, as_node

KEYS = 500


class Declared:
    """A declaration."""

    def __init__(self, node: Any) -> None:
        """Of one vnode."""
        self.module, self.topology, self.name = "bench", "mb", "state"
        self.node = as_node(node)
        self.vnode_count, self.is_global, self.initial = 1, True, None


class Memory:
    """A session over a dict."""

    def __init__(self) -> None:
        """Begin empty."""
        self.entries: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""
        return self.entries.get(key)

    def put_many(self, keys: list[bytes], values: list[bytes | None]) -> None:
        """Set or remove."""
        for key, value in zip(keys, values, strict=True):
            if value is None:
                self.entries.pop(key, None)
            else:
                self.entries[key] = value

    def scan(self, *bounds: Any, reverse: bool = False) -> Any:
        """Entries of a range."""
        low, high = bounds
        return iter(
            (key, self.entries[key])
            for key in sorted(self.entries, reverse=reverse)
            if (low is None or key >= low) and (high is None or key < high)
        )


def count(row: int, state: Any) -> None:
    """A scalar, read and written."""
    key = row % KEYS
    state[key] = state.get(key, 0) + 1


def nested(row: int, state: Any) -> None:
    """A scalar in a map in a map."""
    inner = state[row % KEYS]
    inner["a"] = inner.get("a", 0) + 1


def put_struct(row: int, state: Any) -> None:
    """A new struct for each row."""
    state[row % KEYS] = {"to": row, "amount": row, "ok": True}


def change_struct(row: int, state: Any) -> None:
    """A struct, read, changed and put back."""
    key = row % KEYS
    value = state.get(key) or {"to": 0, "amount": 0, "ok": True}
    value["amount"] += 1
    state[key] = value


def look_at_list(row: int, state: Any) -> None:
    """A list of 100 numbers, only read."""
    key = row % KEYS
    if key not in state:
        state[key] = list(range(100))
    sum(state[key])


def look_at_structs(row: int, state: Any) -> None:
    """A list of ten structs, only read."""
    key = row % KEYS
    if key not in state:
        state[key] = [{"a": n, "b": 0.5} for n in range(10)]
    len(state[key])


CASES: dict[str, tuple[Any, Callable[[int, Any], None]]] = {
    "scalar read and written": (Map(int, int), count),
    "scalar in a nested map": (Map(int, Map(str, int)), nested),
    "struct put in": (Map(int, Struct(to=int, amount=int, ok=bool)), put_struct),
    "struct changed and put back": (Map(int, Struct(to=int, amount=int, ok=bool)), change_struct),
    "list of 100 ints read": (Map(int, List(int)), look_at_list),
    "list of 10 structs read": (Map(int, List(Struct(a=int, b=float))), look_at_structs),
}


def run(node: Any, function: Callable[[int, Any], None], rows: int) -> float:
    """Nanoseconds per row."""
    handle: Any = handle_for(pstate_spec(Declared(node)), Memory(), 0)
    end_call = getattr(handle, "end_call", lambda: None)
    begin = time.process_time_ns()
    for row in range(rows):
        function(row, handle)
        end_call()
    handle.flush()
    return (time.process_time_ns() - begin) / rows


def main() -> None:
    """Run the cases in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args()
    times: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(options.repeat):
        for name, (node, function) in CASES.items():
            times[name].append(run(node, function, options.rows))
    print(json.dumps({name: round(statistics.median(each)) for name, each in times.items()}))


if __name__ == "__main__":
    main()
