"""A real Kafka broker on loopback: formatted once, started, killed and started again at will.

Run as a program it is the keeper of a broker that several test processes share: it ends the
broker when the process that began the test run is gone.
"""

from __future__ import annotations

import base64
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from kafka_jars import broker_class_path, java

_START_SECONDS = 60.0
_LOOK_SECONDS = 0.05

_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{control}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}/logs
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
controlled.shutdown.enable=false
log.cleaner.dedupe.buffer.size=4194304
log.cleaner.backoff.ms=200
num.network.threads=2
num.io.threads=2
background.threads=2
"""


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Broker:
    """One broker, in a folder of its own.

    Args:
        folder: Where its log lies; formatted when it is new.

    Raises:
        NoJarsError: When its jars cannot be had.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = broker_class_path()
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._settings = folder / "server.properties"
        self._settings.write_text(
            _PROPERTIES.format(port=self.port, control=free_port(), folder=folder)
        )
        made = b"\0" + os.urandom(15)  # the id may not begin with a dash
        self._java("kafka.tools.StorageTool", "format", "-t", _text(made), "-c", self._settings)

    @property
    def address(self) -> str:
        """What clients connect to."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and return when it answers."""
        with (self.folder / "out.log").open("ab") as out:
            self.process = subprocess.Popen(  # our own command
                [*self._command("-Xmx512m"), "kafka.Kafka", str(self._settings)],
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        until = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > until:
                tail = (self.folder / "out.log").read_text(errors="replace")[-800:]
                raise RuntimeError(f"the broker did not start: {tail}")
            time.sleep(_LOOK_SECONDS)

    def kill(self) -> None:
        """End it at once, as a failing machine does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it in order."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(30)
            self.process = None

    def _answers(self) -> bool:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            client = AdminClient({"bootstrap.servers": self.address, "log_level": 0})
            with contextlib.suppress(KafkaException):
                return bool(client.list_topics(timeout=2).brokers)
        return False

    def _command(self, *options: str) -> list[str]:
        quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *options]
        return [java(), *quick, "-cp", self._path]

    def _java(self, *arguments: object) -> None:
        subprocess.run(  # our own command
            [*self._command(), *map(str, arguments)],
            check=True,
            capture_output=True,
            timeout=_START_SECONDS,
        )


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def keep(folder: Path, owner: int) -> None:
    """Run a broker until the owner is gone; its address is told in a file."""
    broker = Broker(folder)
    broker.start()
    told = folder / "address.tmp"
    told.write_text(broker.address)
    told.rename(folder / "address")
    try:
        while _lives(owner):
            time.sleep(0.5)
    finally:
        broker.kill()


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    keep(Path(sys.argv[1]), int(sys.argv[2]))
