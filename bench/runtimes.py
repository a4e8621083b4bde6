"""What runtimes do per second, what a snapshot costs, and how long a shunt takes.

    python bench/runtimes.py [--engine spark|inline] [--events N]

Throughput: the events lie in the intake already; the time is from letting the topology go on
until all are committed. ``columns`` is a threshold and a lookup, which take all events at once;
``formula`` a threshold and a formula, which takes one by one; ``stateful`` besides the first
statistics grouped by a key of which there are a thousand. The first two keep no state. Beside the
rate stands the processor time of an event, and how much of it is in the busiest process: a machine
with a core for each process cannot do more than a second divided by that, and it stays the same
while others use the machine. A snapshot is timed from the event that fills its
window until all instances show it. Each figure is the median of its repetitions.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from typing import Any

import msgspec
import pyarrow as pa

from atoll.cluster.local import LocalCluster
from atoll.ddl import parse_ddl
from atoll.runtime.engine.compile import INTAKE, TOPOLOGY
from atoll.runtime.engine.intake import INTAKE_DDL, key_vnode
from atoll.runtime.service.runtimes import Runtimes
from atoll.runtime.service.showing import actor_stats
from cpu import cpu_by_process

CITIES = ("amsterdam", "ghent", "paris")
CUSTOMERS = 1_000


KINDS = ("columns", "formula", "stateful")


def pipeline(name: str, copies: int, kind: str) -> dict[str, Any]:
    """A threshold and a lookup or a formula, and statistics by customer."""
    table = {"amsterdam": {"country": "nl"}, "ghent": {"country": "be"}}
    actors = [
        {"name": "in", "type": "threshold", "params": {"key": "amount", "threshold": 20}},
        {
            "name": "where",
            "type": "lookup",
            "params": {"key": "city", "function": "enrich", "lookup": table},
        },
    ]
    links = [{"from": "in", "to": "where"}]
    stateful = kind == "stateful"
    if kind == "formula":
        formula = "amount * 1.21 + 5 > 50 && city != 'paris'"
        params = {"function": formula, "outputfield": "large"}
        actors[1] = {"name": "where", "type": "function", "params": params}
    if stateful:
        group = {"by": "customer"}
        actors.append(
            {"name": "sum", "type": "stats", "params": {"field": "amount"}, "group": group}
        )
        links.append({"from": "where", "to": "sum"})
    distribution = {"copies": copies, **({"by": "customer"} if stateful else {})}
    return {"name": name, "actors": actors, "links": links, "distribution": distribution}


def intake(count: int, *, keyed: bool) -> pa.Table:
    """So many records of the intake, as a table."""
    chance = random.Random(1)
    vnodes = [key_vnode(f"c{at}") for at in range(CUSTOMERS)]
    customers = [chance.randrange(CUSTOMERS) for _ in range(count)]
    bodies = [
        msgspec.json.encode(
            {"amount": chance.randrange(100), "city": chance.choice(CITIES), "customer": f"c{who}"}
        ).decode()
        for who in customers
    ]
    now = time.time_ns() // 1_000_000
    return pa.table(
        {
            "kind": ["trigger"] * count,
            "actor": ["in"] * count,
            "copy": pa.nulls(count, pa.int32()),
            "vnode": pa.array(
                [vnodes[who] for who in customers] if keyed else [None] * count, pa.int32()
            ),
            "turn": range(count),
            "at": [now] * count,
            "id": [""] * count,
            "body": bodies,
        },
        schema=parse_ddl(INTAKE_DDL),
    )


def throughput(
    runtimes: Runtimes, copies: int, events: int, repetitions: int, kind: str
) -> tuple[float, float, float]:
    """Events per second; processor time of an event in all and in the busiest process, in µs."""
    runtime = runtimes.start(runtimes.create(pipeline(f"{kind}{copies}x", copies, kind)))
    running = runtimes.running(runtime)
    topology = running.app.topology(TOPOLOGY)
    table = intake(events, keyed=kind == "stateful")
    found = []
    for _ in range(repetitions + 1):
        topology.pause()
        running.app.depot(INTAKE).append(table)
        before, begun = cpu_by_process(), time.perf_counter()
        topology.resume()
        running.wait_all(600)
        rate = events / (time.perf_counter() - begun)
        used = [each - before.get(pid, 0.0) for pid, each in cpu_by_process().items()]
        found.append((rate, sum(used) / events * 1e6, max(used) / events * 1e6))
    runtimes.delete(runtime)
    rate, used_in_all, busiest = (statistics.median(each) for each in zip(*found[1:], strict=True))
    return rate, used_in_all, busiest


def snapshot(runtimes: Runtimes, copies: int, instances: int, events: int) -> float:
    """Seconds from the last event of a window until all instances show it."""
    meter = {
        "name": "meter",
        "type": "stats",
        "params": {"field": "v"},
        "copies": instances,
        "log": {"incoming": True},
        "state": {"calc-local": False, "spark-batch": {"update": {"event-count": events}}},
    }
    definition = {
        "name": f"snap{copies}x{instances}x",
        "actors": [{"name": "in", "type": "httpbroadcast"}, meter],
        "links": [{"from": "in", "to": "meter"}],
        "distribution": {"copies": copies},
    }
    runtime = runtimes.start(runtimes.create(definition))
    running = runtimes.running(runtime)
    took = []
    for number in range(1, 5):
        running.send("in", [{"v": at} for at in range(events - 1)])
        running.wait_all()
        begun = time.perf_counter()
        running.send("in", [{"v": 0}])
        while any(each["snapshot"] < number for each in actor_stats(running, "meter")["instances"]):
            time.sleep(0.001)
        took.append(time.perf_counter() - begun)
    runtimes.delete(runtime)
    return statistics.median(took[1:])


def shunts(runtimes: Runtimes, count: int) -> tuple[float, float]:
    """The median and the 99th percentile of a shunt, in milliseconds."""
    runtime = runtimes.start(runtimes.create(pipeline("shunt", 2, "stateful")))
    running = runtimes.running(runtime)
    took = []
    for number in range(count + 20):
        begun = time.perf_counter()
        running.shunt("in", {"amount": number, "customer": f"c{number}"})
        took.append((time.perf_counter() - begun) * 1_000)
    runtimes.delete(runtime)
    took = sorted(took[20:])
    return took[len(took) // 2], took[int(len(took) * 0.99)]


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", default="spark", choices=["spark", "inline"])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--shunts", type=int, default=500)
    wanted = parser.parse_args()
    with LocalCluster(engine=wanted.engine) as cluster:
        runtimes = Runtimes(cluster)
        runtimes.open()
        for kind in KINDS:
            for copies in (1, 2, 4):
                events = wanted.events // (1 if kind == "columns" else 5)
                found = throughput(runtimes, copies, events, wanted.repetitions, kind)
                told = (
                    "{:12,.0f} events/s  {:6.2f} µs of processor an event, {:6.2f} in the busiest"
                )
                print(f"{kind:9}  copies {copies}  {told.format(*found)}", flush=True)
        for copies, instances in ((1, 1), (2, 5), (5, 5)):
            seconds = snapshot(runtimes, copies, instances, 10_000)
            print(
                f"snapshot   instances {copies * instances:2}  {seconds * 1000:8.0f} ms", flush=True
            )
        median, worst = shunts(runtimes, wanted.shunts)
        print(f"shunt      p50 {median:.1f} ms  p99 {worst:.1f} ms", flush=True)
        runtimes.close()


if __name__ == "__main__":
    main()
