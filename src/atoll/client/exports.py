"""Exports of a PState over a connection, read again as of one microbatch as often as wanted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from atoll.client.asking.calls import Call
from atoll.client.asking.module import ModuleCalls
from atoll.client.errors import ServiceUnreachableError, error_of
from atoll.client.wire import Wire
from atoll.views.export.export import Export


def remote_export(
    wire: Wire, calls: ModuleCalls, pstate: str, field: str | None, params: Mapping[str, str]
) -> Export:
    """An export whose rows are read from the service when they are asked for.

    Raises:
        AtollError: What the service refuses it with.
    """
    told = {**params, "format": "arrow", **({} if field is None else {"field": field})}
    with wire.arrow(_call(calls, pstate, told)) as reader:
        schema = reader.schema
    about = {name.decode(): text.decode() for name, text in (schema.metadata or {}).items()}
    microbatch = int(about["atoll.microbatch"])
    if "changes" in told:
        told |= {"after": about["atoll.after_microbatch"], "up_to": str(microbatch)}
    else:
        told |= {"as_of": str(microbatch)}

    def rows() -> Iterator[pa.RecordBatch]:
        with wire.arrow(_call(calls, pstate, told)) as again:
            yield from batches_of(again)

    return Export(schema, microbatch, rows)


def batches_of(reader: pa.RecordBatchStreamReader) -> Iterator[pa.RecordBatch]:
    """The batches; what went wrong on the way is in the metadata of the last one.

    Raises:
        AtollError: What the service tells there.
        ServiceUnreachableError: When the connection was lost on the way.
    """
    while True:
        try:
            batch, about = reader.read_next_batch_with_custom_metadata()
        except StopIteration:
            return
        except (pa.ArrowInvalid, OSError) as error:
            raise ServiceUnreachableError(
                f"the export broke off: {error}", hint="read it again"
            ) from None
        if about is not None and b"problem" in about:
            raise error_of(json.loads(about[b"problem"]))
        yield batch


def _call(calls: ModuleCalls, pstate: str, params: Mapping[str, str]) -> Call[Any]:
    return calls.get("pstates", pstate, "export", params=params)
