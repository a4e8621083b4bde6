"""Programs and functions on their way to workers, whoever else pickles at the same time."""

from __future__ import annotations

import importlib.util
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from atoll.spark.shipping import ship_function


@pytest.fixture
def users_function(tmp_path):
    """Of a module that no worker can import."""
    file = tmp_path / "users_module.py"
    file.write_text("def doubled(v):\n    return 2 * v\n")
    spec = importlib.util.spec_from_file_location("users_module", file)
    module = sys.modules["users_module"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module.doubled
    del sys.modules["users_module"]


def test_many_at_once(users_function):
    """Topologies of one file are placed at the same moment: none disturbs another."""
    from pyspark import cloudpickle

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            made = list(pool.map(ship_function, [users_function] * 2_000))
    finally:
        sys.setswitchinterval(before)
    del sys.modules["users_module"]
    assert {cloudpickle.loads(each)(21) for each in set(made)} == {42}
    sys.modules["users_module"] = None
