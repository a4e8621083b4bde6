"""Holds that README and docs say what is: code runs, links resolve, nothing public is left out.

Python blocks of a page run in order in one namespace, as a reader would paste them; those that
only show a shape are fenced as ``python fragment``. A comment behind an expression that is a
literal is its value. All pages share the process's Spark session.
"""

from __future__ import annotations

import ast
import importlib.util
import io
import re
import shlex
import tokenize
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest
import typer

import atoll
from atoll import agg, errors, path
from atoll.cli import app as cli
from atoll.microbatch.control.options import Options, bounds_of, levels_of
from atoll.names import RESERVED
from atoll.path import Path as StatePath
from atoll.placement.policies.policy import Custom, Policy, parse_policy
from atoll.stream.stream import Stream
from atoll.topology.usercode import HIDDEN_COLUMN

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
REFERENCE = ROOT / "docs" / "reference"
WITH_BROKER = ROOT / "docs/guides/kafka.md"
"""Runs where the tests of Kafka do."""
SOURCES = sorted((ROOT / "src" / "atoll").rglob("*.py"))

_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def name_of(page):
    """The page's path in the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(page, kind):
    """(first line's number, text) of the page's blocks of one kind."""
    text = page.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, match.start(2)) + 1, match.group(2))
        for match in _BLOCK.finditer(text)
        if match.group(1).strip() == kind
    ]


def prose(page):
    """The page without its blocks."""
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


def anchors(page):
    """The anchors that GitHub makes of the page's headings."""
    titles = (re.sub(r"[`*]", "", title) for title in _HEADING.findall(prose(page)))
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles}


# Python -------------------------------------------------------------------------------------------


class _Checking(ast.NodeTransformer):
    """Turns ``expression  # literal``, printed or not, into a comparison."""

    def __init__(self, comments):
        self.comments = comments

    def visit_Expr(self, node):
        comment = self.comments.get(node.end_lineno, "")
        if not _is_literal(comment):
            return node
        shown = node.value
        match shown:
            case ast.Call(ast.Name("print"), [only]):
                shown = only
        arguments = [shown, ast.Constant(comment), ast.Constant(node.end_lineno)]
        call = ast.Call(ast.Name("__check", ast.Load()), arguments, [])
        return ast.copy_location(ast.Expr(call), node)


def _is_literal(text):
    try:
        ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return False
    return True


def _comments(code):
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    return {
        token.start[0]: token.string.lstrip("# ")
        for token in tokens
        if token.type == tokenize.COMMENT
    }


def run_page(page):
    """Run a page's Python in order; the names that it leaves behind."""
    checked = []

    def check(value, literal, line):
        expected = ast.literal_eval(literal)
        assert value == expected, f"{name_of(page)}: {value!r}, the page says {literal}"
        assert isinstance(value, type(expected))
        checked.append(line)

    namespace = {"__name__": "__main__", "__check": check}
    try:
        for first_line, code in blocks(page, "python"):
            tree = _Checking(_comments(code)).visit(ast.parse(code))
            ast.increment_lineno(ast.fix_missing_locations(tree), first_line - 1)
            exec(compile(tree, str(page), "exec", dont_inherit=True), namespace)
    finally:
        for value in namespace.values():
            if isinstance(value, atoll.LocalCluster):
                value.close()
    return namespace, checked


@pytest.fixture(scope="module")
def _warm(tmp_path_factory):
    """Spark and its Python workers have started, however long a busy machine takes for it."""
    module = atoll.Module("warm")
    depot = module.depot("numbers", "v long")
    mb = module.microbatch("mb", vnode_count=1)
    mb.source(depot).aggregate(mb.pstate("total", int), agg.sum("v"))
    with atoll.LocalCluster(tmp_path_factory.mktemp("warm")) as cluster:
        app = cluster.deploy(module)
        app.depot("numbers").append({"v": 1})
        app.topology("mb").wait_processed(1, timeout_seconds=300)


@pytest.mark.usefixtures("_warm")
@pytest.mark.parametrize(
    "page", [p for p in PAGES if blocks(p, "python") and p != WITH_BROKER], ids=name_of
)
def test_python_of_a_page_runs_as_pasted(page):
    """Every block runs, and every value shown is the value."""
    check_page(page)


def check_page(page):
    """Run a page, and hold that each value that it shows was compared."""
    _, checked = run_page(page)
    comments = [c for _, code in blocks(page, "python") for c in _comments(code).values()]
    shown = sum(_is_literal(comment) for comment in comments)
    assert len(checked) == shown, "a value is shown that nothing checks"


