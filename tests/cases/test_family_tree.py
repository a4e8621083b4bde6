"""Ancestors and descendants, as plain Python finds them; the module is at most forty lines."""

from __future__ import annotations

import ast
import random
import runpy
from pathlib import Path

import pytest

from atoll.testing import TopologyTestDriver

FILE = Path(__file__).parents[2] / "examples" / "family_tree.py"


def reached(near, begin, generations):
    """By breadth: whom one reaches, and how far away."""
    found, edge = {}, {begin}
    for at in range(1, generations + 1):
        edge = {other for one in edge for other in near.get(one, ())}
        for each in edge:
            found.setdefault(each, at)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_it_finds_whom_plain_python_finds(seed):
    """In random families, in which cousins marry; of persons who are not there, too."""
    choice = random.Random(seed)
    example = runpy.run_path(str(FILE))
    made = [
        example["Person"](f"p{n}", f"N{n}", [f"p{choice.randrange(n)}" for _ in range(min(n, 2))])
        for n in range(12)
    ]
    up = {each.id: set(each.parents) for each in made}
    down = {one: {each.id for each in made if one in each.parents} for one in up}
    with TopologyTestDriver(example["module"], engine="inline") as driver:
        choice.shuffle(made)
        driver.app.wait(driver.depot("people").append(made))
        assert driver.pstate(example["persons"]).get("p3") == next(p for p in made if p.id == "p3")
        for name, near in (("ancestors", up), ("descendants", down)):
            for begin in ("p0", "p6", "p11", "nobody"):
                for generations in (0, 1, 2, 12):
                    asked = driver.app.query(name, id=begin, generations=generations)
                    found = {each["of"]: each["at"] for each in asked}
                    assert found == reached(near, begin, generations), (name, begin, generations)


def test_it_is_short():
    """Without empty lines and documentation."""
    tree = ast.parse(FILE.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            del node.body[0]
    assert len([line for line in ast.unparse(tree).splitlines() if line.strip()]) <= 40
