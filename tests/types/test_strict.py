"""Type checkers follow what users write: examples and guides have no errors under mypy strict.

The examples in full. The guides but for what a page leaves out to be short: the types of a
function's own parameters, and names used again.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STRICT = ["--config-file=", "--strict", "--ignore-missing-imports", "--no-error-summary"]
BRIEF = [
    "--allow-untyped-defs",
    "--allow-untyped-calls",
    "--allow-incomplete-defs",
    "--disable-error-code=no-redef",
]

pytest.importorskip("mypy")
pytestmark = pytest.mark.slow


def errors(files, tmp_path, *options):
    """What mypy says of some files."""
    command = [sys.executable, "-m", "mypy", *STRICT, *options, "--cache-dir", str(tmp_path)]
    command += map(str, files)
    ran = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode in {0, 1}, ran.stderr
    return ran.stdout.splitlines()


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Atoll itself is read once."""
    return tmp_path_factory.mktemp("cache")


def test_examples_are_strictly_typed(cache):
    """As a user's project with mypy strict would have them."""
    assert errors(sorted((ROOT / "examples").rglob("*.py")), cache) == []


def test_guides_have_no_errors(cache, tmp_path):
    """Each page as one file."""
    files = []
    for page in PAGES:
        blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
        if blocks:
            name = re.sub(r"\W", "_", page.relative_to(ROOT).with_suffix("").as_posix())
            files.append(tmp_path / f"{name}.py")
            files[-1].write_text("\n".join(blocks), encoding="utf-8")
    assert len(files) > 20
    assert errors(files, cache, *BRIEF) == []


def test_what_users_hold_is_typed(cache, tmp_path):
    """Streams of classes, PStates of types, and the errors that they bring."""
    file = tmp_path / "user.py"
    file.write_text(USER, encoding="utf-8")
    lines = [re.sub(r"^.*?:(\d+): ", r"\1 ", line) for line in errors([file], cache)]
    wrong = [number for number, text in enumerate(USER.splitlines(), 1) if "# error" in text]
    assert sorted({int(line.split()[0]) for line in lines if " error: " in f" {line}"}) == wrong
    told = [line for line in lines if "Revealed" in line]
    assert [re.search(r'"(.*)"', line)[1].replace("builtins.", "") for line in told] == REVEALED


USER = """
from dataclasses import dataclass
from typing import Any

import atoll
from atoll import agg


@dataclass
class Sale:
    user: str
    cents: int


@dataclass
class Total:
    cents: int


module = atoll.Module("shop")
sales = module.depot("sales", Sale)
plain = module.depot("plain", "v long")
mb = module.microbatch("mb")
totals = mb.pstate("totals", dict[str, Total])
seen = mb.pstate("seen", dict[str, dict[int, set[str]]])
words = mb.pstate("words", "map<string, long>")
count = mb.pstate("count", int, initial=0)

reveal_type(mb.source(sales))
reveal_type(mb.source(sales).where("cents > 0").shuffle())
reveal_type(mb.source(sales).select("user"))
mb.source(sales).map(lambda row: {"n": row.user}, emits="n string")
mb.source(sales).map(lambda row: {"n": row.nothing}, emits="n string")  # error
mb.source(plain).map(lambda row: {"n": row.v}, emits="n long")
reveal_type(mb.source(plain).map(lambda row: Sale("a", row.v), emits=Sale))
mb.source(sales).aggregate(totals["user"], cents=agg.sum("cents"))


def look(app: atoll.App) -> None:
    receipt = app.depot(sales).append(Sale("ann", 1))
    reveal_type(app.wait(receipt))
    reveal_type(app.pstate(totals).get("ann"))
    reveal_type(app.pstate(totals).get("ann", default=Total(0)))
    reveal_type(app.pstate(totals).get())
    reveal_type(app.pstate(seen).get("ann", 7))
    reveal_type(app.pstate(count).get())
    reveal_type(app.pstate(words).get("a"))
    reveal_type(app.pstate("totals").get("ann"))
    reveal_type(app.pstate(totals).after(receipt.token).get("ann"))
    app.topology(mb).wait(3)  # error
"""

REVEALED = [
    "atoll.stream.stream.Stream[user.Sale]",
    "atoll.stream.stream.Stream[user.Sale]",
    "atoll.stream.stream.Stream[Any]",
    "atoll.stream.stream.Stream[user.Sale]",
    "dict[str, int]",
    "user.Total | None",
    "user.Total",
    "dict[str, user.Total]",
    "set[str] | None",
    "int | None",
    "Any | None",
    "Any",
    "user.Total | None",
]