@pytest.mark.usefixtures("_warm")
def test_the_test_of_the_testing_guide_passes(tmp_path):
    """The guide's own pytest example, with a cluster as its fixture makes it."""
    (_, code), *_ = blocks(ROOT / "docs/guides/testing.md", "python")
    namespace = {"__name__": "__main__"}
    exec(compile(code, "testing.md", "exec"), namespace)
    with atoll.LocalCluster(tmp_path) as cluster:
        namespace["test_counts"](cluster.deploy(namespace["make_module"]()))


def test_the_smallest_module_is_the_example():
    """README shows the file in examples/, declaration for declaration."""
    (shown,) = (code for _, code in blocks(ROOT / "README.md", "python") if "key-pairs" in code)
    example = (ROOT / "examples" / "key_pairs.py").read_text(encoding="utf-8")
    statements = {ast.unparse(node) for node in ast.parse(shown).body[2:]}
    assert statements == {ast.unparse(node) for node in ast.parse(example).body[3:]}


# Links --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    """Files exist, and so do the headings that anchors name."""
    for target in _LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        assert found.exists(), f"{target} leads nowhere"
        assert found.is_relative_to(ROOT)
        if anchor:
            assert anchor in anchors(found), f"{target}: no such heading"


def test_files_that_pages_name_are_there():
    """Files of the package and of its tests, however much of their path is said."""
    there = {
        file.relative_to(ROOT).as_posix()
        for part in ("src", "tests", "bench", "examples", "scripts")
        for file in (ROOT / part).rglob("*.py")
    }
    named = {
        (name_of(page), path)
        for page in PAGES
        for path in re.findall(r"`([\w/]+\.py)`", prose(page))
    }
    assert not {each for each in named if not any(f"/{it}".endswith(f"/{each[1]}") for it in there)}


def test_every_page_is_reached_from_the_readme():
    """README links every page."""
    linked = {
        (ROOT / target.partition("#")[0]).resolve() for target in _LINK.findall(prose(PAGES[0]))
    }
    pages = {page for page in PAGES[1:] if "internals" not in page.parts}
    assert pages <= linked


# Reference ----------------------------------------------------------------------------------------


def test_every_error_code_is_documented():
    """One heading per code: those of errors.py, and every other that the source names."""
    documented = {each.upper() for each in anchors(REFERENCE / "errors.md") if each[:2] == "e-"}
    declared = {getattr(errors, name).code for name in errors.__all__}
    named = {
        code
        for source in SOURCES
        for code in re.findall(r'"(E-[A-Z]+(?:-[A-Z]+)*)"', source.read_text(encoding="utf-8"))
    }
    assert declared <= named
    assert documented == named
    page = (REFERENCE / "errors.md").read_text(encoding="utf-8")
    assert not [name for name in errors.__all__ if f"`{name}`" not in page]


def test_every_option_is_documented_as_it_is():
    """Name, default, bounds and most specific level of each row are those of the code."""
    page = (REFERENCE / "options.md").read_text(encoding="utf-8")
    row = r"^\| `([a-z.]+)` \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| (\w+) \|"
    rows = {
        name: (*(int(number.replace(",", "")) for number in numbers), level.lower())
        for name, *numbers, level in re.findall(row, page, re.MULTILINE)
    }
    assert rows == {
        name: (default, *bounds_of(name), levels_of(name)[-1])
        for name, default in Options().by_name().items()
    }


def test_every_aggregate_is_documented():
    """Each public name of ``atoll.agg``."""
    page = (REFERENCE / "aggregates.md").read_text(encoding="utf-8")
    assert not [name for name in agg.__all__ if f"agg.{name}(" not in page]


def test_the_table_of_roles_is_documented_as_it_is():
    """The page is what the script makes of the table."""
    path = ROOT / "scripts" / "roles_reference.py"
    found = importlib.util.spec_from_file_location("roles_reference", path)
    script = importlib.util.module_from_spec(found)
    found.loader.exec_module(script)
    assert (REFERENCE / "roles.md").read_text(encoding="utf-8") == script.page()


def test_every_path_step_is_documented():
    """Each public name of ``atoll.path``, as it is written."""
    page = (REFERENCE / "paths.md").read_text(encoding="utf-8")
    names = {name for name in vars(path) if name[0] != "_"} - {"Path"}
    names -= {name for name, each in vars(path).items() if isinstance(each, ModuleType)}
    assert not [name for name in names if f"path.{name}" not in page]
    methods = {name for name in vars(StatePath) if name[0] != "_"} - {"steps", "from_outside"}
    assert methods - names == {"to_json"}


