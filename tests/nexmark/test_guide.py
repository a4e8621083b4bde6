"""The guide shows the queries as they are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "nexmark.md"
FILES = sorted((ROOT / "bench" / "nexmark" / "queries").glob("*.py"))


def test_shown_code_is_that_of_the_files():
    """Each block that only shows something is, word for word, a part of a query's file."""
    shown = re.findall(r"```python fragment\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    files = [path.read_text(encoding="utf-8") for path in FILES]
    assert len(shown) > 5
    assert [code for code in shown if not any(code.strip() in each for each in files)] == []
