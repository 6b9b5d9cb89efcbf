"""State of windows as that of other windows: what `recombination` has found possible, done to the
rows of a snapshot.

Here each row of state gets the keys of the new windows; which rows are of one group then is for the
operator to find, which is told so (`RECOMBINED`).
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
from runnel.relation.state_identity import Form, Windows
from runnel.relation.streams import WINDOW_COLUMNS, WindowKind, WindowShape
from runnel.sqltypes import BIGINT

_GIVEN = "given_"
BY_WATERMARK = (["watermark", "time"], ["$watermark", "$seen"])
"""The first columns of state that has a row for each watermark: its number comes first."""

_START, _END = (
    WINDOW_COLUMNS.index(name) - len(WINDOW_COLUMNS) for name in ("window_start", "window_end")
)


def converted(
    batches: Sequence[pa.RecordBatch], change: Change | None, watermarks: Mapping[int, int]
) -> Iterator[pa.RecordBatch]:
    """The state of a vertex for another plan, whose watermarks have other numbers perhaps: those
    that `watermarks` pairs with the ones before."""
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
    """State of an aggregation in more or fewer stages: processors had other groups, and count rows
    of each group or don't. The watermark of the first of two stages (`is_first`) says nothing about
    what was given."""
    for batch in batches:
        if batch.schema.names[0] != "watermark":
            yield batch.replace_schema_metadata({**_of_any_processor(batch), RECOMBINED: b""})
        elif not is_first:
            yield batch


def _of_any_processor(batch: pa.RecordBatch) -> dict[bytes, bytes]:
    """The metadata of a batch but for what says which processor has saved it, and with which
    others."""
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
    """States of windows of a fixed size."""

    def __init__(self, change: Change) -> None:
        old, new = change.before, change.after
        self._change, self._old, self._new = change, old, new
        self._from, self._to = change.forms
        self._before, self._after = _times(old.shape), _times(new.shape)
        self._width = 1 + len(old.keys) if self._from is Form.FRAMES else len(old.places)
        self._is_plain = change.is_same and old.keys == new.keys and old.places == new.places
        self._drops_due = not change.is_same or (old.lateness > 0 and not new.lateness)

    def watermarks(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """With the times before which rows stay late, where late rows are allowed."""
        plain = batch.select([0, 1])
        if not self._new.lateness:
            return plain
        times = numbers(batch.column(1), np.int64)
        floor = times - self._old.lateness if self._change.is_same else times
        if batch.num_columns > 2:
            floor = np.maximum(floor, numbers(batch.column(2), np.int64))
        return plain.append_column("floor", from_numbers(floor, pa.int64()))

    def groups(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Groups, or the distinct arguments of groups. None where they are of no use any more."""
        is_given = batch.schema.names[0].startswith(_GIVEN)
        if is_given and self._change.is_same and not self._new.lateness:
            return None
        stays_given = is_given and self._change.is_same
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
            batch.schema.names[0].removeprefix(_GIVEN), batch.schema.names, len(keys)
        )
        names = [(_GIVEN if stays_given else "") + name for name in names]
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
        """Keys are numbered from 0 on; behind them come the states, or in sets of distinct
        arguments these."""
        if first.startswith("d"):
            prefix = first.partition("_")[0]
            return [f"{prefix}_{i}" for i in range(keys + len(names) - self._width)]
        return [
            *(f"k{i}" for i in range(keys)),
            *(name.removeprefix(_GIVEN) for name in names[self._width :]),
        ]

    def _ends(self, batch: pa.RecordBatch) -> tuple[Indexes | None, pa.Array]:
        """The ends of the new frames or windows of rows, and which rows they are of (None: of each
        one)."""
        if min(self._old.places, default=-1) >= 0:
            return None, batch.column(0)  # there are no bounds among the keys
        old = self._old_ends(batch)
        if self._change.is_same:
            return None, old
        valid = validity(old)
        frames = self._after.frame_ends(from_numbers(numbers(old, np.int64) - 1, pa.int64(), valid))
        ends = numbers(frames, np.int64)
        self._check(ends if valid is None else ends[valid])
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
        # Windows of CUMULATE that begin together end apart.
        place = max(self._old.places, key=lambda item: (item < 0, item != _START))
        times = event_times(batch.column(self._old.places.index(place)))
        by = 0 if place == _END else self._old.shape.size if place == _START else 1
        return (
            from_numbers(numbers(times, np.int64) + by, pa.int64(), validity(times))
            if by
            else times
        )

    def _keys(self, batch: pa.RecordBatch, ends: pa.Array, rows: Indexes | None) -> list[pa.Array]:
        old, new = self._old, self._new
        places = [1 + i for i in range(len(old.keys))]
        if self._from is not Form.FRAMES:
            places = [old.places.index(i) for i in range(len(old.keys))]
        of_text = dict(zip(old.keys, (batch.column(place) for place in places), strict=True))
        others = [of_text[text] for text in new.keys]
        if rows is not None:
            others = [column.take(indexes(rows)) for column in others]
        if self._to is Form.FRAMES:
            return [ends, *others]
        return [self._bound(ends, place) if place < 0 else others[place] for place in new.places]

    def _bound(self, ends: pa.Array, place: int) -> pa.Array:
        values, valid = numbers(ends, np.int64), validity(ends)
        found = (
            values
            if place == _END
            else self._after.start(values)
            if place == _START
            else values - 1
        )
        kind = _bound_type(self._new.bound)
        if pa.types.is_integer(kind):
            return from_numbers(found.astype(np.dtype(f"i{kind.bit_width // 8}")), kind, valid)
        return from_numbers(found, pa.int64(), valid).view(kind)

    def _check(self, ends: Indexes) -> None:
        """DataError where a window might have a bound that is none of the type's values."""
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
    """Those of TUMBLE are frames of themselves."""
    if shape.kind is WindowKind.TUMBLE:
        shape = WindowShape(WindowKind.HOP, shape.size, shape.size, shape.offset)
    return FrameTimes(shape)


