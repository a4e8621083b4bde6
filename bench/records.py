"""The records of the benchmarks: the same files for both sides, one Parquet file per microbatch.

Keys are drawn evenly from ``0..keys-1`` with a fixed seed, values from ``0..999``.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SCHEMA = "k long, v long"
SEED = 20_260


def write_records(folder: Path, keys: int, batch: int, batches: int) -> list[Path]:
    """Write ``batches`` files of ``batch`` records each, oldest first by name and by time."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(SEED)
    files = []
    for number in range(batches):
        table = pa.table(
            {"k": generator.integers(0, keys, batch), "v": generator.integers(0, 1000, batch)}
        )
        file = folder / f"batch-{number:06d}.parquet"
        pq.write_table(table, file, row_group_size=batch)
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
        files.append(file)
    return files


def expected_total(files: list[Path]) -> int:
    """The sum of all values, to hold the results against."""
    return sum(int(np.sum(pq.read_table(file, columns=["v"])["v"].to_numpy())) for file in files)
