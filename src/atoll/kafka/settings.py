"""How clients connect: the settings of librdkafka, and where what is secret among them is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from atoll.errors import DeclarationError, LogError
from atoll.secret import Secret

if TYPE_CHECKING:
    from types import ModuleType

_SECRET = re.compile(r"password|secret|\.key\.pem$|sasl\.oauthbearer\.(config|assertion)")
_NOT_SECRET = frozenset({"ssl.key.location"})
_OWN = frozenset(
    {
        "bootstrap.servers",
        "metadata.broker.list",
        "group.id",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "auto.offset.reset",
        "enable.partition.eof",
        "isolation.level",
        "transactional.id",
        "enable.idempotence",
    }
)
"""What exactly-once rests on."""


@dataclass(frozen=True)
class Settings:
    """How to connect; holds references to secrets, never secrets. It can be a key."""

    brokers: str
    options: tuple[tuple[str, str | int | bool | Secret], ...] = ()

    def resolved(self, **more: Any) -> dict[str, Any]:
        """As librdkafka takes them, secrets read; ``more`` with underscores for dots.

        Raises:
            UsageError: When a secret is not there.
        """
        given = {
            name: value.read() if isinstance(value, Secret) else value
            for name, value in self.options
        }
        own = {name.replace("_", "."): value for name, value in more.items()}
        return {"log_level": 0, **given, "bootstrap.servers": self.brokers, **own}


def checked_options(
    brokers: str, topic: str, options: Mapping[str, str | int | bool | Secret]
) -> None:
    """Hold that the settings can be used, stored and shown.

    Raises:
        DeclarationError: When they cannot.
    """
    for what, text in (("brokers", brokers), ("topic", topic)):
        if not isinstance(text, str) or not text.strip():
            raise DeclarationError(
                f"{text!r} cannot be Kafka's {what}", hint='write Kafka("host:9092", topic="bids")'
            )
    for name, value in options.items():
        if name in _OWN:
            raise DeclarationError(
                f"the option {name} is Atoll's own: exactly-once rests on it",
                hint="leave it out",
            )
        if name not in _NOT_SECRET and _SECRET.search(name) and not isinstance(value, Secret):
            raise DeclarationError(
                f"the option {name} is a secret, and declarations are stored and shown",
                hint=f'give {{"{name}": atoll.secret.env("NAME")}} or atoll.secret.file("path")',
            )


def client() -> ModuleType:
    """The package of the clients.

    Raises:
        LogError: When it is not installed.
    """
    try:
        import confluent_kafka
        import confluent_kafka.admin  # its own clients, by attribute
    except ImportError as error:
        raise LogError(
            "reading and writing Kafka needs the package confluent-kafka, which is not installed",
            hint="pip install 'atoll[kafka]', on the workers too",
        ) from error
    return confluent_kafka
