"""The engine gives what the plain interpreter gives, for random graphs of actors.

Once the copy alone, over plain dicts, with the records cut into calls of any size; then as a
module on the inline engine, where microbatches fall as they may.
"""

from __future__ import annotations

from collections import defaultdict

import msgspec
import pyarrow as pa
import pytest
from graphs import definitions, events
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from atoll.cluster.local import LocalCluster
from atoll.ddl import parse_ddl
from atoll.runtime.actors.httpbroadcast import HttpBroadcast
from atoll.runtime.actors.interface import Result
from atoll.runtime.actors.stats import Stats
from atoll.runtime.batches import from_batch
from atoll.runtime.definition.read import read_definition
from atoll.runtime.engine import copies
from atoll.runtime.engine.columns import read_columns
from atoll.runtime.engine.copies import CopyRun
from atoll.runtime.engine.intake import INTAKE_DDL, record
from atoll.runtime.engine.memory import FAILURE, Kept, Memory
from atoll.runtime.engine.program import kind_of_instance, program_of
from atoll.runtime.interpreter import Interpreter
from atoll.runtime.service.runtimes import Runtimes

SCHEMA = parse_ddl(INTAKE_DDL)


class Answers(dict):
    """As a stored map has it."""

    def range_keys(self, end):
        """The keys before one."""
        return [key for key in self if key < end]


def empty():
    """The PStates of one copy."""
    states = defaultdict(lambda: defaultdict(dict))
    return states, defaultdict(dict), Answers()


def sizes(count, seed):
    """Cut so many records into calls."""
    at = 0
    while at < count:
        size = (seed + at * 7) % 5 + 1
        yield at, min(at + size, count)
        at += size


def run_copy(program, sent, seed):
    """All that left the copy, and its PStates."""
    stored, left = empty(), []
    records = [
        record("trigger", actor, event, turn=at, at=at) for at, (actor, event) in enumerate(sent)
    ]
    for start, end in sizes(len(records), seed):
        run = CopyRun(program, 1, Memory(*stored))
        run.take(pa.RecordBatch.from_pylist(records[start:end], schema=SCHEMA))
        left += list(run.leave())
    return left, stored


def states_of(program, stored):
    """By actor the state of each instance, groups of one in a dict, as the interpreter has them."""
    found = {}
    for name, actor in program.actors.items():
        kept = stored[0][name]
        kind, params = kind_of_instance(actor), actor.declared.params
        found[name] = [None] * actor.declared.copies
        for instance in range(actor.declared.copies):
            states = {
                key: msgspec.json.decode(data, type=Kept).state
                for key, data in kept[instance].items()
            }
            if not actor.stateful:
                continue
            if actor.declared.group_by is None:
                found[name][instance] = states.get("", kind.initial(params))
            else:
                found[name][instance] = {key[1:]: state for key, state in states.items()}
    return found


def expected(definition, sent):
    """The interpreter's answer."""
    plain = Interpreter(definition)
    for at, (actor, event) in enumerate(sent):
        plain.send(actor, event, at)
    return plain


def started_apart(state):
    """A state without when a window was started, which is no matter here, and empty groups."""
    if isinstance(state, dict):
        return {
            name: started_apart(each)
            for name, each in state.items()
            if name != "since" and each != EMPTY
        }
    return state


EMPTY = {"count": 0, "mean": 0.0, "squares": 0.0, "least": None, "most": None}


def same_states(plain, found):
    """Hold that both keep the same; a group that nothing happened to counts as none."""
    for name, states in found.items():
        for mine, theirs in zip(states, plain.states(name), strict=True):
            assert (started_apart(mine) or None) == (started_apart(theirs) or None), name


@given(definitions(), events(), st.integers(0, 100))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_a_copy_gives_what_the_interpreter_gives(given_definition, made, seed):
    """What is emitted, in which order, what fails, and what is kept; however calls are cut."""
    definition = read_definition(given_definition)
    names = [actor.name for actor in definition.actors]
    sent = [(names[(seed + at) % min(2, len(names))], event) for at, event in enumerate(made)]
    plain = expected(definition, sent)
    program = program_of("r", definition, 1)
    left, stored = run_copy(program, sent, seed)
    emitted = defaultdict(list)
    for row in left:
        if row["kind"] == "outgoing":
            emitted[row["actor"]].append(msgspec.json.decode(row["body"]))
    assert {name: emitted[name] for name in names} == plain.emitted
    failed = {name: stored[1][name].get("failure", 0) for name in names}
    assert failed == {name: len(each) for name, each in plain.failures.items()}
    same_states(plain, states_of(program, stored))


