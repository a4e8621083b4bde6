"""What goes by the clock on the engine: generators, windows of time, collect-local by duration."""

from __future__ import annotations

from waiting import until

from atoll.cluster.local import LocalCluster
from atoll.runtime.service.runtimes import Runtimes
from atoll.runtime.service.showing import actor_stats


def generator(rate, **timer):
    """Ones, so many a second."""
    params = {"format": {"v": 1}, "timer": {"rate": rate, **timer}}
    return {"name": "gen", "type": "generator", "params": params}


def behind(first, *others):
    """Actors that all hear of the first."""
    links = [{"from": first["name"], "to": each["name"]} for each in others]
    return {"name": "r", "actors": [first, *others], "links": links}


def total(runtimes, runtime, name="sum"):
    """How many numbers the statistics have."""
    return actor_stats(runtimes.running(runtime), name)["state"]["count"]


def test_a_generator_rests_with_its_runtime_and_goes_on_counting(runtimes):
    """All that it made was processed before it rests; the next start goes on from there."""
    stats = {"name": "sum", "type": "stats", "params": {"field": "v"}}
    runtime = runtimes.start(runtimes.create(behind(generator(50), stats)))
    until(lambda: total(runtimes, runtime) >= 5)
    runtime = runtimes.stop(runtime)
    made = total(runtimes, runtime)
    assert runtimes.running(runtime).counters()[1]["gen"]["emitted"] == made
    state = runtimes.running(runtime).app.status()["topologies"]["run"]["state"]
    assert state == "paused"
    runtime = runtimes.start(runtime)
    until(lambda: total(runtimes, runtime) >= made + 5)
    state = actor_stats(runtimes.running(runtime), "gen")["state"]
    assert state["count"] >= made + 5


def test_a_process_that_is_killed_makes_no_event_twice(tmp_path):
    """Of a hundred events each is there once, whenever the process was ended."""
    stats = {"name": "sum", "type": "stats", "params": {"field": "v"}}
    cluster = LocalCluster(tmp_path, engine="inline")
    runtimes = Runtimes(cluster)
    runtimes.open()
    runtime = runtimes.start(runtimes.create(behind(generator(200, times=100), stats)))
    until(lambda: total(runtimes, runtime) >= 10)
    cluster.kill()
    runtimes.close()
    with LocalCluster(tmp_path, engine="inline") as cluster:
        runtimes = Runtimes(cluster)
        runtimes.open()
        until(lambda: total(runtimes, runtime) >= 100)
        runtimes.stop(runtime)
        assert total(runtimes, runtime) == 100
        runtimes.close()


def test_a_window_of_time_ends_without_another_event(runtimes):
    """The timer makes a microbatch of its own; what the window holds goes on."""
    window = {
        "name": "win",
        "type": "window",
        "params": {"method": "time", "number": 300, "sliding": 300},
    }
    entry = {"name": "in", "type": "httpbroadcast"}
    stats = {"name": "next", "type": "json", "params": {"template": {"n": "${data[0].v}"}}}
    definition = behind(entry, window)
    definition["actors"].append(stats)
    definition["links"].append({"from": "win", "to": "next"})
    runtime = runtimes.start(runtimes.create(definition))
    runtimes.running(runtime).send("in", [{"v": 1}, {"v": 2}])
    until(
        lambda: runtimes.running(runtime).counters().get(1, {}).get("next", {}).get("emitted") == 1
    )


def test_collect_local_by_duration_computes_and_clears(runtimes):
    """Of what came since; and of nothing when nothing came."""
    state = {"calc-local": False, "collect-local": {"update": {"duration": {"seconds": 0.3}}}}
    stats = {"name": "sum", "type": "stats", "params": {"field": "v"}, "state": state}
    entry = {"name": "in", "type": "httpbroadcast"}
    runtime = runtimes.start(runtimes.create(behind(entry, stats)))
    runtimes.running(runtime).send("in", [{"v": 1}, {"v": 2}, {"v": 3}])
    until(lambda: total(runtimes, runtime) == 3)
    until(lambda: total(runtimes, runtime) == 0)
