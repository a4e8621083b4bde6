"""Holds that the page of systems is true of this repository: what it names is there."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "systems.md").read_text(encoding="utf-8")
STATES = ("holds", "differs", "absent")


def rows():
    """(id, what it does, where, held by, state and reason) of every row."""
    found = []
    for line in PAGE.splitlines():
        if re.match(r"\| [A-Z]\d+ \|", line):
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            assert len(cells) == 5, line
            found.append(tuple(cell.strip() for cell in cells))
    return found


@functools.cache
def names_in(file):
    """The functions of a test file."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}


def test_rows_are_numbered_in_order_and_say_one_of_three_things():
    """What does not hold has a reason; what holds has a test, and the table counts them."""
    numbers = [re.fullmatch(r"([A-Z])(\d+)", row[0]).groups() for row in rows()]
    letters = list(dict.fromkeys(letter for letter, _ in numbers))
    assert letters == ["R", "W", "O", "C"]
    for letter in letters:
        own = [int(number) for each, number in numbers if each == letter]
        assert own == sorted(set(own)), letter
    for number, what, _, tests, state in rows():
        told = re.match(r"\*\*(\w+)\*\*", state)
        assert told, number
        assert told[1] in STATES, number
        assert what, number
        assert tests or told[1] != "holds", f"{number} holds, and no test holds it"
        reason = state.removeprefix(told[0]).strip(" .;,:")
        assert reason or told[1] == "holds", f"{number} gives no reason"


def test_the_counts_are_those_of_the_rows():
    """The table at the beginning, system by system."""
    said = re.findall(r"^\| \[[^|]*\| (\d+) \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    counted = [
        tuple(
            str(sum(row[0][0] == letter and row[4].startswith(f"**{state}**") for row in rows()))
            for state in STATES
        )
        for letter in "RWOC"
    ]
    assert said == counted


@pytest.mark.parametrize("letter", ["R", "W", "O", "C"])
def test_tests_and_sources_that_rows_name_are_there(letter):
    """By file and by name, as they are called."""
    for number, _, where, tests, _ in rows():
        if number[0] != letter:
            continue
        for test in re.findall(r"`([^`]+)`", tests):
            file, _, name = test.partition("::")
            assert (ROOT / file).is_file(), f"{number}: {file}"
            assert name in names_in(file), f"{number}: {test}"
        for source in re.findall(r"`([^`]+)`", where):
            assert (ROOT / "src" / "atoll" / source).is_file(), f"{number}: {source}"
