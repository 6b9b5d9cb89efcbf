"""The streams that tests of jobs write."""

from __future__ import annotations

import pyarrow as pa

from runnel.connector import ScanRequest
from tests.connectors.conformance import job_context
from tests.jobs.feeds import Feed, FeedTable


def test_a_row_without_columns_is_a_row() -> None:
    feed = Feed()
    feed.give((1, 10))
    (partition,) = FeedTable("t", [feed]).scan(ScanRequest(())).split(job_context())
    batch = partition.read()
    assert isinstance(batch, pa.RecordBatch)
    assert (batch.num_rows, batch.num_columns) == (1, 0)
