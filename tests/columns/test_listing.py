"""What the documentation says is certified is what the code says."""

from __future__ import annotations

from pathlib import Path

from atoll.columns.listing import renewed

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "certified-columns.md"


def test_the_page_is_up_to_date():
    """Its tables are made anew with ``python -m atoll.columns.listing PAGE``."""
    page = PAGE.read_text(encoding="utf-8")
    assert "| `a + b`" in page
    assert renewed(page) == page
