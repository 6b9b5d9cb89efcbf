"""OVER for rows that do not fit in memory.

The calls are computed in steps. The calls of a step partition by a common key: rows are written to
files by the hash of this key, and each file is computed on its own. The rows of a step, with the
values of its calls appended, are the input of the next step. Rows that cannot be divided, because
the calls have no key or because one partition has nearly all rows, are passed to DuckDB, which
sorts externally.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import empty_columns, join_batches
from runnel.expressions.context import EvaluationInput as Rows
from runnel.expressions.evaluate import compile_expression, evaluate
from runnel.expressions.nodes import Column, Expression
from runnel.expressions.properties import can_fail, is_volatile
from runnel.foreign.fragment import InputRows, Unrenderable
from runnel.processor import Processor, ProcessorContext
from runnel.processors.grouping.hash_partitions import DEEPEST, HashPartitions
from runnel.processors.over.calls import ROW_BYTES, CompiledWindow, by_arrangement, computed
from runnel.processors.over.nested import Nested
from runnel.processors.over.on_duckdb import on_duckdb, try_out
from runnel.relation.nodes import Field
from runnel.relation.over import Window, WindowCall
from runnel.sqltypes import BOOLEAN
from runnel.storage.memory_budget import Memory, Reservation, size_of, too_large
from runnel.storage.spill import SpillFile

CallIndexes = tuple[int, ...]


class SpilledWindow:
    """The rows of one processor, spilled to files as they arrive."""

    def __init__(self, plan: CompiledWindow, memory: Memory, context: ProcessorContext) -> None:
        self._plan = plan
        self._memory = memory
        fields = plan.fields
        self._needs_column = fields == ()
        if self._needs_column:
            # A table of DuckDB has at least one column.
            fields = (Field("c0", BOOLEAN),)
        steps = _steps(plan.calls)
        is_divided = fields is None or all(keys for keys, _ in steps)
        if (
            fields is not None
            and not is_divided
            and _on_duckdb(_plain(fields, plan.calls), context) is not None
        ):
            steps = [((), tuple(range(len(plan.calls))))]
        self._order = [index for _, indexes in steps for index in indexes]
        self._steps: list[_Step] = []
        for keys, indexes in steps:
            calls = [plan.calls[index] for index in indexes]
            self._steps.append(
                (_HashedFiles if keys else _Whole)(calls, keys, fields, memory, context)
            )
            if fields is not None:
                fields = (
                    *fields,
                    *(
                        Field(f"$w{len(fields) + i}", call.call.type)
                        for i, call in enumerate(calls)
                    ),
                )

    def take(self, batch: pa.RecordBatch) -> None:
        if self._needs_column:
            batch = pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows, pa.bool_())], ["c0"])
        self._steps[0].take(batch)

    def results(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows with the values of all calls, and empty batches as pauses. Each step is
        closed once its rows were read."""
        for step, following in zip(self._steps, self._steps[1:], strict=False):
            for rows in step.results():
                if rows.num_rows:
                    following.take(rows)
                yield empty_columns(0)
            step.close()
        for rows in self._steps[-1].results():
            if rows.num_rows:
                values = rows.columns[len(rows.columns) - len(self._order) :]
                yield from self._plan.output(
                    rows, [values[self._order.index(i)] for i in range(len(values))]
                )
            else:
                yield empty_columns(0)

    def close(self) -> None:
        """Release memory and files."""
        for step in self._steps:
            step.close()


def _steps(calls: Sequence[WindowCall]) -> list[tuple[tuple[Expression, ...], CallIndexes]]:
    """The steps: the keys by which all calls of the step partition, and the indexes of its calls.

    A step without keys comes last.
    """
    steps: list[tuple[tuple[Expression, ...], CallIndexes]] = []
    for index, call in enumerate(calls):
        call_keys = tuple(key for key in call.partition if not is_volatile(key))
        for number, (keys, indexes) in enumerate(steps):
            common = tuple(key for key in keys if key in call_keys)
            if common or not (keys or call_keys):
                steps[number] = (common, (*indexes, index))
                break
        else:
            steps.append((call_keys, (index,)))
    return sorted(steps, key=lambda step: not step[0])


def _relation(fields: tuple[Field, ...], calls: Sequence[WindowCall]) -> Window:
    # DuckDB requires names that are distinct and not empty.
    columns = tuple(Field(f"c{i}", item.type) for i, item in enumerate(fields))
    return Window(
        input=InputRows(number=0, columns=columns),
        calls=tuple(calls),
        names=tuple(f"w{i}" for i in range(len(calls))),
    )


@frozen
class _Plain:
    """Calls whose keys cannot fail, as DuckDB requires: failing keys are computed as columns first.

    fields: the columns of the rows, then one column for each expression of `computed`.
    calls: the calls over `fields`.
    width: the number of columns of the rows.
    computed: the keys that can fail, over the columns of the rows.
    """

    fields: tuple[Field, ...]
    calls: tuple[WindowCall, ...]
    width: int
    computed: tuple[Expression, ...]


def _plain(fields: tuple[Field, ...], calls: Sequence[WindowCall]) -> _Plain:
    width, computed = len(fields), dict[Expression, Column]()

    def plain(key: Expression) -> Expression:
        if not can_fail(key):
            return key
        return computed.setdefault(
            key, Column(index=width + len(computed), name="", type=key.type, position=key.position)
        )

    changed = tuple(
        replace(
            call,
            partition=tuple(map(plain, call.partition)),
            order=tuple(key.mapped(plain) for key in call.order),
        )
        for call in calls
    )
    added = tuple(Field("", key.type) for key in computed)
    return _Plain((*fields, *added), changed, width, tuple(computed))


