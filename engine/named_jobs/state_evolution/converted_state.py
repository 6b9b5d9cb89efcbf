"""Conversion of state of windows to state of other windows, as `recombination` has decided.

This module replaces the keys in each row of state by the keys of the new windows. The batch is
marked (`RECOMBINED`), so that the operator merges rows whose groups are now equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from runnel.columns.batches import (
    Indexes,
    Mask,
    flags,
    from_flags,
    from_numbers,
    indexes,
    numbers,
    validity,
)
from runnel.columns.key_hash import (
    KEY_METADATA,
    RECOMBINED,
    RUN_METADATA,
    SAVER_METADATA,
    hash_columns,
    keyed_state,
)
from runnel.errors import DataError
from runnel.expressions.kernels.buffers import FIRST_US, LAST_US, pack
from runnel.named_jobs.state_evolution.recombination import Change
from runnel.processors.sessions.ended_sessions import ended_state, is_ended_state
from runnel.processors.sources.partition_watermarks import event_times
from runnel.processors.time_windows.frames import FrameTimes
from runnel.relation.state_identity import Form, StateWindows
from runnel.relation.streams import WINDOW_COLUMNS, WindowKind, WindowShape
from runnel.sqltypes import BIGINT

_EMITTED = "given_"
BY_WATERMARK = (["watermark", "time"], ["$watermark", "$seen"])
"""The first columns of state with one row for each watermark: its number comes first."""

_START, _END = (
    WINDOW_COLUMNS.index(name) - len(WINDOW_COLUMNS) for name in ("window_start", "window_end")
)


def converted(
    batches: Sequence[pa.RecordBatch], change: Change | None, watermarks: Mapping[int, int]
) -> Iterator[pa.RecordBatch]:
    """The state of a vertex for another plan. `watermarks` are the new numbers of watermarks by
    their old ones."""
    if change is not None and change.forms[0] is Form.SESSIONS:
        yield from _SessionStates(change, batches).converted()
        return
    states = (
        None if change is None or change.forms[0] is Form.SESSION_ROWS else _WindowStates(change)
    )
    for batch in batches:
        if batch.schema.names[:2] in BY_WATERMARK:
            times = _renumbered(batch, watermarks)
            found = times if states is None else states.watermarks(times)
        else:
            found = batch if states is None else states.groups(batch)
        if found is not None and found.num_rows:
            yield found


def of_other_stage(batches: Iterable[pa.RecordBatch], is_first: bool) -> Iterator[pa.RecordBatch]:
    """State of an aggregation that now has more or fewer stages: its processors had other groups,
    and did or did not count the rows of each group. The watermarks in the first of two stages
    (`is_first`) are left out, since they do not say which groups were emitted."""
    for batch in batches:
        if batch.schema.names[0] != "watermark":
            yield batch.replace_schema_metadata({**_of_any_processor(batch), RECOMBINED: b""})
        elif not is_first:
            yield batch


def _of_any_processor(batch: pa.RecordBatch) -> dict[bytes, bytes]:
    """The metadata of a batch, except which processor has saved it, and in which run."""
    metadata = batch.schema.metadata or {}
    return {
        name: value
        for name, value in metadata.items()
        if name not in (SAVER_METADATA, RUN_METADATA)
    }


def _renumbered(batch: pa.RecordBatch, watermarks: Mapping[int, int]) -> pa.RecordBatch:
    found = [watermarks.get(number, number) for number in batch.column(0).to_pylist()]
    return batch.set_column(0, batch.schema.field(0), pack(found, BIGINT))


class _WindowStates:
    """Converts states of windows of a fixed size."""

    def __init__(self, change: Change) -> None:
        old, new = change.before, change.after
        self._change, self._old, self._new = change, old, new
        self._from, self._to = change.forms
        self._after = _times(new.shape)
        self._width = 1 + len(old.keys) if self._from is Form.FRAMES else len(old.key_indexes)
        self._is_plain = (
            change.is_same and old.keys == new.keys and old.key_indexes == new.key_indexes
        )
        self._drops_due = not change.is_same or (old.lateness > 0 and not new.lateness)

    def watermarks(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The times of watermarks, with the time below which rows remain late if late rows are
        allowed."""
        plain = batch.select([0, 1])
        if not self._new.lateness:
            return plain
        times = numbers(batch.column(1), np.int64)
        floor = times - self._old.lateness if self._change.is_same else times
        if batch.num_columns > 2:
            floor = np.maximum(floor, numbers(batch.column(2), np.int64))
        return plain.append_column("floor", from_numbers(floor, pa.int64()))

    def groups(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Groups, or the distinct arguments of groups. None if the new plan does not need them."""
        is_emitted = batch.schema.names[0].startswith(_EMITTED)
        if is_emitted and self._change.is_same and not self._new.lateness:
            return None
        stays_emitted = is_emitted and self._change.is_same
        if self._is_plain:
            return self._marked(batch)
        rows, ends = self._ends(batch)
        keys = self._keys(batch, ends, rows)
        rest = [
            column if rows is None else column.take(indexes(rows))
            for column in batch.columns[self._width :]
        ]
        columns = [*keys, *rest]
        names = self._names(
            batch.schema.names[0].removeprefix(_EMITTED), batch.schema.names, len(keys)
        )
        names = [(_EMITTED if stays_emitted else "") + name for name in names]
        divided_by = names[: len(keys)]
        if self._to is Form.FRAMES:
            divided_by = divided_by[1:] or divided_by
        made = keyed_state(pa.RecordBatch.from_arrays(columns, names=names), *divided_by)
        return self._marked(
            made.replace_schema_metadata({**_of_any_processor(batch), **made.schema.metadata})
        )

    def _marked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self._drops_due:
            return batch
        return batch.replace_schema_metadata({**(batch.schema.metadata or {}), RECOMBINED: b""})

    def _names(self, first: str, names: Sequence[str], keys: int) -> list[str]:
        """The names of the columns: first the keys, numbered from 0, then the states, or in sets of
        distinct arguments these."""
        if first.startswith("d"):
            prefix = first.partition("_")[0]
            return [f"{prefix}_{i}" for i in range(keys + len(names) - self._width)]
        return [
            *(f"k{i}" for i in range(keys)),
            *(name.removeprefix(_EMITTED) for name in names[self._width :]),
        ]

    def _ends(self, batch: pa.RecordBatch) -> tuple[Indexes | None, pa.Array]:
        """The ends of the new panes or windows of rows, and the row of each end (None: one end for
        each row, in order)."""
        if min(self._old.key_indexes, default=-1) >= 0:
            return None, batch.column(0)  # there are no bounds among the keys
        old = self._old_ends(batch)
        if self._change.is_same:
            return None, old
        valid = validity(old)
        frames = self._after.frame_ends(from_numbers(numbers(old, np.int64) - 1, pa.int64(), valid))
        ends = numbers(frames, np.int64)
        self._check(ends if valid is None else ends[valid])
        # Each pane is part of several windows, and its row is repeated for each of them. Here two
        # rows of TUMBLE 10 become rows of HOP 20 with slide 10:
        #   old end   10, 20
        #   pane end  10, 20       the new panes are 10 long
        #   first     10, 20       the end of the first window that contains the pane
        #   last end  20, 30       the end of the last one
        #   counts    2, 2
        #   rows      0, 0, 1, 1   the old row of each new one
        #   number    0, 1, 0, 1   which of the windows it is
        #   found     10, 20, 20, 30
        if self._to is not Form.WINDOWS:
            return None, frames
        first = self._after.first_end(ends)
        counts = (self._after.last_end(ends) - first) // self._new.shape.step + 1
        if valid is not None:
            counts = np.where(valid, counts, 1)
        rows = np.repeat(np.arange(len(ends)), counts)
        number = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        found = first[rows] + number * self._new.shape.step
        return rows, from_numbers(found, pa.int64(), None if valid is None else valid[rows])

    def _old_ends(self, batch: pa.RecordBatch) -> pa.Array:
        if self._from is Form.FRAMES:
            return batch.column(0)
        # Windows of CUMULATE that begin together have different ends.
        key = max(self._old.key_indexes, key=lambda item: (item < 0, item != _START))
        times = event_times(batch.column(self._old.key_indexes.index(key)))
        by = 0 if key == _END else self._old.shape.size if key == _START else 1
        return (
            from_numbers(numbers(times, np.int64) + by, pa.int64(), validity(times))
            if by
            else times
        )

    def _keys(self, batch: pa.RecordBatch, ends: pa.Array, rows: Indexes | None) -> list[pa.Array]:
        old, new = self._old, self._new
        positions = [1 + i for i in range(len(old.keys))]
        if self._from is not Form.FRAMES:
            positions = [old.key_indexes.index(i) for i in range(len(old.keys))]
        of_text = dict(zip(old.keys, (batch.column(i) for i in positions), strict=True))
        others = [of_text[text] for text in new.keys]
        if rows is not None:
            others = [column.take(indexes(rows)) for column in others]
        if self._to is Form.FRAMES:
            return [ends, *others]
        return [self._bound(ends, key) if key < 0 else others[key] for key in new.key_indexes]

    def _bound(self, ends: pa.Array, position: int) -> pa.Array:
        values, valid = numbers(ends, np.int64), validity(ends)
        found = (
            values
            if position == _END
            else self._after.start(values)
            if position == _START
            else values - 1
        )
        kind = _bound_type(self._new.bound)
        if pa.types.is_integer(kind):
            return from_numbers(found.astype(np.dtype(f"i{kind.bit_width // 8}")), kind, valid)
        return from_numbers(found, pa.int64(), valid).view(kind)

    def _check(self, ends: Indexes) -> None:
        """DataError if a window might have a bound outside the range of the type."""
        kind = _bound_type(self._new.bound)
        half = 1 << (kind.bit_width - 1)
        least, greatest = (-half, half - 1) if pa.types.is_integer(kind) else (FIRST_US, LAST_US)
        size = self._new.shape.size
        if len(ends) and (
            int(ends.min()) - 1 < least + size or int(ends.max()) - 1 > greatest - size
        ):
            raise DataError(
                f"{self._new} have bounds that are out of the range of the time column's type"
            )


def _times(shape: WindowShape) -> FrameTimes:
    """The panes of a window shape; a window of TUMBLE is one pane."""
    if shape.kind is WindowKind.TUMBLE:
        shape = WindowShape(WindowKind.HOP, shape.size, shape.size, shape.offset)
    return FrameTimes(shape)


def _bound_type(text: str) -> pa.DataType:
    """The Arrow type whose `str` is `text`."""
    zone = text.partition("tz=")[2].rstrip("]")
    return pa.timestamp("us", zone) if zone else pa.type_for_alias(text)


class _SessionStates:
    """Converts states of sessions. The first column of a batch is the time of the first event, the
    last column the time of the last one, and the column before it whether the session is still to
    be emitted."""

    def __init__(self, change: Change, batches: Sequence[pa.RecordBatch]) -> None:
        self._old: StateWindows = change.before
        self._new: StateWindows = change.after
        self._batches = batches
        times = [
            int(numbers(batch.column(0), np.int64)[0])
            for batch in batches
            if self._is_watermark(batch)
        ]
        self._watermark = min(times, default=0)

    def _is_watermark(self, batch: pa.RecordBatch) -> bool:
        return str(batch.schema.names[0]) == "$watermark"

    def converted(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            if is_ended_state(batch):
                yield batch
                continue
            if not self._is_watermark(batch) and self._old.lateness and not self._new.lateness:
                yield self._ended(batch)
            found = self._with_floor(batch) if self._is_watermark(batch) else self._groups(batch)
            if found.num_rows:
                yield found

    def _ended(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The state of sessions that were emitted and no longer wait for late rows: the time ranges
        that later rows must not touch."""
        position, gap = batch.num_columns - 2, self._old.shape.size
        gone = batch.filter(
            from_flags(~(flags(batch.column(position)) | self._is_open(batch.column(position + 1))))
        )
        keys = (batch.schema.metadata or {}).get(KEY_METADATA, b"").decode().split("\n")
        columns = [gone.column(name) for name in keys if name]
        hashes = hash_columns(columns) if columns else np.zeros(gone.num_rows, np.uint64)
        return ended_state(
            hashes,
            numbers(gone.column(0), np.int64),
            numbers(gone.column(position + 1), np.int64) + gap,
        )

    def _with_floor(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self._new.lateness:
            return batch.select([0])
        floor = numbers(batch.column(0), np.int64) - self._old.lateness
        if batch.num_columns > 1:
            floor = np.maximum(floor, numbers(batch.column(1), np.int64))
        return batch.select([0]).append_column("floor", from_numbers(floor, pa.int64()))

    def _groups(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        position = batch.num_columns - 2
        if not self._old.lateness:
            return batch.set_column(
                position,
                batch.schema.field(position),
                from_flags(np.ones(batch.num_rows, np.bool_)),
            )
        is_pending: Mask = flags(batch.column(position))
        is_open = self._is_open(batch.column(position + 1))
        if not self._new.lateness:
            return batch.filter(from_flags(is_pending | is_open))
        return batch.set_column(
            position, batch.schema.field(position), from_flags(is_pending | is_open)
        )

    def _is_open(self, last: pa.Array) -> Mask:
        """Which sessions have not ended by the new gap; sessions without a time never end."""
        valid = validity(last)
        is_open: Mask = numbers(last, np.int64) >= self._watermark - self._new.shape.size
        return is_open if valid is None else is_open | ~valid