@given(definitions(), events())
@settings(max_examples=4, deadline=None, derandomize=True, phases=[Phase.generate])
def test_a_runtime_on_the_engine_gives_what_the_interpreter_gives(
    tmp_path_factory, given_definition, made
):
    """Through the intake, microbatches and PStates, with a restart in the middle."""
    root = tmp_path_factory.mktemp("root")
    definition = read_definition({**given_definition, "name": "r"})
    first = definition.actors[0].name
    plain = Interpreter(msgspec.structs.replace(definition, name="coral-r"))
    half = len(made) // 2
    for part in (made[:half], made[half:]):
        with LocalCluster(root, engine="inline") as cluster:
            runtimes = Runtimes(cluster)
            runtimes.open()
            runtime = next(iter(runtimes), None) or runtimes.create(given_definition)
            runtime = runtime if runtime.status == "running" else runtimes.start(runtime)
            running = runtimes.running(runtime)
            if part:
                running.send(first, part)
            running.wait_all()
            kept = {name: running.kept(1, name) for name in running.program.actors}
            program, counted = running.program, running.counters()
        for event in part:
            plain.send(first, event)
    stored = {
        name: defaultdict(dict, {at: groups for at, groups in each.items() if at >= 0})
        for name, each in kept.items()
    }
    same_states(plain, states_of(program, (stored,)))
    for name, failures in plain.failures.items():
        counts = counted.get(1, {}).get(name, {})
        assert counts.get("failure", 0) == len(failures)
        assert counts.get("emitted", 0) == len(plain.emitted[name])


@given(definitions(), events(60), st.integers(0, 100))
@settings(max_examples=120, deadline=None, derandomize=True)
def test_columns_give_what_the_interpreter_gives(given_definition, made, seed):
    """The same where stateless actors take all events of a call at once, as Arrow columns."""
    for actor in given_definition["actors"]:
        actor.pop("log")
        if actor["type"] in {"threshold", "filter", "minmax", "sample", "json", "lookup"}:
            actor["copies"] = 1
    definition = read_definition(given_definition)
    first = definition.actors[0].name
    plain = expected(definition, [(first, event) for event in made])
    program = program_of("r", definition, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copies, "ROWS_LEAST", 1)
        _, stored = run_copy(program, [(first, event) for event in made], seed)
    for name in program.actors:
        counts = stored[1][name]
        assert counts.get("failure", 0) == len(plain.failures[name]), name
        assert counts.get("emitted", 0) == len(plain.emitted[name]), name
    same_states(plain, states_of(program, stored))


@pytest.mark.parametrize(
    "made",
    [
        [{"x": 1}, {"x": 1.5}],
        [{"x": 1.0}],
        [{"x": None}, {"x": 1}],
        [{"x": "2020-01-01"}],
        [{"x": "2020-01-01T00:00:00Z"}],
        [{"x": {"y": 1}}],
        [{"x": [1]}],
        [{"x": 1}, {"x": "a"}],
        [{"x": 2**63}],
        [{"x": "null"}],
        [{}],
    ],
)
def test_events_that_columns_could_not_tell_apart_are_taken_one_by_one(made):
    """Kinds of numbers, instants, nulls: what Arrow's reader would make the same."""
    bodies = pa.array([msgspec.json.encode(each).decode() for each in made])
    assert read_columns(bodies) is None


def test_columns_hold_what_the_events_say():
    """A missing field stays missing; texts, numbers and truths are themselves."""
    made = [{"a": 1, "b": "é\n"}, {"a": -5, "c": True}, {"b": "", "d": 0.5}]
    batch = read_columns(pa.array([msgspec.json.encode(each).decode() for each in made]))
    assert from_batch(batch) == made


def test_what_json_cannot_say_fails_the_actor_that_gave_it_and_nothing_else(monkeypatch):
    """A type's defect: an object as state, another in an event; the copy goes on."""
    logged = {"outgoing": True}
    definition = read_definition(
        {
            "name": "r",
            "actors": [
                {"name": "a", "type": "httpbroadcast", "log": logged},
                {"name": "s", "type": "stats", "params": {"field": "x"}},
            ],
            "links": [{"from": "a", "to": "s"}],
        }
    )
    monkeypatch.setattr(Stats, "trigger", lambda *_: Result({"count": object()}))
    monkeypatch.setattr(HttpBroadcast, "trigger", lambda *_: Result(None, ({"x": object()},)))
    program = program_of("r", definition, 1)
    left, stored = run_copy(program, [("a", {"x": 1})], 0)
    assert left == []
    assert stored[1]["a"]["failure"] == stored[1]["s"]["failure"] == 1
    assert "cannot be kept" in stored[0]["s"][FAILURE][""]
    assert "" not in stored[0]["s"][0]


def test_a_group_that_is_taken_over_again_stays_as_it_is():
    """What came since would be lost."""
    sums = {"name": "s", "type": "stats", "params": {"field": "x"}, "group": {"by": "k"}}
    actors = [{"name": "a", "type": "httpbroadcast"}, sums]
    links = [{"from": "a", "to": "s"}]
    definition = read_definition({"name": "r", "actors": actors, "links": links})
    program, stored = program_of("r", definition, 1), empty()
    state = {"count": 5, "mean": 1.0, "squares": 0.0, "least": 1.0, "most": 1.0}
    kept = msgspec.json.encode(Kept(state)).decode()
    take = ("take", "s", {"instance": 0, "groups": {"red": kept}})
    event = ("trigger", "a", {"k": "red", "x": 1})
    made = [record(*each, turn=at, at=at) for at, each in enumerate((take, event, take))]
    for cut in (made[:1], made[1:]):
        run = CopyRun(program, 1, Memory(*stored))
        run.take(pa.RecordBatch.from_pylist(cut, schema=SCHEMA))
        list(run.leave())
    assert states_of(program, stored)["s"][0]["red"]["count"] == 6
