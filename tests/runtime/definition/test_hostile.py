"""Holds that a definition from anybody is answered with problems, whatever it is, and runs nothing.

Two hundred by hand, each with all that is wrong told; and thousands by chance.
"""

from __future__ import annotations

import copy
import json
import random
import time

import msgspec
import pytest
from hostile import HOSTILE, RIGHT, changed, mutated
from random_runtimes import random_definition

from atoll.errors import DefinitionError
from atoll.runtime.definition.kinds import KINDS
from atoll.runtime.definition.read import check_definition, parse_definition


def test_the_table_begins_with_a_right_definition():
    """What is changed is right, and there are enough changes."""
    assert check_definition(RIGHT)[1] == []
    assert len(HOSTILE) >= 200


@pytest.mark.parametrize("at", range(len(HOSTILE)))
def test_a_hostile_definition_is_refused(at):
    """Every problem is told, each with its place and what to do, soon and in plain words."""
    changes, kinds = HOSTILE[at]
    data = changed(*changes)
    started = time.perf_counter()
    definition, problems = check_definition(data)
    assert time.perf_counter() - started < 2
    assert definition is None
    assert {each.kind for each in problems} == set(kinds.split())
    _check_problems(problems)


def _check_problems(problems):
    assert problems
    for each in problems:
        assert each.kind in KINDS
        assert each.path == "" or each.path.startswith("/")
        assert each.what
        assert each.hint
        assert len(each.what) < 2_000
        assert "\n" not in each.what
        assert each.what.isprintable()
    json.dumps(msgspec.to_builtins(problems)).encode()


@pytest.mark.parametrize("seed", range(20))
def test_mutations_are_answered(seed):
    """Four thousand of them: each is right or is told, and nothing else is raised ever."""
    chance = random.Random(f"mutations {seed}")
    seeds = [RIGHT, *(random_definition(chance.randrange(1_000), copies=3) for _ in range(4))]
    refused = 0
    for _ in range(200):
        definition, problems = check_definition(mutated(chance.choice(seeds), chance))
        if definition is None:
            refused += 1
            _check_problems(problems)
        else:
            assert problems == []
    assert refused > 100


@pytest.mark.parametrize("seed", range(10))
def test_broken_texts_are_answered(seed):
    """Texts with bytes changed, cut or doubled: the one error of a definition, or none."""
    chance = random.Random(f"texts {seed}")
    text = json.dumps(RIGHT).encode()
    errors = []
    for _ in range(100):
        broken = bytearray(text)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(broken))
            way = chance.randrange(3)
            if way == 0:
                broken[at] = chance.randrange(256)
            elif way == 1:
                del broken[at : at + chance.randrange(1, 30)]
            else:
                broken[at:at] = broken[at : at + chance.randrange(1, 30)]
        try:
            parse_definition(bytes(broken))
        except DefinitionError as error:
            errors.append(error)
    assert all(error.context["problems"] for error in errors)
    assert len(errors) > 50


def test_nothing_of_a_definition_is_run(tmp_path):
    """A canary in every text of a definition is never made."""
    canary = tmp_path / "canary"
    code = f"__import__('pathlib').Path({str(canary)!r}).touch()"

    def poisoned(value):
        if isinstance(value, str):
            return code
        if isinstance(value, dict):
            return {name: poisoned(each) for name, each in value.items()}
        return [poisoned(each) for each in value] if isinstance(value, list) else value

    for path in ("", "/actors/1", "/actors/3", "/links"):
        data = copy.deepcopy(RIGHT)
        if not path:
            data = poisoned(data)
        else:
            parts = path.split("/")[1:]
            place = data[parts[0]]
            if len(parts) == 1:
                data[parts[0]] = poisoned(place)
            else:
                place[int(parts[1])] = poisoned(place[int(parts[1])])
        check_definition(data)
    for value in (f"${{{code}}}", code):
        check_definition(
            changed(
                (
                    "/actors/5",
                    {
                        "name": "f",
                        "type": "function",
                        "params": {"function": value, "outputfield": value},
                    },
                )
            )
        )
    assert not canary.exists()
