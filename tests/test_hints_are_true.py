"""What hints and messages name is there: methods, keywords, options, commands, no private names.

Reads the texts out of the source, where each error is made, and looks every name up.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

import atoll
from atoll import agg, path, secret, start
from atoll.cli.app import app as cli
from atoll.cluster.app import App
from atoll.cluster.options import ModuleOptions
from atoll.cluster.topologies import RunningTopology
from atoll.depot.depot import Depot
from atoll.depot.tail import Tail, TailBatch
from atoll.microbatch.control.tuning import levels_of
from atoll.module import Microbatch, Module
from atoll.path import Path as StatePath
from atoll.pstate import handles
from atoll.sources import Files, Postgres
from atoll.steps.process.timers import Timers
from atoll.stream.interim import Aggregated, Grouped, Sessions, Windowed
from atoll.stream.stream import Stream
from atoll.testing import TopologyTestDriver
from atoll.topology.declared import DepotDeclaration, PStateDeclaration
from atoll.views.readable import ReadablePState
from atoll.views.subscription import Subscription

SOURCE = Path(atoll.__file__).parent
FACES = [
    *(Module, Microbatch, Stream, Grouped, Aggregated, Windowed, Sessions, Timers),
    *(DepotDeclaration, PStateDeclaration, App, Depot, ReadablePState, RunningTopology),
    *(ModuleOptions, Subscription, TopologyTestDriver, atoll.LocalCluster, StatePath),
    *(Tail, TailBatch, Files, Postgres),
]
"""The classes whose methods users call."""
PLACES = [agg, path, secret, start, atoll]

SPARK_SQL = {"count", "sum", "collect_set", "struct", "split", "upper", "cast", "CAST"}
PYTHON = {"len", "datetime", "str", "dict", "print", "option", "function", "f", "on_timer"}
OTHERS = {"pyarrow.ipc.new_stream", "parse_ddl", "filter"}


def texts() -> Iterator[tuple[str, str]]:
    """Where an error is made, and each text in it; what is filled in reads ``{}``."""
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func).rpartition(".")[2]
            hints = [each.value for each in node.keywords if each.arg == "hint"]
            if called.endswith(("Error", "refusal", "_misfit", "Instead")):
                hints += node.args
            for each in hints:
                yield from _texts_in(each, f"{file.relative_to(SOURCE)}:{node.lineno}")


def _texts_in(node: ast.expr, where: str) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Constant(value=str(text)):
            yield where, text
        case ast.JoinedStr(values=parts):
            yield where, "".join(p.value if isinstance(p, ast.Constant) else "{}" for p in parts)
        case ast.BinOp(left=left, right=right):
            yield from _texts_in(left, where)
            yield from _texts_in(right, where)
        case ast.IfExp(body=body, orelse=orelse):
            yield from _texts_in(body, where)
            yield from _texts_in(orelse, where)


TEXTS = sorted(set(texts()))


def _names_of_methods() -> set[str]:
    found = {name for face in FACES for name in dir(face) if not name.startswith("_")}
    found |= {name for place in PLACES for name in dir(place) if not name.startswith("_")}
    for each in vars(handles).values():
        if inspect.isclass(each):
            found |= {name for name in dir(each) if not name.startswith("_")}
    return found


def _names_of_keywords() -> set[str]:
    found: set[str] = set()
    functions = [
        vars(place).get(name) or getattr(place, name) for place in PLACES for name in dir(place)
    ]
    functions += [getattr(face, name) for face in FACES for name in dir(face)]
    functions += list(FACES)
    for each in functions:
        if callable(each):
            try:
                found |= set(inspect.signature(each).parameters)
            except (TypeError, ValueError):
                continue
    return found


def test_the_texts_are_found():
    """The source has hundreds of them; a change of how errors are made must not lose them."""
    assert len(TEXTS) > 600


@pytest.mark.parametrize("kind", ["agg", "path", "start"])
def test_what_is_named_of_a_place_is_there(kind):
    """``agg.sum``, ``path.key``, ``start.beginning``."""
    place = {"agg": agg, "path": path, "start": start}[kind]
    wrong = [
        (where, name)
        for where, text in TEXTS
        for name in re.findall(rf"(?<![\w.]){kind}\.([A-Za-z_]\w*)", text)
        if not hasattr(place, name)
    ]
    assert not wrong


def test_what_is_called_is_there():
    """A word with a parenthesis is a method, a function or a type that users can call."""
    known = _names_of_methods() | SPARK_SQL | PYTHON | OTHERS
    wrong = [
        (where, name)
        for where, text in TEXTS
        for name in re.findall(r"(?<![\w{}\"'])([a-z_]\w*)\((?!s\))", text)
        if name not in known
    ]
    assert not wrong


def test_keywords_are_parameters():
    """``emits=``, ``on_timer=``: of something that users call."""
    known = _names_of_keywords() | {
        "x",
        "n",
        "v",
        "id",
        "total",
        "added",
        "deleted",
        "found",
        "at",
        "mean",
    }
    known.add("tzinfo")  # of datetime
    wrong = [
        (where, name)
        for where, text in TEXTS
        if not where.startswith(("server/", "cli/"))
        for name in re.findall(r"(?<![\w.{}-])([a-z_]\w*)=(?![=\w]*\{\})", text)
        if name not in known
    ]
    assert not wrong


def test_options_are_there():
    """Options by their dotted names."""
    wrong = [
        (where, name)
        for where, text in TEXTS
        for name in re.findall(r"\b((?:topology|depot|pstate)(?:\.[a-z]+){2,})", text)
        if not levels_of(name)
    ]
    assert not wrong


def _commands() -> dict[str, set[str]]:
    group = typer.main.get_command(cli)
    return {name: _flags(command) for name, command in group.commands.items()}


def _flags(command) -> set[str]:
    """The options of a command; of a group, those of all that it holds."""
    below = getattr(command, "commands", {}).values()
    own = {flag for parameter in command.params for flag in parameter.opts}
    return own.union(*(_flags(each) for each in below))


_COMMAND = re.compile(r"\batoll ([a-z]+)((?: [A-Z.:a-z{}/]*[A-Z.{}/-][^;,]*)?)")


def test_commands_and_their_options_are_there():
    """``atoll run FILE.py:module --root ROOT``: the command, and each of its options."""
    commands = _commands()
    wrong = []
    for where, text in TEXTS:
        for name, rest in _COMMAND.findall(text):
            unknown = set(re.findall(r"--[a-z-]+", rest)) - commands.get(name, set())
            if (name not in commands and name != "needs") or unknown:
                wrong.append((where, name, unknown))
    assert not wrong


def test_flags_are_there():
    """``--plan`` in a command's own file is one of that command's; elsewhere of some command's."""
    commands = _commands()
    every = set().union(*commands.values())
    wrong = []
    for where, text in TEXTS:
        own = commands.get(Path(where.split(":")[0]).stem) if "cli/commands/" in where else None
        wrong += [
            (where, flag)
            for flag in re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", text)
            if flag not in (own or every)
        ]
    assert not wrong


_PRIVATE = re.compile(r"(?<![\w{}.])(_[a-z]\w+|Scalar\b|Bound\w+\b|\w+Declaration\b)")


def test_no_private_name_is_told():
    """Neither an underscore's name nor a class of Atoll's inside."""
    wrong = [(where, name) for where, text in TEXTS for name in _PRIVATE.findall(text)]
    assert not wrong


def test_environment_variables_are_read():
    """``ATOLL_URL``: somewhere else in the source."""
    named = {
        (where, name) for where, text in TEXTS for name in re.findall(r"\b(ATOLL_[A-Z_]+)\b", text)
    }
    source = "".join(file.read_text() for file in SOURCE.rglob("*.py"))
    assert {name for _, name in named if source.count(f'"{name}"') < 1} == set()
