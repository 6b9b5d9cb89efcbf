"""Random logs of changes for live queries, and the rows that they describe."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from runnel.connectors.pushed.rows import stream_columns
from runnel.expressions import build
from runnel.expressions.nodes import Column
from runnel.relation.changing_tables import ChangingTable, EventLog, OnInconsistency
from tests.streams.scripted_table import Entry, ScriptedTable

Row = tuple[Any, ...]
KEY = ("y", "t")
"""The key of a table that has one."""


def events_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of events: the operation, the row after them and the row before them."""
    after = [pa.field(f"after_{item.name}", item.type) for item in schema]
    before = [pa.field(f"before_{item.name}", item.type) for item in schema]
    flags = [pa.field("has_after", pa.bool_()), pa.field("has_before", pa.bool_())]
    return pa.schema([pa.field("op", pa.string()), *flags, *after, *before])


def random_log(
    rng: random.Random,
    sizes: Sequence[int],
    schema: pa.Schema,
    rows: Callable[[int], pa.RecordBatch],
    *,
    keyed: bool,
) -> list[pa.RecordBatch]:
    """Batches of events, in which only rows disappear that had appeared.

    rows: makes random rows.
    """
    key = [schema.names.index(name) for name in KEY]
    present: list[Row] = []
    batches = []
    for size in sizes:
        events: list[Row] = []
        for row in zip(*(column.to_pylist() for column in rows(size).columns), strict=True):
            old = rng.choice(present) if present and rng.random() < 0.6 else None
            if old is not None and rng.random() < 0.5:
                present.remove(old)
                events.append(_event("d", None, old))
                continue
            if keyed:
                same = [item for item in present if [item[i] for i in key] == [row[i] for i in key]]
                old = same[0] if same else None
            if old is not None:
                present.remove(old)
            present.append(row)
            events.append(_event("c" if old is None else "u", row, None if keyed else old))
        columns = zip(*events, strict=True)
        arrays = [
            pa.array(column, item.type)
            for column, item in zip(columns, events_schema(schema), strict=True)
        ]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=events_schema(schema)))
    return batches


def _event(operation: str, after: Row | None, before: Row | None) -> Row:
    width = len(after or before or ())
    nothing = (None,) * width
    flags = (after is not None, before is not None)
    return (operation, *flags, *(after or nothing), *(before or nothing))


def rows_of_log(batches: Sequence[pa.RecordBatch], schema: pa.Schema, *, keyed: bool) -> pa.Table:
    """The rows after all events of a partition."""
    width = len(schema)
    key = [schema.names.index(name) for name in KEY]
    counts: Counter[Row] = Counter()
    by_key: dict[Row, Row] = {}
    for batch in batches:
        for event in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            has_after, has_before = event[1:3]
            after, before = event[3 : 3 + width], event[3 + width :]
            if keyed:
                row = after if has_after else before
                by_key.pop(tuple(row[i] for i in key), None)
                if has_after:
                    by_key[tuple(row[i] for i in key)] = row
                continue
            if has_before:
                counts[before] -= 1
            if has_after:
                counts[after] += 1
    rows = [*by_key.values(), *counts.elements()]
    columns = [[row[i] for row in rows] for i in range(width)]
    arrays = [pa.array(values, item.type) for values, item in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def log_table(
    name: str, schema: pa.Schema, scripts: Sequence[Sequence[Entry]], *, keyed: bool
) -> ChangingTable:
    """The table of the events in the scripts."""
    events = ScriptedTable(name, events_schema(schema), scripts, None)
    columns = [
        Column(index=i, name=item.name, type=item.type) for i, item in enumerate(events.columns)
    ]
    width = len(schema)
    log = EventLog(
        operation=columns[0],
        after=tuple(columns[3 : 3 + width]),
        before=tuple(columns[3 + width :]),
        has_after=build.call("is_true", [columns[1]]),
        has_before=build.call("is_true", [columns[2]]),
        key=tuple(schema.names.index(item) for item in KEY) if keyed else None,
        on_inconsistency=OnInconsistency.FAIL,
        source=f'script "{name}"',
    )
    return ChangingTable(name, "Script", stream_columns(name, schema), events, log)
