"""The shape of the source: files and packages stay small enough to be taken in at once."""

from __future__ import annotations

from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "atoll"
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
