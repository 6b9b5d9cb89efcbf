"""The indexed build side of a join, and the join of a probe batch with it.

For each probe batch the index returns candidates: pairs of a probe row and a build row, at most
MAX_ROWS at a time, so that neither a skewed key nor a cross join needs more memory. Pairs whose
keys differ and pairs for which the condition isn't true are dropped. The kind of the join
determines what it emits for the remaining pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.columns.batches import (
    MAX_ROWS,
    Indexes,
    Mask,
    from_flags,
    indexes,
    make_batch,
    true_flags,
)
from runnel.errors import DataError, Position
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.evaluate import compile_expression, evaluate
from runnel.expressions.nodes import Expression, columns_of
from runnel.processors.joins.index import make_index, pairs_in_ranges
from runnel.processors.joins.marks import BuildFacts, UnknownMatches
from runnel.relation.nodes import LEFT_ONLY, MARKS, Field, JoinKind
from runnel.sqltypes import BOOLEAN, to_arrow

KEEPS_LEFT = (JoinKind.LEFT, JoinKind.FULL, JoinKind.SINGLE)
"""The kinds that emit left rows without a match, with NULLs."""
KEEPS_RIGHT = (JoinKind.RIGHT, JoinKind.FULL)
"""The kinds that emit right rows without a match, with NULLs."""
UNKNOWNS = (JoinKind.MARK, JoinKind.NULL_ANTI)
"""The kinds for which a match may be unknown because of a NULL."""
NEEDS_RIGHT = (JoinKind.INNER, JoinKind.RIGHT, JoinKind.SEMI, JoinKind.CROSS)
"""The kinds that emit nothing if the right side is empty."""


@frozen
class JoinShape:
    """How a join processes the pairs of equal keys.

    kind: how rows are paired, and the columns of the result.
    condition: over the columns of both sides; None: true.
    columns: the indexes of the columns to emit; None: all.
    null_safe: the indexes of the keys that match by IS NOT DISTINCT FROM.
    answers_at_once: whether the results of a probe batch must be emitted before the next one is
        read, so that the build side can't be spilled to files.
    position: where the clause stands in the statement, for errors.
    """

    kind: JoinKind
    condition: Expression | None = None
    columns: tuple[int, ...] | None = None
    null_safe: tuple[int, ...] = ()
    answers_at_once: bool = False
    position: Position | None = None


class JoinPlan:
    """A compiled join, shared by executions."""

    def __init__(
        self,
        shape: JoinShape,
        keys: tuple[Sequence[Expression], Sequence[Expression]],
        fields: tuple[Sequence[Field], Sequence[Field]],
        names: tuple[str, ...],
    ) -> None:
        kind, condition, columns = shape.kind, shape.condition, shape.columns
        self.kind = kind
        self.answers_at_once = shape.answers_at_once
        self.position = shape.position
        self.null_safe = frozenset(shape.null_safe)
        self.left_keys = [compile_expression(item) for item in keys[0]]
        self.right_keys = [compile_expression(item) for item in keys[1]]
        self.condition = None if condition is None else compile_expression(condition)
        self.condition_columns = (
            frozenset() if condition is None else frozenset(columns_of(condition))
        )
        self.left_width = len(fields[0])
        self.left_schema = _schema(fields[0])
        self.right_schema = _schema(fields[1])
        self.is_left_only = kind in LEFT_ONLY or kind in MARKS
        available = list(fields[0]) if self.is_left_only else [*fields[0], *fields[1]]
        if kind in MARKS:
            available.append(Field("matched", BOOLEAN))
        chosen = range(len(available)) if columns is None else columns
        self.schema = _schema(
            [Field(n, available[i].type) for n, i in zip(names, chosen, strict=True)]
        )
        self.left_output = [i for i in chosen if i < self.left_width]
        self.right_output = [i - self.left_width for i in chosen if i >= self.left_width]
        found = [*self.left_output, *(self.left_width + i for i in self.right_output)]
        self._order = None if found == list(chosen) else [found.index(i) for i in chosen]

    def build_keys(self, batch: pa.RecordBatch, evaluation: EvaluationContext) -> list[pa.Array]:
        frame = EvaluationInput(batch.columns, batch.num_rows, evaluation)
        return [evaluate(item, frame) for item in self.right_keys]

    def probe_keys(self, batch: pa.RecordBatch, evaluation: EvaluationContext) -> list[pa.Array]:
        frame = EvaluationInput(batch.columns, batch.num_rows, evaluation)
        return [evaluate(item, frame) for item in self.left_keys]

    def left_columns(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of the left side that the join emits."""
        return (
            batch
            if self.left_output == list(range(self.left_width))
            else batch.select(self.left_output)
        )

    def row_batch(self, columns: list[pa.Array], count: int) -> pa.RecordBatch:
        """Make a batch of the result from the left output columns followed by the right ones."""
        return make_batch(
            columns if self._order is None else [columns[i] for i in self._order],
            self.schema,
            count,
        )


