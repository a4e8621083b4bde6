"""The shape of the source: files and packages stay small, and do not go round in circles."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "atoll"
CIRCLE_MAX = 2
"""A class and its twin."""
SEVERAL_STEPS = {"atoll.steps.exchanges", "atoll.steps.folding", "atoll.steps.rows"}
"""The folders of steps that hold more than one; in ``columns`` one file compiles them all."""
LINES_MAX = 500
FILES_MAX = 15
FILE_PER_TYPE = {"runtime/actors"}
"""Where each file is one of a kind, and its name says which."""


def test_no_file_of_the_source_is_long():
    """What grows beyond this is several things, and is divided by them."""
    lengths = {
        str(file.relative_to(SOURCE)): len(file.read_text(encoding="utf-8").splitlines())
        for file in SOURCE.rglob("*.py")
    }
    assert lengths, "the source was not found"
    assert {name: lines for name, lines in lengths.items() if lines > LINES_MAX} == {}


def test_no_package_has_many_files_side_by_side():
    """What is more than can be looked over at once stands in folders, each of one subject."""
    counts = {
        str(folder.relative_to(SOURCE)): sum(
            file.name != "__init__.py" for file in folder.glob("*.py")
        )
        for folder in SOURCE.rglob("*")
        if folder.is_dir()
    }
    many = {name: count for name, count in counts.items() if count > FILES_MAX}
    assert many.keys() <= FILE_PER_TYPE, many


def test_files_do_not_import_each_other_in_circles():
    """Whoever reads one file needs no others to come back to it, for types least of all.

    A circle is a class and its twin; or it is a step that imports late what binds and runs it,
    all in the step's own folder.
    """
    modules = _modules()
    imported = {name: _imported(name, modules) for name in modules}
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 5 * len(modules)))
    large = [circle for circle in _circles(imported) if len(circle) > CIRCLE_MAX]
    assert [sorted(each) for each in large if not _within_one_step(each)] == []


def _within_one_step(circle: set[str]) -> bool:
    folders = {name.rpartition(".")[0] for name in circle}
    folder = folders.pop()
    return not folders and folder.startswith("atoll.steps.") and folder not in SEVERAL_STEPS


def _modules() -> dict[str, Path]:
    """Every module's file by its name."""
    files = {
        ".".join(("atoll", *file.relative_to(SOURCE).with_suffix("").parts)): file
        for file in SOURCE.rglob("*.py")
    }
    return {name.removesuffix(".__init__"): file for name, file in files.items()}


def _imported(name: str, modules: dict[str, Path]) -> set[str]:
    """What a module imports anywhere, in functions and for type checkers too."""
    found = set()
    for node in ast.walk(ast.parse(modules[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                member = f"{node.module}.{each.name}"
                found.add(member if member in modules else node.module)
    return (found & modules.keys()) - {name}


def _circles(imported: dict[str, set[str]]) -> list[set[str]]:
    """The sets of modules of which each leads to each other, by Tarjan's algorithm."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    waiting: list[str] = []
    circles = []

    def visit(name: str) -> None:
        number[name] = lowest[name] = len(number)
        waiting.append(name)
        for each in imported[name]:
            if each not in number:
                visit(each)
            if each in waiting:
                lowest[name] = min(lowest[name], lowest[each])
        if lowest[name] == number[name]:
            at = waiting.index(name)
            circles.append(set(waiting[at:]))
            del waiting[at:]

    for name in imported:
        if name not in number:
            visit(name)
    return circles
