"""What it takes to start: little. And targets: found, or refused with a reason."""

import subprocess
import sys

import pytest

from atoll.cli.target import load_module
from atoll.errors import AtollError, DeclarationError, NotFoundError, UsageError

GOOD = 'import atoll\nmodule = atoll.Module("good")\nother = atoll.Module("other")\nx = 1\n'


def test_help_imports_nothing_heavy():
    """``atoll --help`` loads no engine, no web framework, no Arrow, no HTTP client."""
    code = (
        "import sys\n"
        "sys.argv = ['atoll', '--help']\n"
        "import atoll.cli\n"
        "try:\n    atoll.cli.main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'pyspark', 'fastapi', 'pyarrow', 'numpy', 'httpx', 'lmdb', 'pandas', 'sqlglot'}\n"
        "sys.exit(sorted(heavy & set(sys.modules)) or None)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for command in ("run", "append", "query", "status", "pause", "resume", "demo", "version"):
        assert f"  {command} " in done.stdout


def test_python_dash_m():
    """``python -m atoll`` is the same."""
    done = subprocess.run(
        [sys.executable, "-m", "atoll", "version"], capture_output=True, check=True
    )
    assert done.stdout.startswith(b"atoll ")


@pytest.fixture(autouse=True)
def _restored_imports(monkeypatch):
    """Targets change the import path and the modules known."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name in ("t", "good_target", "beside_target", "some_package", "some_package.inner"):
        sys.modules.pop(name, None)


def test_a_file(tmp_path):
    """By attribute; without one, ``module``; its folder can be imported from."""
    (tmp_path / "good_target.py").write_text("import beside_target\n" + GOOD)
    (tmp_path / "beside_target.py").write_text("")
    assert load_module(f"{tmp_path}/good_target.py:other").name == "other"
    assert load_module(f"{tmp_path}/good_target.py").name == "good"


def test_a_package(tmp_path, monkeypatch):
    """By dotted name, from the present folder."""
    (tmp_path / "some_package").mkdir()
    (tmp_path / "some_package" / "inner.py").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    assert load_module("some_package.inner:module").name == "good"


def test_a_file_named_like_a_module_in_use(tmp_path):
    """It is loaded beside it, not in its place."""
    (tmp_path / "json.py").write_text(GOOD)
    assert load_module(f"{tmp_path}/json.py:module").name == "good"
    assert sys.modules["json"].__file__ != str(tmp_path / "json.py")


@pytest.mark.parametrize(
    ("target", "content", "kind", "words"),
    [
        ("missing.py:module", None, NotFoundError, "there is no file"),
        ("t.py:nothing", GOOD, NotFoundError, "it has: module, other"),
        ("t.py:x", GOOD, UsageError, "is no atoll.Module but int"),
        ("t.py:module", "", NotFoundError, "it has none"),
        ("t.py:a-b", GOOD, UsageError, "names no module"),
        (":module", None, UsageError, "names no module"),
        ("no_such_package:module", None, NotFoundError, "no Python module"),
        ("t.py:module", "1 +", UsageError, "t.py:1"),
        ("t.py:module", "\n\nraise ValueError('oh\\nno')", UsageError, "t.py:3"),
        ("t.py:module", "import no_such_thing", UsageError, "t.py:1"),
        ("t.py:module", "import atoll\natoll.Module('a b')", DeclarationError, "cannot name"),
    ],
)
def test_targets_that_fail(tmp_path, monkeypatch, target, content, kind, words):
    """Each as an error with a remedy, and the user's own line where his code is at fault."""
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / "t.py").write_text(content)
    with pytest.raises(AtollError) as caught:
        load_module(target)
    assert type(caught.value) is kind
    assert words in str(caught.value)
    assert caught.value.hint


def test_run_reports_failures_without_traceback(atoll, tmp_path):
    """A bad target and a taken port are found before Spark is started."""
    from atoll.server.serve import bind

    assert "E-NOT-FOUND" in atoll("run", tmp_path / "missing.py:module").err
    (tmp_path / "good_target.py").write_text(GOOD)
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        done = atoll("run", f"{tmp_path}/good_target.py:module", "--port", port)
    assert (done.code, done.out) == (1, "")
    assert "cannot listen" in done.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--conf", "spark.executor.memory=4g"], "--conf is for a cluster"),
        (["--master", "spark://127.0.0.1:1", "--conf", "spark.executor.memory"], "is no setting"),
        (["--master", "spark://127.0.0.1:1", "--conf", "memory=4g"], "'memory=4g' is no setting"),
    ],
)
def test_settings_of_spark_that_are_none(atoll, tmp_path, options, words):
    """Refused before anything starts, with what to write."""
    (tmp_path / "good_target.py").write_text(GOOD)
    root = tmp_path / "root"
    done = atoll("run", f"{tmp_path}/good_target.py", "--root", root, "--port", "0", *options)
    assert done.code == 1
    assert words in done.err
    assert "Traceback" not in done.err
    assert not root.exists()
