"""The folder sink in a bucket of a real object store, whose conditional put says who was first."""

from __future__ import annotations

import pytest

from atoll.errors import SinkError
from atoll.sinks import Folder, read_folder
from atoll.testing.sinks import SinkContract

s3 = pytest.importorskip("s3", reason="no object store is started for these tests yet")
s3_server, s3_root = s3.s3_server, s3.s3_root


class TestBucket(SinkContract):
    """Parquet files in a bucket."""

    types = ("string", "timestamp", "struct")  # the files are those of a disk

    @pytest.fixture(autouse=True)
    def _bucket(self, s3_root):
        self.root = s3_root
        self.options = {"client_options": {"allow_http": True}}

    def make_sink(self, target):
        """A folder of that name."""
        return Folder(f"{self.root}/{target}", options=self.options)

    def held(self, target):
        """What readers by manifest see."""
        return read_folder(f"{self.root}/{target}", options=self.options).to_table().to_pylist()


def test_a_store_that_is_not_there_says_so():
    """And is tried again, by whoever opens it next."""
    options = {
        "endpoint": "http://127.0.0.1:1",
        "access_key_id": "canary",
        "secret_access_key": "canary",
        "client_options": {"allow_http": True},
        "retry_config": {"max_retries": 0},
    }
    import pyarrow as pa

    from atoll.sinks import Opening, SinkRows

    sink = Folder("s3://bucket/x", options=options)
    with pytest.raises(SinkError, match="s3://bucket/x cannot be reached") as raised:
        sink.open(Opening("x", 1, SinkRows(pa.schema([]))))
    assert "canary" not in str(raised.value)