def _bound_type(text: str) -> pa.DataType:
    """The type that `str` gave this for."""
    zone = text.partition("tz=")[2].rstrip("]")
    return pa.timestamp("us", zone) if zone else pa.type_for_alias(text)


class _SessionStates:
    """States of sessions: the first event is the first column, the last one the last, and before it
    is whether the session is still to be given."""

    def __init__(self, change: Change, batches: Sequence[pa.RecordBatch]) -> None:
        self._old: Windows = change.before
        self._new: Windows = change.after
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
        """Of sessions that were given and wait for late rows no more: what later rows may not
        touch."""
        place, gap = batch.num_columns - 2, self._old.shape.size
        gone = batch.filter(
            from_flags(~(flags(batch.column(place)) | self._is_open(batch.column(place + 1))))
        )
        keys = (batch.schema.metadata or {}).get(KEY_METADATA, b"").decode().split("\n")
        columns = [gone.column(name) for name in keys if name]
        hashes = hash_columns(columns) if columns else np.zeros(gone.num_rows, np.uint64)
        return ended_state(
            hashes,
            numbers(gone.column(0), np.int64),
            numbers(gone.column(place + 1), np.int64) + gap,
        )

    def _with_floor(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self._new.lateness:
            return batch.select([0])
        floor = numbers(batch.column(0), np.int64) - self._old.lateness
        if batch.num_columns > 1:
            floor = np.maximum(floor, numbers(batch.column(1), np.int64))
        return batch.select([0]).append_column("floor", from_numbers(floor, pa.int64()))

    def _groups(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        place = batch.num_columns - 2
        if not self._old.lateness:
            return batch.set_column(
                place, batch.schema.field(place), from_flags(np.ones(batch.num_rows, np.bool_))
            )
        ungiven: Mask = flags(batch.column(place))
        is_open = self._is_open(batch.column(place + 1))
        if not self._new.lateness:
            return batch.filter(from_flags(ungiven | is_open))
        return batch.set_column(place, batch.schema.field(place), from_flags(ungiven | is_open))

    def _is_open(self, last: pa.Array) -> Mask:
        """Which sessions aren't over by the new gap; those without a time never are."""
        valid = validity(last)
        is_open: Mask = numbers(last, np.int64) >= self._watermark - self._new.shape.size
        return is_open if valid is None else is_open | ~valid
