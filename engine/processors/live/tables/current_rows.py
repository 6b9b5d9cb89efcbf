"""The processor of tables that are known by a log of their changes."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pyarrow as pa

from runnel.columns.batches import Indexes
from runnel.dag import ProcessorFactory
from runnel.processors.live.live_processor import LiveProcessor, LiveResult
from runnel.processors.live.tables.change_events import EventShape, unknown_row
from runnel.processors.live.tables.counted_rows import CountedRows
from runnel.processors.live.tables.keyed_rows import KeyedRows
from runnel.relation.changing_tables import EventLog, OnInconsistency

LOGGER = logging.getLogger("runnel.job")


def current_rows(
    log: EventLog,
    key: tuple[int, ...] | None,
    schema: pa.Schema,
    location: Sequence[pa.DataType],
    *,
    is_live: bool,
) -> ProcessorFactory:
    """Return a supplier of processors that emit the current rows of a table.

    log: how the events describe the rows.
    key: the indexes of the columns that identify a row; None: all columns do.
    schema: the columns of the table, the first columns of the input.
    location: the types of the last columns of the input.
    is_live: whether the changes of each epoch are emitted, with their weights; otherwise the rows
        at the end of the input.
    """
    names = tuple(name for _, name in log.location)
    shape = EventShape(len(schema), key is not None, log.source, names)
    types = (*schema.types, *location)

    def report(columns: Sequence[pa.Array], events: Indexes) -> None:
        if log.on_inconsistency is OnInconsistency.ALLOW:
            return
        event, count = shape.text_of(columns, int(events[0])), len(events)
        if log.on_inconsistency is OnInconsistency.FAIL:
            raise unknown_row(event, count)
        LOGGER.warning(
            "ignored %d event(s) that remove rows that the table does not contain, such as %s",
            count,
            event,
        )

    def make(to: LiveProcessor) -> LiveResult:
        if key is not None:
            return KeyedRows(shape, key, types, report)
        checks = log.on_inconsistency is not OnInconsistency.TRUST
        return CountedRows(shape, types, report if checks else None, repeats=not is_live)

    return lambda: LiveProcessor(make, schema, is_changing=is_live)