def _on_duckdb(plain: _Plain, context: ProcessorContext) -> Processor | None:
    """A processor that runs the calls on DuckDB; None if DuckDB cannot run them."""
    if context.job.kernel is None:
        return None
    relation = _relation(plain.fields, plain.calls)
    names = [f"c{i}" for i in range(len(plain.fields) + len(plain.calls))]
    try:
        make = on_duckdb(relation, names)
        try_out(relation, context.job)
    except Unrenderable:
        return None
    return make()


class _Whole:
    """Rows that cannot be divided: DuckDB computes the calls."""

    def __init__(
        self,
        calls: Sequence[WindowCall],
        keys: tuple[Expression, ...],
        fields: tuple[Field, ...] | None,
        memory: Memory,
        context: ProcessorContext,
    ) -> None:
        plain = None if fields is None else _plain(fields, calls)
        processor = None if plain is None else _on_duckdb(plain, context)
        if plain is None or processor is None:
            raise too_large(f"the rows of one partition of {_shown(calls)}", memory)
        self._plain = plain
        self._evaluation = context.job.evaluation
        self._compiled = [compile_expression(item) for item in plain.computed]
        self._duckdb = Nested(processor, context)

    def take(self, batch: pa.RecordBatch) -> None:
        if self._compiled:
            frame = Rows(batch.columns, batch.num_rows, self._evaluation)
            columns = [*batch.columns, *(evaluate(item, frame) for item in self._compiled)]
            batch = pa.RecordBatch.from_arrays(columns, [f"c{i}" for i in range(len(columns))])
        self._duckdb.take(batch)

    def results(self) -> Iterator[pa.RecordBatch]:
        width, last = self._plain.width, len(self._plain.fields)
        for batch in self._duckdb.results():
            # An empty batch is a pause.
            yield (
                batch.select([*range(width), *range(last, batch.num_columns)])
                if batch.num_rows
                else batch
            )

    def close(self) -> None:
        self._duckdb.close()


class _HashedFiles:
    """Rows in files by the hash of `keys`, by which all calls partition.

    `level` is the number of times that the rows were divided before.
    """

    def __init__(
        self,
        calls: Sequence[WindowCall],
        keys: tuple[Expression, ...],
        fields: tuple[Field, ...] | None,
        memory: Memory,
        context: ProcessorContext,
        level: int = 0,
    ) -> None:
        self._calls = calls
        self._keys = keys
        self._fields = fields
        self._memory = memory
        self._context = context
        self._level = level
        self._compiled_keys = [compile_expression(key) for key in keys]
        self._compiled = by_arrangement(enumerate(calls))
        self._files = HashPartitions(memory, level)
        self._reservation = Reservation(memory)
        self._inner: _Step | None = None

    def take(self, batch: pa.RecordBatch) -> None:
        frame = Rows(batch.columns, batch.num_rows, self._context.job.evaluation)
        self._files.write(batch, [evaluate(key, frame) for key in self._compiled_keys])

    def results(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows with the values of the calls appended, and empty batches as pauses."""
        for file in self._files:
            yield from self._file_results(file)
            file.close()
            self._reservation.release()

    def _file_results(self, file: SpillFile) -> Iterator[pa.RecordBatch]:
        batches: list[pa.RecordBatch] = []
        needed = 0
        reader = file.read()
        for batch in reader:
            batches.append(batch)
            needed += size_of(batch) + ROW_BYTES * batch.num_rows
            self._reservation.set(needed)
            if self._reservation.must_spill:
                yield from self._divided_further(batches, reader, file)
                return
            yield empty_columns(0)
        rows = join_batches(batches)
        del batches
        values: dict[int, pa.Array] = {}
        for found in computed(self._compiled, rows, self._context):
            yield empty_columns(0)
            if found is not None:
                values[found[0]] = found[1]
        columns = [*rows.columns, *(values[i] for i in range(len(values)))]
        yield pa.RecordBatch.from_arrays(columns, [f"c{i}" for i in range(len(columns))])

    def _divided_further(
        self, batches: list[pa.RecordBatch], rest: Iterator[pa.RecordBatch], file: SpillFile
    ) -> Iterator[pa.RecordBatch]:
        """The results of a file that is too large for memory, from the batches read and the rest.

        The rows are divided again; if the last division put all rows into one file, DuckDB computes
        the calls instead.
        """
        can_divide = self._level < DEEPEST and file.rows < sum(
            item.rows for item in self._files.files
        )
        if can_divide:
            self._inner = _HashedFiles(
                self._calls, self._keys, self._fields, self._memory, self._context, self._level + 1
            )
        else:
            self._inner = _Whole(self._calls, self._keys, self._fields, self._memory, self._context)
        while batches:
            self._inner.take(batches.pop(0))
        self._reservation.release()
        for batch in rest:
            self._inner.take(batch)
            yield empty_columns(0)
        yield from self._inner.results()
        self._inner.close()
        self._inner = None

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()
        self._reservation.release()
        self._files.close()


_Step = _HashedFiles | _Whole


def _shown(calls: Sequence[WindowCall]) -> str:
    text = str(calls[0])
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


_SHOWN = 80
