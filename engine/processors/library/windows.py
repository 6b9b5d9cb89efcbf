"""Watermarks and windows of event time in hand-built DAGs.

Windows are computed in one stage, or in two: each processor accumulates its rows by pane, which is
the time between two neighbouring bounds of windows, and a second stage combines the panes to
windows.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import numbers
from runnel.dag import ProcessorFactory, storable
from runnel.errors import InterfaceError, ProgrammingError
from runnel.expressions.aggregates.registry import aggregate_call
from runnel.expressions.context import EvaluationContext
from runnel.expressions.kernels.values import canonical
from runnel.expressions.nodes import AggregateCall, Column
from runnel.processors.grouping.aggregation import AggregationStage
from runnel.processors.library.aggregate_operation import LIBRARY, AggregateOperation
from runnel.processors.library.by_schema import OperatorProcessor
from runnel.processors.library.mappings import check_unique
from runnel.processors.library.pane_operations import PaneOperations, PaneRule
from runnel.processors.library.session_operations import SessionOperations, SessionRule
from runnel.processors.library.typed_rows import column_of, field_of
from runnel.processors.sessions.session_aggregate import (
    SessionAggregateProcessor,
    SessionAggregation,
    SessionEmission,
    SessionKeys,
)
from runnel.processors.sources.impose_order import ImposeOrderProcessor
from runnel.processors.sources.partition_watermarks import (
    CompiledTimeRule,
    TimeRule,
    event_times,
)
from runnel.processors.stateful.buffered import EmittingProcessor
from runnel.processors.time_windows.framed_aggregate import (
    FramedAggregateProcessor,
    FramedAggregation,
    FramedKeys,
)
from runnel.processors.time_windows.timed_aggregate import Timing
from runnel.relation.streams import TimeBound, WindowKind, WindowShape
from runnel.sqltypes import BIGINT, from_arrow

Span = timedelta | int
"""A span of event time: a timedelta for temporal columns, an int for integer columns."""

Operations = Mapping[str, AggregateOperation]

ROWS = b"runnel.rows"
"""The metadata key of accumulated batches: the columns of the rows."""

BOUNDS = (-3, -2)
"""The first columns of the result, as the operators of SQL number them: window_start and
window_end."""


@frozen
class WindowDefinition:
    """Windows of equal size.

    size: the length of a window.
    step: the distance of two neighbouring windows.
    offset: a start of a window, instead of 0 (for temporal columns 1970-01-01 UTC).
    """

    size: Span
    step: Span
    offset: Span = 0


@storable(LIBRARY)
def tumbling(size: Span, offset: Span = 0) -> WindowDefinition:
    """Windows that follow one another without overlap."""
    return sliding(size, size, offset)


@storable(LIBRARY)
def sliding(size: Span, step: Span, offset: Span = 0) -> WindowDefinition:
    """Windows of a size, of which one begins with each step. The size is a multiple of the step."""
    _check_span("the size of a window", size, least=1)
    _check_span("the step of a window", step, least=1)
    _check_span("the offset of a window", offset)
    zero = type(size)(0)
    if type(size) is not type(step) or (offset and type(offset) is not type(size)):
        raise InterfaceError("size, step and offset must all be timedeltas, or all be integers")
    if size % step != zero:  # type: ignore[operator]
        raise ProgrammingError(
            f"the size of a window, {size}, isn't a multiple of its step, {step}"
        )
    return WindowDefinition(size, step, offset)


def _check_span(what: str, value: object, least: int | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, timedelta | int):
        raise InterfaceError(f"{what} must be a timedelta or an int, not {type(value).__name__}")
    units = value // timedelta(microseconds=1) if isinstance(value, timedelta) else value
    if least is not None and units < least:
        raise ProgrammingError(f"{what} must be positive, not {value}")


def time_column(schema: pa.Schema, name: str) -> Column:
    """Return the column of the event time; ProgrammingError if its type has no order in time."""
    column = column_of(schema, name)
    kind = field_of(schema, name).type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_integer(kind)):
        raise ProgrammingError(
            f'the time column "{name}" can\'t have type {column.type}',
            hint="use a timestamp, a date or an integer",
        )
    return column


def units_of(span: Span, column: Column, what: str) -> int:
    """Return a span in units of the time column: microseconds, or the column's own."""
    if isinstance(span, timedelta):
        if column.type.is_integer:
            raise ProgrammingError(
                f'{what} is a timedelta, but the time column "{column.name}" is an integer',
                hint="pass an integer in the unit of the column",
            )
        return span // timedelta(microseconds=1)
    if span and not column.type.is_integer:
        raise ProgrammingError(
            f'{what} is an integer, but the time column "{column.name}" has type {column.type}',
            hint="pass a datetime.timedelta",
        )
    return span


