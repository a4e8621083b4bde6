"""Runs each case in every shape: how many partitions, vnodes and units there are must never show.

A case deploys its module with ``run.deploy(module)`` and calls ``run.disturb()`` where something
may happen between its steps. In calm shapes nothing does; in the troubled ones attempts fail after
all their work, the process ends and begins anew, units come and go, and microbatches are cut after
every record or two.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import NamedTuple

import pytest

import atoll
from atoll.testing import TopologyTestDriver

EXAMPLES = Path(__file__).parents[2] / "examples"


class Shape(NamedTuple):
    """How a case is run."""

    engine: str
    partitions: int
    vnodes: int
    units: int
    records_max: int | None = None
    troubled: bool = False

    def __str__(self) -> str:
        """For the name of the test."""
        trouble = "-troubled" if self.troubled else ""
        return f"{self.engine}-{self.partitions}-{self.vnodes}-{self.units}{trouble}"

    def example(self, file):
        """The module that is shipped as an example, on Spark; elsewhere None: its counts are set.

        So the case is run with a module of these counts, and the example is tested as well.
        """
        if self.engine != "spark":
            return None
        return runpy.run_path(str(EXAMPLES / file))["module"]


CALM = [Shape("inline", 1, 1, 1), Shape("inline", 3, 16, 2), Shape("inline", 8, 256, 5)]
TROUBLED = [
    Shape("inline", 4, 64, 3, records_max=1, troubled=True),
    Shape("driver", 2, 8, 2, records_max=2, troubled=True),
]
SHAPES = [
    *(pytest.param(each, id=str(each)) for each in [*CALM, *TROUBLED]),
    pytest.param(Shape("spark", 3, 16, 2), id="spark", marks=pytest.mark.slow),
]


class Run:
    """One deployed case."""

    def __init__(self, shape, root):
        self.shape = shape
        self._root = root
        self._disturbed = 0
        self._driver = self._cluster = self._module = None

    def deploy(self, module):
        """Deploy it as the shape says; attempts fail from the beginning where it is troubled."""
        self._module = module
        if self.shape.engine == "driver":
            self._driver = TopologyTestDriver(
                module, root=self._root, parallelism=self.shape.units, engine="inline"
            )
            self._driver.fail_next_attempt(after_work=True)
        else:
            self._cluster = atoll.LocalCluster(
                self._root, parallelism=self.shape.units, engine=self.shape.engine
            )
            self._cluster.deploy(module)
        return self

    @property
    def app(self):
        """The running module."""
        return self._driver.app if self._driver else self._cluster.apps[self._module.name]

    def cut(self):
        """Cut microbatches as the shape says, for cases whose result must not depend on that."""
        if self.shape.records_max is not None:
            self.app.options.set("depot.microbatch.max.records", self.shape.records_max)

    def disturb(self):
        """Something happens, unless the shape is a calm one."""
        if not self.shape.troubled:
            return
        self._disturbed += 1
        if self._driver is not None:
            self._driver.restart()
            self._driver.fail_next_attempt(times=2, after_work=True)
        elif self._disturbed % 2:
            self._cluster.add_worker("late", 2)
        else:
            self._cluster.lose_worker("late")

    def update(self, module):
        """Replace the module by another version of it."""
        self._module = module
        (self._driver or self._cluster).update(module)

    def close(self):
        """End it."""
        for each in (self._driver, self._cluster):
            if each is not None:
                each.close()


@pytest.fixture(params=SHAPES)
def shape(request):
    """Each of the shapes."""
    return request.param


@pytest.fixture
def run(shape, tmp_path):
    """What deploys and disturbs a case."""
    made = Run(shape, tmp_path / "root")
    yield made
    made.close()
