"""Types of runtime actors alone: events a second in one thread, as Arrow batches and one by one.

Each type that takes batches gets the same events both ways, and has to emit as many. Nothing around
the types is measured: no depot, no microbatch, no JSON.

    python bench/runtime_actors.py --json
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from atoll.runtime.actors.interface import BatchGiven, Given
from atoll.runtime.actors.registry import actor_types
from atoll.runtime.definition.reading import read

ONE_BY_ONE = 50_000
ROUNDS = 5
CITIES = [f"city{number}" for number in range(1_000)]
TABLE = {city: {"country": "nl", "number": at} for at, city in enumerate(CITIES)}
PARAMS: dict[str, dict[str, Any]] = {
    "filter": {
        "filters": [
            {"type": "startswith", "function": "include", "field": "city", "param": "city1"}
        ]
    },
    "fsm": {"key": "city", "table": {"a": {"city1": "b"}, "b": {"city2": "a"}}, "s0": "a"},
    "function": {"function": "amount > 100 && age < 50", "outputfield": "young"},
    "httpbroadcast": {},
    "json": {"template": {"a": "${amount}", "b": {"c": "${city}"}, "kind": "order"}},
    "linearregression": {"intercept": 1, "weights": {"amount": 0.5, "age": 0.1}},
    "lookup": {"key": "city", "function": "enrich", "lookup": TABLE},
    "minmax": {"field": "amount", "min": 90, "max": 110},
    "sample": {"fraction": 0.5},
    "stats": {"field": "amount"},
    "tabulate": {"dimensions": ["city"], "value": "amount", "functions": ["count", "sum"]},
    "threshold": {"key": "amount", "threshold": 100},
    "window": {"method": "count", "number": 100},
}


def events(count: int) -> pa.RecordBatch:
    """Random amounts, ages and cities."""
    generator = np.random.default_rng(7)
    cities = pa.array(CITIES).take(pa.array(generator.integers(0, len(CITIES), count)))
    return pa.RecordBatch.from_arrays(
        [
            pa.array(generator.normal(100, 10, count)),
            pa.array(generator.integers(0, 100, count)),
            cities,
        ],
        names=["amount", "age", "city"],
    )


def best(run: Callable[[], Any]) -> float:
    """The seconds of the best round: others are the machine's other work."""
    seconds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def measure(name: str, batch: pa.RecordBatch) -> dict[str, Any]:
    """Events a second of one type, both ways."""
    kind = actor_types()[name]
    params, problems = read(PARAMS[name], kind.params, "invalid-actor")
    assert not problems, problems
    rows = batch.slice(0, ONE_BY_ONE).to_pylist()
    numbers = np.arange(batch.num_rows)

    def one_by_one() -> int:
        state = kind.initial(params)
        emitted = 0
        for number, event in enumerate(rows):
            result = kind.trigger(params, state, event, Given("bench", number))
            state = result.state
            emitted += len(result.emitted)
        return emitted

    found = kind.batch(params, batch.slice(0, len(rows)), BatchGiven("bench", numbers[: len(rows)]))
    assert found is None or len(found.rows) == one_by_one(), name
    result = {"type": name, "trigger_events_per_second": round(len(rows) / best(one_by_one))}
    if found is not None:
        seconds = best(lambda: kind.batch(params, batch, BatchGiven("bench", numbers)))
        result["batch_events_per_second"] = round(batch.num_rows / seconds)
    if kind.mergeable:
        result["snapshot_events_per_second"] = round(
            len(rows) / best(lambda: kind.snapshot(params, rows))
        )
    return result


def main() -> None:
    """Measure every type and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200_000, help="in a batch")
    parser.add_argument("--json", action="store_true", help="a line of JSON per type")
    arguments = parser.parse_args()
    batch = events(arguments.events)
    for name in PARAMS:
        result = measure(name, batch)
        if arguments.json:
            print(json.dumps(result))
            continue
        figures = (
            f"{way.split('_')[0]} {value / 1e6:.2f} M/s"
            for way, value in result.items()
            if way != "type"
        )
        print(f"{name:17s} {', '.join(figures)}")


if __name__ == "__main__":
    main()
