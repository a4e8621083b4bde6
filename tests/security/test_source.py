"""S4, S7 and S13 over the source itself: what turns bytes into code stands where it is listed."""

import ast
from functools import cache
from pathlib import Path

import atoll

SOURCE = Path(atoll.__file__).parent

UNPICKLING = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "jsonpickle", "joblib"}
RUNNING = {"eval", "exec", "compile", "__import__"}


@cache
def trees():
    """Each file, and what of it matters here: its imports and calls."""
    kinds = (ast.Import, ast.ImportFrom, ast.Call)
    return [
        (
            str(file.relative_to(SOURCE)),
            [node for node in ast.walk(tree) if isinstance(node, kinds)],
        )
        for file in sorted(SOURCE.rglob("*.py"))
        for tree in [ast.parse(file.read_text(encoding="utf-8"))]
    ]


def imported(nodes):
    """The packages that a file imports, wherever it does."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]
            if node.module == "pyspark":
                yield from (each.name for each in node.names)


def calls(nodes):
    """The calls of a file: the last two names of what is called."""
    for node in nodes:
        if isinstance(node, ast.Call):
            found = node.func
            if isinstance(found, ast.Attribute) and isinstance(found.value, ast.Name):
                yield f"{found.value.id}.{found.attr}", node
            else:
                yield getattr(found, "id", ""), node


MAY_UNPICKLE = {
    "depot/migration.py",
    "pstate/converter.py",
    "pstate/handles/live.py",
    "spark/jobs/handing.py",
    "spark/shipping.py",
    "spark/standing/jobs.py",
    "spark/standing/task.py",
}
"""Users' functions travel so to Spark's workers and into a root, which is its owner's alone."""


def test_what_turns_bytes_into_code_is_listed():
    """A new place must be thought about: only what the service itself wrote may be read so."""
    found = {name for name, tree in trees() if UNPICKLING & set(imported(tree))}
    assert found == MAY_UNPICKLE


def test_nothing_that_serves_unpickles():
    """Whatever a client sends is data: no file of the service, of access or of clients does."""
    outside = ("server/", "access/", "client/", "cli/", "path/", "depot/append/", "runtime/")
    assert not [name for name in MAY_UNPICKLE if name.startswith(outside)]


def test_no_text_is_run():
    """Neither as Python nor by a shell."""
    wrong = []
    for name, tree in trees():
        for called, node in calls(tree):
            shell = [each for each in node.keywords if each.arg == "shell"]
            if called in RUNNING or called in {"os.system", "os.popen"} or shell:
                wrong.append((name, called))
    assert wrong == []


def test_certificates_are_looked_at():
    """No request goes out without."""
    wrong = []
    for name, tree in trees():
        for _, node in calls(tree):
            wrong += [
                (name, node.lineno)
                for each in node.keywords
                if each.arg == "verify"
                and isinstance(each.value, ast.Constant)
                and not each.value.value
            ]
        text = (SOURCE / name).read_text(encoding="utf-8")
        wrong += [name for word in ("CERT_NONE", "_create_unverified_context") if word in text]
    assert wrong == []
