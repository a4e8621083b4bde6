"""The shape of the source: files stay small enough to be read at one sitting."""

from __future__ import annotations

from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "atoll"
LINES_MAX = 500


def test_no_file_of_the_source_is_long():
    """What grows beyond this is several things, and is divided by them."""
    lengths = {
        str(file.relative_to(SOURCE)): len(file.read_text(encoding="utf-8").splitlines())
        for file in SOURCE.rglob("*.py")
    }
    assert lengths, "the source was not found"
    assert {name: lines for name, lines in lengths.items() if lines > LINES_MAX} == {}
