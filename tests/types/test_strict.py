"""Type checkers follow what users write: examples and guides have no errors under mypy strict.

The examples in full. The guides but for what a page leaves out to be short: the types of a
function's own parameters, and names used again. Pyright follows the same, where it is installed.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
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

COMMAND = shutil.which("basedpyright")
pyright = pytest.mark.skipif(
    not COMMAND and importlib.util.find_spec("basedpyright") is None,
    reason="basedpyright is not installed: pip install basedpyright",
)

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


UNTYPED = (
    *("reportMissingParameterType", "reportUnknownParameterType", "reportUnknownMemberType"),
    *("reportUnknownArgumentType", "reportUnknownVariableType", "reportUnknownLambdaType"),
)
"""What follows from parameters without types."""

PASTED = (
    *("reportDuplicateImport", "reportUnusedImport", "reportUnusedExpression"),
    *("reportPossiblyUnbound", "reportPossiblyUnboundVariable"),
    *("reportMissingImports", "reportMissingTypeStubs"),
    *("reportRedeclaration", "reportConstantRedefinition"),
)
"""What follows from blocks that stand one after the other, show values, and name other files."""


def diagnostics(folder, tmp_path, without=()):
    """What pyright says of the files of a folder: path, line, rule and message."""
    settings = {
        "include": [str(folder)],
        "typeCheckingMode": "strict",
        "extraPaths": [str(ROOT / "src")],
        "pythonVersion": "3.11",
        **dict.fromkeys(without, "none"),
    }
    config = tmp_path / "pyrightconfig.json"
    config.write_text(json.dumps(settings), encoding="utf-8")
    command = [COMMAND] if COMMAND else [sys.executable, "-m", "basedpyright"]
    command += ["-p", str(config), "--pythonpath", sys.executable, "--outputjson"]
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ran.returncode in {0, 1}, ran.stderr
    told = json.loads(ran.stdout)
    assert told["summary"]["filesAnalyzed"] > 0
    return told["generalDiagnostics"]


def pyright_errors(found):
    """Those that are errors, in words."""
    return [
        f"{each['file']}:{each['range']['start']['line'] + 1} {each['message']} [{each['rule']}]"
        for each in found
        if each["severity"] == "error"
    ]


@pyright
def test_examples_by_pyright(tmp_path):
    """As a user's project with pyright strict would have them: nothing left out."""
    assert pyright_errors(diagnostics(ROOT / "examples", tmp_path)) == []


@pyright
def test_guides_by_pyright(tmp_path):
    """Each page as one file."""
    pages = tmp_path / "pages"
    pages.mkdir()
    for page in PAGES:
        blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
        name = re.sub(r"\W", "_", page.relative_to(ROOT).with_suffix("").as_posix())
        if blocks:
            (pages / f"{name}.py").write_text("\n".join(blocks), encoding="utf-8")
    assert pyright_errors(diagnostics(pages, tmp_path, UNTYPED + PASTED)) == []


@pyright
def test_what_users_hold_is_typed_by_pyright(tmp_path):
    """The same types as mypy reveals, and errors in the same lines."""
    pages = tmp_path / "user"
    pages.mkdir()
    (pages / "user.py").write_text(USER, encoding="utf-8")
    found = diagnostics(pages, tmp_path, ["reportUnusedImport"])
    wrong = [number for number, text in enumerate(USER.splitlines()) if "# error" in text]
    lines = {each["range"]["start"]["line"] for each in found if each["severity"] == "error"}
    assert sorted(lines) == wrong
    told = [each["message"] for each in found if each["severity"] == "information"]
    shown = [re.search(r' is "(.*)"$', each)[1] for each in told if each.startswith("Type of ")]
    assert shown == [plainly(each) for each in REVEALED]


def plainly(revealed):
    """As pyright writes a type: without the module of a class, and ``Any`` for what may be any."""
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", revealed).replace("Any | None", "Any")


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
