"""What an operator writes of the world outside: read, or refused before anything runs."""

from __future__ import annotations

import json

import pytest

from atoll.errors import UsageError
from atoll.runtime.service.effects.outside import read_outside


def written(tmp_path, http):
    """A file of the operator's."""
    file = tmp_path / "outside.json"
    file.write_text(json.dumps({"http": http}))
    return file


@pytest.mark.parametrize(
    "http",
    [
        {"local": ["127.0.0.1"]},
        {"local": ["http://127.0.0.1:9000"]},
        {"local": ["Db.example.com:9000"]},
        {"hosts": ["https://api.example.com"]},
        {"hosts": ["api.example.com:8443"]},
        {"hosts": ["API.example.com"]},
        {"hosts": [""]},
    ],
)
def test_what_could_match_no_address_is_refused(tmp_path, http):
    """It would look as if it were allowed, and nobody would know why nothing is."""
    with pytest.raises(UsageError, match="which no address can match"):
        read_outside(written(tmp_path, http))


def test_hosts_and_targets_as_the_guide_writes_them_are_read(tmp_path):
    """Names, those below one, all; targets by name and by address."""
    hosts = ["api.example.com", "*.example.com", "*", "2001:db8::1"]
    local = ["127.0.0.1:9000", "[::1]:9000", "db:5432"]
    rules = read_outside(written(tmp_path, {"hosts": hosts, "local": local})).rules
    assert (rules.hosts, rules.local) == (frozenset(hosts), frozenset(local))
