"""Holds that types are found by name, in this list only, and that a package's type joins it."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import msgspec
import pytest

from atoll.errors import DeclarationError
from atoll.runtime.actors.interface import ActorType, Result
from atoll.runtime.actors.registry import BUILT_IN, ENTRY_POINTS, actor_types, with_packages


class Echo(ActorType[msgspec.Struct]):
    """A type as another package would bring it."""

    name = "echo"
    params = msgspec.Struct

    def trigger(self, params, state, event, given):
        """The event."""
        return Result(state, (event,))


def entry(name, attribute="Echo"):
    """An entry point at something of this file."""
    return EntryPoint(name, f"{__name__}:{attribute}", ENTRY_POINTS)


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    """Test files are no importable modules: the entry point finds this one all the same."""
    import sys

    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or _this())


def _this():
    import types

    module = types.ModuleType(__name__)
    module.Echo = Echo
    return module


def test_case_39_built_in_types_are_found_by_name():
    """Defaults first, in order of their names; an unknown type is none."""
    types = actor_types()
    assert [kind.name for kind in BUILT_IN] == sorted(kind.name for kind in BUILT_IN)
    assert list(types)[: len(BUILT_IN)] == [kind.name for kind in BUILT_IN]
    assert "os.system" not in types


def test_case_39_a_package_adds_a_type():
    """It stands in the list like those built in."""
    assert isinstance(with_packages([entry("echo")])["echo"], Echo)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ([entry("threshold")], "name is taken"),
        ([entry("echo"), entry("echo")], "name is taken"),
        ([entry("other")], "calls itself 'echo'"),
        ([entry("echo", "missing")], "AttributeError"),
        ([EntryPoint("echo", "no_such_module:Echo", ENTRY_POINTS)], "ModuleNotFoundError"),
        ([EntryPoint("echo", "os:path", ENTRY_POINTS)], "no subclass"),
    ],
)
def test_case_39_a_type_that_cannot_be_is_told(found, why):
    """No package takes a name of Atoll's, and a broken one is named rather than left out."""
    with pytest.raises(DeclarationError, match=why):
        with_packages(found)