class _NamedTimeRule(CompiledTimeRule):
    """A rule whose time column is found by name in each batch."""

    def __init__(self, name: str, lag: Span, idle_timeout: int | None) -> None:
        column = Column(index=0, name=name, type=BIGINT)
        microseconds = lag // timedelta(microseconds=1) if isinstance(lag, timedelta) else lag
        super().__init__(TimeRule(column, None, microseconds, 0, idle_timeout))
        self._name = name
        self._lag = lag

    def greatest(self, batch: pa.RecordBatch, context: EvaluationContext) -> int | None:
        column = time_column(batch.schema, self._name)
        units_of(self._lag, column, "the lag")
        found = batch.column(self._name)
        times = event_times(canonical(found, from_arrow(found.type)))
        times = times.drop_null()
        return int(numbers(times, np.int64).max()) if len(times) else None


@storable(LIBRARY)
def insert_watermarks(
    time: str, *, lag: Span = 0, idle_timeout: timedelta | None = None
) -> ProcessorFactory:
    """A step that emits its rows, and after each batch a watermark.

    time: name of the column with the event time.
    lag: how far the watermark is below the greatest event time so far.
    idle_timeout: time without rows after which the processor no longer holds back the watermark of
        its consumers; None: one second; timedelta(0): never.
    """
    _check_span("the lag", lag)
    if (lag if isinstance(lag, int) else lag // timedelta(microseconds=1)) < 0:
        raise ProgrammingError(f"the lag must not be negative, but is {lag}")
    if idle_timeout is not None and not isinstance(idle_timeout, timedelta):
        raise InterfaceError("idle_timeout must be a timedelta")
    millis = None if idle_timeout is None else idle_timeout // timedelta(milliseconds=1)
    if millis is not None and millis < 0:
        raise ProgrammingError(f"idle_timeout must not be negative, but is {idle_timeout}")
    rule = _NamedTimeRule(time, lag, millis)
    return lambda: ImposeOrderProcessor(rule)


@storable(LIBRARY)
def aggregate_by_window(
    *keys: str, time: str, window: WindowDefinition, **operations: AggregateOperation
) -> ProcessorFactory:
    """Return a supplier of processors that aggregate by windows and keys.

    They emit window_start, window_end, the keys and one column per operation, when the watermark
    passes the end of the window. An edge to several of these processors must be partitioned by the
    keys. Rows that are late for a window are not in it; they are counted and logged.

    time: name of the column with the event time.
    window: `tumbling(…)` or `sliding(…)`.
    """
    return _by_window(keys, time, window, operations, AggregationStage.SINGLE)


@storable(LIBRARY)
def accumulate_by_pane(
    *keys: str, time: str, window: WindowDefinition, **operations: AggregateOperation
) -> ProcessorFactory:
    """Return the first of two stages: each processor accumulates the rows that it receives.

    It must be followed by `combine_by_window` with the same arguments, on an edge that is
    partitioned by the keys.
    """
    return _by_window(keys, time, window, operations, AggregationStage.ACCUMULATE)


@storable(LIBRARY)
def combine_by_window(
    *keys: str, time: str, window: WindowDefinition, **operations: AggregateOperation
) -> ProcessorFactory:
    """Return the second of two stages, which emits the same rows as `aggregate_by_window`.

    Accumulators of user-defined operations are pickled, and unpickling can run any code. Only
    connect it to `accumulate_by_pane`, never to rows from a file or a network.
    """
    return _by_window(keys, time, window, operations, AggregationStage.COMBINE)


@storable(LIBRARY)
def aggregate_by_session(
    *keys: str, time: str, gap: Span, **operations: AggregateOperation
) -> ProcessorFactory:
    """Return a supplier of processors that aggregate by sessions.

    A session consists of the rows of a key that are at most `gap` apart. They emit window_start,
    window_end (the last event time plus the gap), the keys and one column per operation, when the
    watermark passes the end of the session.

    time: name of the column with the event time.
    """
    _check_span("the gap of sessions", gap, least=1)
    _check_window(keys, time, operations)
    are_of_sql = _are_of_sql(operations)

    def compile_for(schema: pa.Schema) -> EmittingProcessor:
        column = time_column(schema, time)
        distance = units_of(gap, column, "the gap")
        if not are_of_sql:
            return SessionOperations(SessionRule(keys, time, distance, operations), schema)
        by = SessionKeys(
            gap=distance,
            time=column,
            keys=tuple(column_of(schema, key) for key in keys),
            partition=tuple(range(len(keys))),
            columns=(*BOUNDS, *range(len(keys))),
            bound=TimeBound(0),
        )
        aggregation = SessionAggregation(
            by, _calls(schema, operations), _result_names(keys, operations)
        )
        processor = SessionAggregateProcessor(aggregation, SessionEmission())
        processor.is_divided_by_hash = False  # an edge may divide by some keys, or by a function
        return processor

    return lambda: OperatorProcessor(compile_for, keys, is_alone=not keys)


def _by_window(
    keys: tuple[str, ...],
    time: str,
    window: WindowDefinition,
    operations: Operations,
    stage: AggregationStage,
) -> ProcessorFactory:
    if not isinstance(window, WindowDefinition):
        raise InterfaceError(
            f"a window can't be a value of class {type(window).__name__}",
            hint="make it by tumbling(size) or sliding(size, step)",
        )
    _check_window(keys, time, operations)
    is_combine = stage is AggregationStage.COMBINE
    are_of_sql = _are_of_sql(operations)

    def compile_for(schema: pa.Schema) -> EmittingProcessor:
        rows = pa.ipc.read_schema(pa.py_buffer(schema.metadata[ROWS])) if is_combine else schema
        if are_of_sql:
            return _framed(rows, keys, (time, window), operations, stage)
        rule = PaneRule(keys, time, _shape(window, time_column(rows, time)), operations)
        described = {ROWS: rows.serialize().to_pybytes()}
        return PaneOperations(rule, stage, rows, described)

    is_alone = not keys and stage is not AggregationStage.ACCUMULATE
    return lambda: OperatorProcessor(compile_for, keys, is_state=is_combine, is_alone=is_alone)


def _check_window(keys: tuple[str, ...], time: object, operations: Operations) -> None:
    if not isinstance(time, str):
        raise InterfaceError(f"time must name a column, not be a {type(time).__name__}")
    for name, operation in operations.items():
        if not isinstance(operation, AggregateOperation):
            raise InterfaceError(
                f'"{name}" must be an AggregateOperation, not {type(operation).__name__}'
            )
    check_unique(_result_names(keys, operations), "name the operation otherwise")


def _are_of_sql(operations: Operations) -> bool:
    return all(item.equivalent is not None for item in operations.values())


def _result_names(keys: tuple[str, ...], operations: Operations) -> tuple[str, ...]:
    return ("window_start", "window_end", *keys, *operations)


def _calls(schema: pa.Schema, operations: Operations) -> tuple[AggregateCall, ...]:
    equivalents = [item.equivalent for item in operations.values() if item.equivalent is not None]
    return tuple(
        aggregate_call(function, [] if name is None else [column_of(schema, name)])
        for function, name in equivalents
    )


def _shape(window: WindowDefinition, column: Column) -> WindowShape:
    return WindowShape(
        WindowKind.HOP,
        units_of(window.size, column, "the size of a window"),
        units_of(window.step, column, "the step of a window"),
        units_of(window.offset, column, "the offset of a window"),
    )


def _framed(
    schema: pa.Schema,
    keys: tuple[str, ...],
    windows: tuple[str, WindowDefinition],
    operations: Operations,
    stage: AggregationStage,
) -> EmittingProcessor:
    """Return the operator of SQL for windows of rows with these columns."""
    column = time_column(schema, windows[0])
    framed = FramedKeys(
        shape=_shape(windows[1], column),
        time=column,
        keys=tuple(column_of(schema, key) for key in keys),
        columns=(*BOUNDS, *range(len(keys))),
        bound=TimeBound(0),
    )
    names = _result_names(keys, operations)
    aggregation = FramedAggregation(framed, _calls(schema, operations), names, stage)
    if stage is AggregationStage.ACCUMULATE:
        width = 1 + len(keys)
        named = ["$pane", *keys, *aggregation.schema.names[width:]]
        fields = [
            field.with_name(name) for field, name in zip(aggregation.schema, named, strict=True)
        ]
        aggregation.schema = pa.schema(fields, {ROWS: schema.serialize().to_pybytes()})
    return FramedAggregateProcessor(aggregation, Timing(framed.timing))
