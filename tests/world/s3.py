"""A real server of S3's protocol with its data on disk: s3proxy.

``s3_server`` is the server of the test run, ``s3_root`` the URL of a root in it that is empty, with
the environment set so that this process and its children find and may use it.
"""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from jars import jars, java
from shared import Started, shared_server

BUCKET = "atoll-test"
_START_SECONDS = 60.0
_names = itertools.count(1)

_SETTINGS = """
s3proxy.endpoint=http://127.0.0.1:{port}
s3proxy.authorization=aws-v2-or-v4
s3proxy.identity=test
s3proxy.credential=testtest
jclouds.provider=filesystem-nio2
jclouds.filesystem.basedir={folder}/data
"""


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the server."""
    pytest.importorskip("obstore")
    with shared_server(tmp_path_factory, "s3proxy", start_s3proxy) as known:
        yield f"http://127.0.0.1:{known['port']}"


@pytest.fixture
def s3_root(s3_server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The URL of a root that nobody else uses."""
    for name, value in s3_environment(s3_server).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ATOLL_LOCAL", str(tmp_path / "local"))
    return f"s3://{BUCKET}/{os.getpid()}-{next(_names)}"


def s3_environment(endpoint: str) -> dict[str, str]:
    """What a process needs to use the server."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "testtest",
        "AWS_REGION": "us-east-1",
    }


def start_s3proxy(folder: Path, port: int = 0) -> Started:
    """A server with its data in a folder; on a free port unless one is given."""
    found = jars("s3proxy")
    (folder / "data" / BUCKET).mkdir(parents=True, exist_ok=True)
    if not port:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
    settings, logging = folder / "s3proxy.conf", folder / "logback.xml"
    settings.write_text(_SETTINGS.format(port=port, folder=folder))
    logging.write_text('<configuration><root level="WARN"/></configuration>')
    command = [java(), "-XX:TieredStopAtLevel=1", "-Xmx512m"]
    command += [f"-Dlogback.configurationFile={logging}", "-cp", f"{found}/*"]
    command += ["org.gaul.s3proxy.Main", "--properties", str(settings)]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise AssertionError((folder / "log").read_text()[-800:]) from None
            time.sleep(0.02)
    process.returncode = 0  # others may end it: it is nobody's child to wait for
    return {"pid": process.pid, "port": port}