def test_every_stream_method_is_documented():
    """Each method of a stream, with its name in code."""
    page = (REFERENCE / "streams.md").read_text(encoding="utf-8")
    methods = {name for name in dir(Stream) if name[0] != "_"} - {"graph", "operator"}
    assert not [name for name in methods if f"`{name}(" not in page]


def test_every_public_name_is_in_the_reference():
    """Whatever ``import atoll`` offers is on one of the reference pages."""
    text = "".join(page.read_text(encoding="utf-8") for page in REFERENCE.glob("*.md"))
    assert not [name for name in atoll.__all__ if not re.search(rf"\b{name}\b", text)]


# Commands -----------------------------------------------------------------------------------------

COMMANDS = typer.main.get_command(cli).commands


def _atoll_lines():
    for page in PAGES:
        for _, block in blocks(page, "console"):
            for line in re.sub(r"\\\n\s*", "", block).splitlines():
                if line.startswith("$ ") and re.search(r"(^\$|\|) atoll ", line):
                    yield line[line.index("atoll ") :]


@pytest.mark.parametrize("line", sorted(set(_atoll_lines())))
def test_console_commands_parse(line):
    """Command, arguments and options are those that the command line takes."""
    _, command, *arguments = shlex.split(line)
    COMMANDS[command].make_context(f"atoll {command}", arguments)


def test_the_names_that_are_taken_are_told():
    """Those of the one list, in the sentence about them and nowhere short of it."""
    page = (REFERENCE / "declaring.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^A module cannot be called (.*)$", page, re.MULTILINE)
    told, _, rest = line.partition(", a topology not ")
    assert set(re.findall(r"`(\w+)`", told)) == RESERVED["module"]
    assert set(re.findall(r"`(\w+)`", rest)) == RESERVED["topology"]
    (column,) = re.findall(r"^No column can be called `(\w+)`", page, re.MULTILINE)
    assert column == HIDDEN_COLUMN


def test_every_policy_is_documented():
    """Each that can be set, where scaling, the command and its help list them; and it parses."""
    command = next(each for each in COMMANDS["scale"].params if each.name == "parallelism")
    pages = [ROOT / "docs" / "scaling.md", REFERENCE / "cli.md"]
    texts = [prose(page).replace("`", "") for page in pages] + [command.help]
    for policy in ("adaptive", "fixed(4)", "bounded(4)", "ratio(0.5)", "load(1,8)"):
        assert str(parse_policy(policy)) == policy
        assert not [text for text in texts if policy not in text], policy
    kinds = {type(parse_policy(each)) for each in ("adaptive", "4", "bounded(4)")}
    kinds |= {type(parse_policy(each)) for each in ("ratio(0.5)", "load(1,8)")}
    assert kinds == set(get_args(Policy)) - {Custom}, "a policy is missing here"


def test_every_command_and_option_is_documented():
    """On the page of the command line."""
    page = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    for name, command in COMMANDS.items():
        assert f"`atoll {name}" in page
        for parameter in command.params:
            flags = [each for each in parameter.opts if each.startswith("--")]
            assert not [each for each in flags if f"`{each}`" not in page], name


def test_make_targets_exist():
    """``make X`` of any page is a target."""
    targets = re.findall(
        r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    used = set(re.findall(r"^\$ make ([a-z-]+)", text, re.MULTILINE))
    used |= set(re.findall(r"`make ([a-z-]+)`", text))
    assert used
    assert used <= set(targets)


def test_every_route_is_documented():
    """On the page of the HTTP service, whole or by its last two parts."""
    from atoll.server import create_app

    page = (REFERENCE / "http.md").read_text(encoding="utf-8")
    for route in create_app().openapi()["paths"]:
        tail = "/".join(route.split("/")[-2:])
        assert f"{route}`" in page or f"`.../{tail}`" in page


def test_every_metric_is_documented():
    """On the same page, under the names that a scrape shows."""
    page = (REFERENCE / "http.md").read_text(encoding="utf-8")
    source = (ROOT / "src/atoll/server/metrics.py").read_text(encoding="utf-8")
    names = set(re.findall(r'"(atoll_[a-z_]+)"', source))
    assert names
    assert not [name for name in names if not re.search(rf"`{name}(_total)?`", page)]
