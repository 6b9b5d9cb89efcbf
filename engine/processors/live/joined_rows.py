"""Joins that are maintained: rows of two inputs, each arranged by the keys of the join.

The pairs are bilinear: new left rows with all right rows before, all left rows before with new
right rows, and new rows with new rows. Whether a row has a match is maintained in
`unmatched_rows`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import Indexes, from_flags, indexes, true_flags
from runnel.dag import ProcessorFactory
from runnel.errors import Position
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.evaluate import compile_expression, evaluate
from runnel.expressions.nodes import Expression, columns_of
from runnel.processors.joins.index import all_valid, make_index, pairs_in_ranges
from runnel.processors.live.accumulated_groups import Changes
from runnel.processors.live.arrangement import Arrangement
from runnel.processors.live.consolidation import EpochRows, net_changes, state_name
from runnel.processors.live.live_processor import LiveProcessor
from runnel.processors.live.unmatched_rows import UnmatchedRows, WeightedRows
from runnel.relation.nodes import Field, JoinKind
from runnel.sqltypes import to_arrow

ONE_SIDED = (JoinKind.SEMI, JoinKind.ANTI, JoinKind.EXISTS_MARK)
"""Kinds of which the result has no columns of the right side."""


@frozen
class LiveJoinShape:
    """The pairs and the result of a join.

    kind, keys, null_safe, condition, changing: as in LiveJoin.
    types: the types of the columns of both sides, without their weights.
    position: where the join stands in the statement, for errors.
    """

    kind: JoinKind
    keys: int
    null_safe: tuple[int, ...]
    condition: Expression | None
    changing: tuple[bool, bool]
    types: tuple[tuple[pa.DataType, ...], tuple[pa.DataType, ...]]
    position: Position | None = None

    @property
    def tracks(self) -> tuple[bool, bool]:
        """Whether the result depends on which rows of each side have no match."""
        return self.kind is not JoinKind.INNER, self.kind is JoinKind.FULL


class JoinSide:
    """The rows of one input: an arrangement, and the rows of the current epoch.

    counts: whether equal rows are only counted.

    `rows` is the arrangement, `added` the rows of the current epoch.
    """

    def __init__(self, shape: LiveJoinShape, ordinal: int, *, counts: bool) -> None:
        self._shape = shape
        self._is_net = counts or shape.changing[ordinal]
        self._types = shape.types[ordinal]
        self.added = EpochRows(self._types, is_changing=shape.changing[ordinal])
        self.rows = Arrangement(shape.keys, counts=counts)

    @property
    def size(self) -> tuple[int, int]:
        """Number of rows, and approximate bytes."""
        rows, size = self.added.size
        return self.rows.rows + rows, self.rows.size + size

    def taken(self) -> WeightedRows:
        """The rows of the epoch that ends, net, which are not in the arrangement yet."""
        columns, weights = self.added.taken()
        if self._is_net and len(weights):
            rows, weights = net_changes(columns, weights)
            columns = [column.take(indexes(rows)) for column in columns]
        return WeightedRows(columns, weights)

    def store(self, rows: WeightedRows) -> None:
        """Adds rows to the arrangement, but for rows whose keys match nothing."""
        found = rows
        valid = self._may_match(rows)
        if valid is not None:
            found = WeightedRows(
                [column.take(indexes(valid)) for column in rows.columns], rows.weights[valid]
            )
        self.rows.add(found.columns, found.weights)

    def _may_match(self, rows: WeightedRows) -> Indexes | None:
        """The rows without a NULL that matches nothing; None: all."""
        valid = all_valid(rows.columns[: self._shape.keys], frozenset(self._shape.null_safe))
        return None if valid is None else np.flatnonzero(valid)

    def with_keys_of(self, others: WeightedRows) -> WeightedRows:
        """The rows in the arrangement that may match rows of the other side."""
        keys = others.columns[: self._shape.keys]
        found = None
        if len(others.weights):
            found = self.rows.rows_with(self.rows.hashes_of(keys, len(others.weights)))
        if found is None:
            return WeightedRows([pa.nulls(0, item) for item in self._types], _NONE)
        return WeightedRows(*found)


class JoinedRows:
    """The result of a join.

    shape: the join.
    evaluation: the context in which the condition is evaluated.
    """

    def __init__(self, shape: LiveJoinShape, evaluation: EvaluationContext) -> None:
        self._shape = shape
        self._evaluation = evaluation
        condition = shape.condition
        self._condition = None if condition is None else compile_expression(condition)
        self._read = frozenset() if condition is None else columns_of(condition)
        one_sided = shape.kind in ONE_SIDED
        self._left = JoinSide(shape, 0, counts=False)
        self._right = JoinSide(shape, 1, counts=one_sided)
        self._emits_pairs = not one_sided
        self._unmatched = [
            UnmatchedRows(
                shape.keys,
                len(types),
                is_single=shape.kind is JoinKind.SINGLE,
                position=shape.position,
            )
            if tracks
            else None
            for tracks, types in zip(shape.tracks, shape.types, strict=True)
        ]

    @property
    def size(self) -> tuple[int, int]:
        """Number of rows, with the ones of the current epoch, and approximate bytes."""
        parts = [self._left.size, self._right.size]
        parts += [item.size for item in self._unmatched if item is not None]
        return sum(rows for rows, _ in parts), sum(size for _, size in parts)

    def add(self, ordinal: int, batch: pa.RecordBatch) -> None:
        """Adds rows of the current epoch."""
        (self._right if ordinal else self._left).added.add(batch)

    def changes(self) -> Iterator[Changes]:
        """Ends the epoch and yields its changes, which may not be net."""
        left, right = self._left.taken(), self._right.taken()
        left_before = self._left.with_keys_of(right)
        right_before = self._right.with_keys_of(left)
        yield from self._pairs(left, right_before)
        yield from self._pairs(left_before, right)
        yield from self._pairs(left, right)
        self._left.store(left)
        self._right.store(right)
        yield from self._without_match(0, left, left_before, right)
        yield from self._without_match(1, right, right_before, left)

    def state(self) -> Iterator[pa.RecordBatch]:
        """The arrangements, the rows that have matches, and the rows of the current epoch."""
        for name, part in self._parts().items():
            yield from part.state(name, self._shape.keys)

    def restore(self, batch: pa.RecordBatch) -> None:
        """Adds a batch of `state`."""
        self._parts()[state_name(batch)].restore(batch)

    def _parts(self) -> dict[str, Arrangement | EpochRows]:
        """All rows, by the names of their states."""
        parts: dict[str, Arrangement | EpochRows] = {}
        for name, side, unmatched in zip(
            ("left", "right"), (self._left, self._right), self._unmatched, strict=True
        ):
            parts[name] = side.rows
            parts[f"{name}_added"] = side.added
            if unmatched is not None:
                parts[f"{name}_matched"] = unmatched.matched
        return parts

    def _pairs(self, left: WeightedRows, right: WeightedRows) -> Iterator[Changes]:
        """Yields the pairs with their weights, and counts them as matches of their rows."""
        # Example: the left row a with weight −1 and the right rows b and c with the weights 2 and
        # 1 have the pairs (a, b) with −2 and (a, c) with −1; a loses 3 matches.
        if not len(left.weights) or not len(right.weights):
            return
        for first, second in self._matches(left, right):
            weights = left.weights[first] * right.weights[second]
            for rows, places, is_tracked in zip(
                (left, right), (first, second), self._shape.tracks, strict=True
            ):
                if is_tracked:
                    np.add.at(rows.matches, places, weights)
            if self._emits_pairs and len(first):
                yield [*left.at(first), *right.at(second)], weights

    def _matches(
        self, left: WeightedRows, right: WeightedRows
    ) -> Iterator[tuple[Indexes, Indexes]]:
        """Yields the positions of the left and the right rows of all pairs."""
        shape = self._shape
        keys = left.columns[: shape.keys]
        index = make_index(
            right.columns[: shape.keys], len(right.weights), frozenset(shape.null_safe)
        )
        for first, positions, _ in pairs_in_ranges(*index.find(keys, len(left.weights))):
            second = index.rows[positions]
            equal = index.confirm(keys, first, second)
            chosen = slice(None) if equal is None else np.flatnonzero(equal)
            if self._condition is None:
                yield first[chosen], second[chosen]
            else:
                true = self._is_true(left, first[chosen], right, second[chosen])
                yield first[chosen][true], second[chosen][true]

    def _is_true(
        self, left: WeightedRows, first: Indexes, right: WeightedRows, second: Indexes
    ) -> Indexes:
        assert self._condition is not None
        width = len(left.columns)
        columns: list[pa.Array] = [None] * (width + len(right.columns))
        for i in self._read:
            side, column, rows = (left, i, first) if i < width else (right, i - width, second)
            columns[i] = side.columns[column].take(indexes(rows))
        frame = EvaluationInput(columns, len(first), self._evaluation)
        return np.flatnonzero(true_flags(evaluate(self._condition, frame)))

    def _without_match(
        self, ordinal: int, new: WeightedRows, before: WeightedRows, others: WeightedRows
    ) -> Iterator[Changes]:
        """Yields the changes of the rows of one side that depend on whether they have a match.

        before: the rows of the side before the epoch that may match new rows of the other side,
            `others`.
        """
        unmatched = self._unmatched[ordinal]
        if unmatched is None or not len(new.weights) + len(others.weights):
            return
        keys = others.columns[: self._shape.keys]
        touched = self._left.rows.hashes_of(keys, len(others.weights))
        columns, all_rows, without = unmatched.changes(new, before, touched)
        kind = self._shape.kind
        if kind is JoinKind.SEMI:
            yield from _of_rows(columns, all_rows - without)
        elif kind is JoinKind.ANTI:
            yield from _of_rows(columns, without)
        elif kind is JoinKind.EXISTS_MARK:
            yield from _of_rows(columns, all_rows - without, True)
            yield from _of_rows(columns, without, False)
        else:
            yield from _of_rows(self._padded(ordinal, columns, len(without)), without)

    def _padded(self, ordinal: int, columns: Sequence[pa.Array], count: int) -> list[pa.Array]:
        """Rows of one side with NULL in the columns of the other side."""
        nulls = [pa.nulls(count, item) for item in self._shape.types[1 - ordinal]]
        return [*nulls, *columns] if ordinal else [*columns, *nulls]


def _of_rows(
    columns: Sequence[pa.Array], weights: Indexes, mark: bool | None = None
) -> Iterator[Changes]:
    """Yields the rows whose weight is not 0; `mark`: the value of one more column."""
    rows = np.flatnonzero(weights)
    if len(rows):
        found = [column.take(indexes(rows)) for column in columns]
        if mark is not None:
            found.append(from_flags(np.full(len(rows), mark)))
        yield found, weights[rows]


def live_join(
    shape: LiveJoinShape, names: tuple[str, ...], fields: tuple[Field, ...], *, is_changing: bool
) -> ProcessorFactory:
    """Return a supplier of processors that maintain a join. All rows of a key must reach one
    processor.

    names, fields: the names and the columns of the result, without the weight.
    is_changing: whether rows of the result disappear; then the weight is its last column.
    """
    schema = pa.schema(
        [pa.field(name, to_arrow(item.type)) for name, item in zip(names, fields, strict=True)]
    )
    return lambda: LiveProcessor(
        lambda to: JoinedRows(shape, to.context.job.evaluation), schema, is_changing=is_changing
    )


_NONE = np.zeros(0, np.int64)
