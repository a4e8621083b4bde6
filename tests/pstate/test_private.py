"""Holds that only its topology reads a private PState, and that iterations see one commit."""

from __future__ import annotations

from itertools import islice

import pytest

import atoll
from atoll import Map, path
from atoll.errors import NotFoundError, PathError


@pytest.fixture
def root(tmp_path):
    """Where the module lives."""
    return tmp_path / "root"


@pytest.fixture
def inline(root):
    """A cluster without Spark."""
    with atoll.LocalCluster(root, engine="inline") as running:
        yield running


def _module(*, private, vnodes=8):
    module = atoll.Module("secrets")
    depot = module.depot("records", "k int, v int")
    mb = module.microbatch("mb", vnode_count=vnodes)
    hidden = mb.pstate("hidden", Map(int, int), private=private)
    shown = mb.pstate("shown", Map(int, int))

    def both(row, hidden, shown):
        hidden[row.k] = hidden.get(row.k, 0) + row.v
        shown[row.k] = hidden[row.k] * 10

    mb.source(depot).process(both, key="k", states=[hidden, shown])
    return module


def test_private_state_is_used_and_not_found(inline, root):
    """Its topology reads and writes it; a later deployment may open it, and close it again."""
    app = inline.deploy(_module(private=True))
    app.depot("records").append([{"k": n % 5, "v": n} for n in range(50)])
    app.topology("mb").wait_processed(50)
    sums = {k: sum(n for n in range(50) if n % 5 == k) for k in range(5)}
    assert app.pstate("shown").get() == {k: v * 10 for k, v in sums.items()}
    for reader in (app, atoll.connect(root, "secrets")):
        assert reader.pstates() == ["shown"]
        with pytest.raises(NotFoundError) as caught:
            reader.pstate("hidden")
        assert "private" in caught.value.message
    app = inline.deploy(_module(private=False))
    assert app.pstates() == ["hidden", "shown"]
    assert app.pstate("hidden").get() == sums
    assert atoll.connect(root, "secrets").pstate("hidden").get(3) == sums[3]
    app = inline.deploy(_module(private=True))
    with pytest.raises(NotFoundError):
        app.pstate("hidden")


@pytest.mark.parametrize("vnodes", [1, 8])
def test_an_iteration_sees_one_commit(inline, vnodes):
    """The one at which it began, whatever is committed while it goes on."""
    count = 5000
    app = inline.deploy(_module(private=False, vnodes=vnodes))
    app.depot("records").append([{"k": n, "v": 1} for n in range(count)])
    app.topology("mb").wait_processed(count)
    entries = app.pstate("hidden").iterate(path.all())
    begun = list(islice(entries, 10))
    app.depot("records").append([{"k": n, "v": 1} for n in range(count)])
    app.topology("mb").wait_processed(2 * count)
    assert begun + list(entries) == [(n, 1) for n in range(count)]
    assert sum(app.pstate("hidden").iterate(path.map_vals())) == 2 * count
    with pytest.raises(PathError):
        app.pstate("hidden").iterate(path.key("x"))


def test_private_state_is_not_found_over_http(inline):
    """Neither its description nor its values; what is public is."""
    from starlette.testclient import TestClient

    from atoll.server import ServerSettings, create_app

    app = inline.deploy(_module(private=True))
    app.depot("records").append([{"k": 1, "v": 2}])
    app.topology("mb").wait_processed(1)
    service = create_app(app, settings=ServerSettings())
    with TestClient(service, base_url="http://127.0.0.1:7410") as client:
        place = "/v1/modules/secrets/pstates"
        assert client.get(place).json()["pstates"] == ["shown"]
        whole = {"path": []}
        assert client.post(f"{place}/shown/select", json=whole).json()["values"] == [{"1": 20}]
        for refused in (
            client.get(f"{place}/hidden"),
            client.post(f"{place}/hidden/select", json=whole),
        ):
            assert refused.status_code == 404
            assert "private" in refused.json()["detail"]
        writing = {"path": [["key", 1], ["delete"]]}
        assert client.post(f"{place}/shown/select", json=writing).status_code == 400
        assert client.post(f"{place}/shown/select", json=whole).json()["values"] == [{"1": 20}]


def test_specs_keep_who_may_read():
    """In the deployment object; those of older deployments are public."""
    from atoll.pstate.spec import PStateSpec, pstate_spec

    for private in (False, True):
        spec = pstate_spec(_module(private=private).pstates()["hidden"])
        assert spec.private is private
        assert PStateSpec.from_json(spec.to_json()) == spec
        assert ("private" in spec.to_json()) is private