def _schema(fields: Sequence[Field]) -> pa.Schema:
    return pa.schema([pa.field(item.name, to_arrow(item.type)) for item in fields])


@dataclass(slots=True)
class Pairs:
    """Pairs of probe rows and build rows.

    probe: the number of the probe row of each pair.
    build: the number of the build row of each pair.
    is_whole: whether each probe row occurs exactly once, in order.
    """

    probe: Indexes
    build: Indexes
    is_whole: bool = False


class JoinTable:
    """The indexed build rows.

    plan: the compiled join.
    build: the build rows.
    evaluation: the arguments and settings of the statement.
    facts: the facts about the whole build side, if `build` is only a share of it.
    matched: the rows that were matched before a restore.
    """

    def __init__(
        self,
        plan: JoinPlan,
        build: pa.RecordBatch,
        evaluation: EvaluationContext,
        facts: BuildFacts | None = None,
        matched: Mask | None = None,
    ) -> None:
        self._plan = plan
        self._evaluation = evaluation
        self.build = build
        self.build_output = build if plan.is_left_only else build.select(plan.right_output)
        count = build.num_rows
        self._build_keys = plan.build_keys(build, evaluation)
        self._index = make_index(self._build_keys, count, plan.null_safe)
        self.matched = np.zeros(count if plan.kind in KEEPS_RIGHT else 0, np.bool_)
        if matched is not None:
            self.matched[: len(matched)] = matched
        self._unknown = (
            UnknownMatches(self._build_keys, count, facts) if plan.kind in UNKNOWNS else None
        )

    def probe(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the results for one probe batch."""
        plan = self._plan
        count = batch.num_rows
        keys = plan.probe_keys(batch, self._evaluation)
        matches = np.zeros(count, np.int64)
        if plan.is_left_only and self._index.is_exact and plan.condition is None:
            matches = self._index.find(keys, count)[1]
        else:
            for candidates, is_last in self._candidates(keys, count):
                pairs = self._true_pairs(batch, keys, candidates)
                if not plan.is_left_only:
                    yield from self._joined(batch, pairs, matches, is_last)
                if plan.is_left_only or not is_last:
                    matches += np.bincount(pairs.probe, minlength=count)
                if plan.is_left_only and not is_last:
                    # There is no result yet, but the cooperative call may end here.
                    yield batch.slice(0, 0)
        if plan.is_left_only:
            yield self._left_only(batch, keys, matches > 0)

    def probe_part(
        self, batch: pa.RecordBatch, matches: Indexes, unknown: Mask | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the pairs of a probe batch if these are only a share of the build rows.

        After all shares, `finish` yields the results that depend on all build rows.

        matches: the number of matches of each probe row, which is increased.
        unknown: the probe rows that a NULL may make equal; rows are added.
        """
        keys = self._plan.probe_keys(batch, self._evaluation)
        for candidates, _ in self._candidates(keys, batch.num_rows):
            pairs = self._true_pairs(batch, keys, candidates)
            matches += np.bincount(pairs.probe, minlength=batch.num_rows)
            if self._plan.kind in KEEPS_RIGHT:
                self.matched[pairs.build] = True
            if not self._plan.is_left_only:
                _check_single(self._plan, matches)
                yield self._rows(batch, pairs, None)
        if unknown is not None:
            unknown |= self._unknown_rows(batch, keys, matches > 0)

    def finish(
        self, batch: pa.RecordBatch, matches: Indexes, unknown: Mask | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the results of a probe batch that depend on all build rows, after `probe_part`.

        These are the rows without a match, or all results of a kind that emits only left columns.
        """
        plan = self._plan
        if plan.is_left_only:
            yield self._left_only(
                batch, plan.probe_keys(batch, self._evaluation), matches > 0, unknown
            )
        elif plan.kind in KEEPS_LEFT:
            lonely = np.flatnonzero(matches == 0)
            nothing = np.zeros(len(lonely), np.int64)
            yield self._rows(batch, Pairs(lonely, nothing), nothing.astype(np.bool_))

    def _candidates(self, keys: list[pa.Array], count: int) -> Iterator[tuple[Pairs, bool]]:
        """Yield the candidates in order of the probe rows, at most MAX_ROWS at a time.

        Each chunk comes with a flag that is true for the last one. There is at least one chunk,
        possibly empty.
        """
        only = self._index.find_only(keys) if count <= MAX_ROWS else None
        if only is None:
            yield from self._chunks(*self._index.find(keys, count))
            return
        found = only >= 0
        if found.all():
            yield Pairs(np.arange(count), only, is_whole=True), True
        else:
            yield Pairs(np.flatnonzero(found), only[found]), True

    def _chunks(self, starts: Indexes, counts: Indexes) -> Iterator[tuple[Pairs, bool]]:
        for probe, positions, is_last in pairs_in_ranges(starts, counts):
            yield Pairs(probe, self._index.rows[positions]), is_last

    def _true_pairs(self, batch: pa.RecordBatch, keys: list[pa.Array], pairs: Pairs) -> Pairs:
        confirmed = self._index.confirm(keys, pairs.probe, pairs.build)
        if confirmed is not None and not confirmed.all():
            pairs = Pairs(pairs.probe[confirmed], pairs.build[confirmed])
        if self._plan.condition is not None and len(pairs.probe):
            true = self._condition(batch, pairs)
            if not true.all():
                pairs = Pairs(pairs.probe[true], pairs.build[true])
        return pairs

    def _condition(self, batch: pa.RecordBatch, pairs: Pairs) -> Mask:
        """Return a mask of the pairs for which the condition is true.

        Only the columns that the condition reads are collected.
        """
        plan = self._plan
        assert plan.condition is not None
        probe, build = indexes(pairs.probe), indexes(pairs.build)
        columns: list[pa.Array] = [None] * (plan.left_width + len(plan.right_schema))
        for index in plan.condition_columns:
            if index < plan.left_width:
                columns[index] = batch.column(index).take(probe)
            else:
                columns[index] = self.build.column(index - plan.left_width).take(build)
        frame = EvaluationInput(columns, len(pairs.probe), self._evaluation)
        return true_flags(evaluate(plan.condition, frame))

    def _joined(
        self, batch: pa.RecordBatch, pairs: Pairs, matches: Indexes, is_last: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one chunk of pairs.

        After the last chunk, if the kind requires it, also the probe rows without a pair.
        """
        # Example: a LEFT join of three probe rows, whose only pairs are (0, 5) and (2, 1).
        # found = [1, 0, 1] counts the pairs of each probe row, so lonely = [1]. The output rows are
        # probe = [0, 2, 1] with build = [5, 1, 0], where valid = [True, True, False]: the columns
        # of the build side are NULL in the last one.
        kind = self._plan.kind
        if kind in KEEPS_RIGHT:
            self.matched[pairs.build] = True
        if kind not in KEEPS_LEFT:
            yield self._rows(batch, pairs, None)
            return
        found = matches + np.bincount(pairs.probe, minlength=batch.num_rows)
        _check_single(self._plan, found)
        lonely = np.flatnonzero(found == 0) if is_last else pairs.probe[:0]
        if not len(lonely):
            yield self._rows(batch, pairs, None)
            return
        valid = np.ones(len(pairs.probe) + len(lonely), np.bool_)
        valid[len(pairs.probe) :] = False
        probe = np.concatenate((pairs.probe, lonely))
        build = np.concatenate((pairs.build, np.zeros(len(lonely), np.int64)))
        yield self._rows(batch, Pairs(probe, build), valid)

    def _rows(self, batch: pa.RecordBatch, pairs: Pairs, valid: Mask | None) -> pa.RecordBatch:
        count = len(pairs.probe)
        left = self._plan.left_columns(batch)
        if left.num_columns and not pairs.is_whole:
            left = left.take(indexes(pairs.probe))
        right = (
            self.build_output.take(indexes(pairs.build, valid)).columns
            if self._plan.right_output
            else ()
        )
        return self._plan.row_batch([*left.columns, *right], count)

    def _left_only(
        self,
        batch: pa.RecordBatch,
        keys: list[pa.Array],
        matched: Mask,
        unknown: Mask | None = None,
    ) -> pa.RecordBatch:
        kind = self._plan.kind
        if kind is JoinKind.EXISTS_MARK:
            return self._marked(batch, from_flags(matched))
        if kind is JoinKind.SEMI or kind is JoinKind.ANTI:
            return self._filtered(batch, matched if kind is JoinKind.SEMI else ~matched)
        # A row may be unknown because of some build rows and matched by other ones.
        unknown = (
            self._unknown_rows(batch, keys, matched) if unknown is None else unknown & ~matched
        )
        if kind is JoinKind.MARK:
            return self._marked(batch, from_flags(matched, ~unknown))
        return self._filtered(batch, ~(matched | unknown))

    def _unknown_rows(self, batch: pa.RecordBatch, keys: list[pa.Array], matched: Mask) -> Mask:
        """Return a mask of the rows without a match for which a NULL makes the match unknown."""
        rows = np.flatnonzero(~matched)
        unknown: Mask = np.zeros(batch.num_rows, np.bool_)
        if len(rows):
            condition = (
                None
                if self._plan.condition is None
                else lambda p, b: self._condition(batch, Pairs(p, b))
            )
            assert self._unknown is not None
            unknown[rows] = self._unknown.among(keys, rows, condition)
        return unknown

    def _marked(self, batch: pa.RecordBatch, mark: pa.Array) -> pa.RecordBatch:
        columns = self._plan.left_columns(batch).columns
        return self._plan.row_batch(
            [*columns, mark] if self._plan.right_output else columns, batch.num_rows
        )

    def _filtered(self, batch: pa.RecordBatch, keep: Mask) -> pa.RecordBatch:
        remaining = self._plan.left_columns(batch).filter(from_flags(keep))
        return self._plan.row_batch(remaining.columns, int(np.count_nonzero(keep)))

    def lonely_build_rows(self) -> Iterator[pa.RecordBatch]:
        """Yield the build rows that no probe row matched, if the kind requires it."""
        rows = np.flatnonzero(~self.matched)
        for start in range(0, len(rows), MAX_ROWS):
            chosen = rows[start : start + MAX_ROWS]
            build = (
                self.build_output.take(indexes(chosen)).columns if self._plan.right_output else ()
            )
            nulls = [
                pa.nulls(len(chosen), self._plan.left_schema.field(i).type)
                for i in self._plan.left_output
            ]
            yield self._plan.row_batch([*nulls, *build], len(chosen))


def _check_single(plan: JoinPlan, matches: Indexes) -> None:
    if plan.kind is JoinKind.SINGLE and len(matches) and matches.max() > 1:
        raise DataError(
            "more than one row returned by a subquery used as an expression",
            hint="let the subquery return at most one row, with an aggregate or LIMIT 1",
            position=plan.position,
        )
