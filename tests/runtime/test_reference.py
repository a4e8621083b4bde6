"""Holds that the pages about runtimes say what is: the types, and the kinds of problems."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest

from atoll.runtime.definition.kinds import KINDS
from atoll.runtime.definition.read import check_definition

ROOT = Path(__file__).parents[2]
CONCEPT = ROOT / "docs" / "concepts" / "runtimes.md"
GUIDES = sorted((ROOT / "docs" / "guides").glob("*coral*.md"))
SCRIPT = ROOT / "scripts" / "runtime_actors_reference.py"


def test_the_reference_of_types_is_up_to_date():
    """It is what the script makes of the types; run the script when this fails."""
    made = runpy.run_path(str(SCRIPT))
    assert made["PAGE"].read_text(encoding="utf-8") == made["page"]()


def test_every_kind_of_problem_is_told():
    """The table of the concept page is the list of the source."""
    section = CONCEPT.read_text().partition("### What can be wrong")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+) \|$", section, re.MULTILINE)
    assert dict(rows) == KINDS


def _definitions():
    text = "".join(page.read_text() for page in (CONCEPT, *GUIDES))
    blocks = re.findall(r"^```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [data for block in blocks if "links" in (data := json.loads(block))]


@pytest.mark.parametrize("data", _definitions(), ids=lambda data: data["name"])
def test_the_definitions_of_the_pages_are_right(data):
    """Whoever sends one as it stands has no problem."""
    assert check_definition(data)[1] == []
