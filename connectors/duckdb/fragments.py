"""Fragments on DuckDB: selects the sub-plans that DuckDB is offered, and runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from runnel.catalog import Table
from runnel.connector import END, End, Pause, SourcePartition
from runnel.connectors.duckdb import inputs
from runnel.connectors.duckdb.inputs import StoredInput, StreamInput
from runnel.deadline import check_time
from runnel.duckdb.arrow import from_duckdb
from runnel.duckdb.binding import bind
from runnel.duckdb.errors import translated
from runnel.duckdb.kernel import DuckDBKernel
from runnel.duckdb.stream import DuckDBStream
from runnel.expressions.evaluate import is_volatile
from runnel.expressions.nodes import Literal
from runnel.foreign.fragment import FragmentEngine, FragmentSource, Unrenderable, position_of
from runnel.processor import JobContext
from runnel.processors.constants import row_count
from runnel.relation.nodes import (
    Aggregate,
    Filter,
    Join,
    JoinKind,
    Limit,
    Project,
    Relation,
    Scan,
    Sort,
    Union,
    Values,
    walk,
)
from runnel.relation.subqueries import GroupLimit
from runnel.rendering.duckdb.dialect import DUCKDB
from runnel.rendering.duckdb.relations import DuckDBRelations
from runnel.rendering.render import Rendering, RenderingContext, SampleRendering

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SHOWN_UNKNOWN = "$"
"""The character that marks session values in a text rendered without a session (it also occurs
in literals of users)."""


class DuckDBEngine(FragmentEngine):
    """DuckDB for one connection.

    `rows` is the number of rows from which a sub-plan over tables outside DuckDB is run by DuckDB;
    rows of files that DuckDB reads itself count more. 0: every sub-plan that can be rendered.
    """

    name = "DuckDB"

    def __init__(self, kernel: DuckDBKernel, rows: int) -> None:
        self._kernel = kernel
        self._rows = rows

    @property
    def memory(self) -> int | None:
        return self._kernel.memory_limit

    def can_read(self, table: Table) -> bool:
        return inputs.can_read(table)

    def prefers(self, relation: Relation) -> bool:
        return self._reason(relation) is not None

    def _reason(self, relation: Relation) -> str | None:
        """Why DuckDB should run the sub-plan; None if it should not."""
        if any(
            isinstance(node, Scan) and hasattr(node.table, "duckdb_relation")
            for node in walk(relation)
        ):
            return "tables of its own"
        if self._rows == 0:
            return "fragment_rows = 0"
        small_sorts = {
            id(node.input) for node in walk(relation) if isinstance(node, Limit) and _is_small(node)
        }
        work = max(
            (_work(node) for node in walk(relation) if id(node) not in small_sorts), default=0
        )
        return "many rows to group, join or sort" if work >= self._rows else None

    def fragment(self, relation: Relation) -> FragmentSource:
        for node in walk(relation):
            for expression in node.own_expressions:
                if is_volatile(expression):
                    raise Unrenderable("a volatile function", expression.position)
        scans: list[tuple[Scan, tuple[int, ...]]] = []

        def preview(scan: Scan, read: tuple[int, ...]) -> str:
            scans.append((scan, read))
            return inputs.preview(scan, read)

        text = DuckDBRelations(Rendering(DUCKDB), preview).whole(relation)
        self._check(relation)
        return DuckDBFragment(self._kernel, relation, scans, (text, self._reason(relation) or ""))

    def _check(self, relation: Relation) -> None:
        """Has DuckDB bind the text over inputs without rows; Unrenderable if DuckDB refuses it.

        A refusal that depends on the values of arguments is found when the statement runs; the
        statement then starts again without the fragment.
        """
        names: list[str] = []

        def write(cursor: DuckDBPyConnection) -> str:
            def scan(node: Scan, read: tuple[int, ...]) -> str:
                text = inputs.native_text(node, read)
                if text is None:
                    text = f"in{len(names)}"
                    names.append(text)
                    cursor.register(text, inputs.no_rows(node, read))
                return text

            return DuckDBRelations(SampleRendering(DUCKDB), scan).whole(relation)

        try:
            bind(self._kernel, write)
        except Unrenderable:
            raise
        except Exception as error:
            check_time()  # the end of the statement is no refusal
            raise Unrenderable(f"DuckDB: {str(error).partition(chr(10))[0]}") from error


NATIVE_WEIGHT = 10
"""The weight of a row of a file that DuckDB reads itself: Runnel does not have to decode it."""

SHORT_ROWS = 10_000
SHORT_PAIRS = 200_000
"""The numbers of rows, and of pairs of rows, that DuckDB processes in a few milliseconds."""

_PLAIN = (Scan, Values, Filter, Project, Aggregate, Join, Sort, Limit, Union)
"""The nodes whose work is bounded by the combinations of the rows of the tables below."""

SMALL_LIMIT = 10_000
"""The limit up to which Runnel's own operator finds the first rows of a sort as fast."""


def _work(node: Relation) -> int:
    """The number of rows that a node processes, if DuckDB does this faster than Runnel's
    operators; 0 for other nodes."""
    if not node.combines_rows or (isinstance(node, Join) and node.kind is JoinKind.CROSS):
        return 0
    rows, native = _rows(node)
    has_groups = (
        not isinstance(node, Aggregate)
        or bool(node.keys)
        or any(call.distinct for call in node.aggregates)
    )
    return NATIVE_WEIGHT * native + (rows if has_groups else 0)


def _rows(relation: Relation) -> tuple[int, int]:
    """The number of rows of all tables below: of those read as batches, and of those that DuckDB
    reads itself."""
    batches, native = 0, 0
    for node in walk(relation):
        if isinstance(node, Scan):
            count = node.table.row_count() or 0
            if inputs.is_native(node.table):
                native += count
            else:
                batches += count
    return batches, native


def _is_small(node: Limit) -> bool:
    """Whether a sort below keeps few rows, of tables outside DuckDB."""
    count = node.count
    return (
        isinstance(count, Literal)
        and count.value is not None
        and count.value <= SMALL_LIMIT
        and not _rows(node)[1]
    )


class DuckDBFragment(FragmentSource):
    """A sub-plan that DuckDB runs. Its partition never blocks: the query has a thread of its
    own."""

    cooperative = True
    engine = "DuckDB"

    def __init__(
        self,
        kernel: DuckDBKernel,
        relation: Relation,
        scans: list[tuple[Scan, tuple[int, ...]]],
        shown: tuple[str, str],
    ) -> None:
        self._kernel = kernel
        self.relation = relation
        self._scans = scans
        self.text, self.reason = shown
        self._limits = [node for node in walk(relation) if isinstance(node, (Limit, GroupLimit))]
        self._has_joins = any(isinstance(node, Join) for node in walk(relation))
        self._depends_on_session = SHOWN_UNKNOWN in self.text
        self._rendered: tuple[list[str], str] | None = None

    def split(self, context: JobContext) -> Sequence[SourcePartition]:
        for limit in self._limits:
            row_count(limit.count, context.evaluation, "LIMIT")
            row_count(limit.offset, context.evaluation, "OFFSET")
        streams: list[StoredInput | StreamInput] = []
        items: list[str] = []
        try:
            for node, read in self._scans:
                item = inputs.native_text(node, read)
                if item is None:
                    item = f"in{len(streams)}"
                    few = self._has_joins or node.predicate is not None
                    stored = StoredInput.of(item, node.table, read, is_filtered=few)
                    streams.append(
                        stored or StreamInput(item, node, read, context, self._kernel.threads)
                    )
                items.append(item)
            text = self._text(items, context)
            cursor = self._kernel.cursor()
            is_short = not streams and self.is_short()
            if not is_short:
                self._pin(cursor)
        except BaseException:
            for stream in streams:
                stream.close()
            raise
        fields, place = self.relation.fields, partial(position_of, self.relation)
        rows = DuckDBStream(
            self._kernel, cursor, text, streams, lambda batch: from_duckdb(batch, fields), place
        )
        if is_short:
            rows.begin()
        return [FragmentPartition(rows)]

    def is_short(self) -> bool:
        """Whether it reads tables so small that even all pairs of their rows are soon compared."""
        rows, pairs = 0, 1
        for node in walk(self.relation):
            if not isinstance(node, _PLAIN):
                return False
            if not isinstance(node, Scan):
                continue
            count = node.table.row_count() if hasattr(node.table, "duckdb_relation") else None
            if count is None:
                return False
            rows, pairs = rows + count, pairs * max(count, 1)
        return rows <= SHORT_ROWS and pairs <= SHORT_PAIRS

    @property
    def is_own(self) -> bool:
        """Whether it reads only tables of DuckDB databases, and has no LIMIT that must be
        checked."""
        return not self._limits and all(
            hasattr(node.table, "duckdb_relation") for node, _ in self._scans
        )

    def own_query(self, context: JobContext) -> str:
        """The SQL to run; only if `is_own`."""
        items = [inputs.native_text(node, read) for node, read in self._scans]
        return self._text([item for item in items if item is not None], context)

    def _text(self, items: list[str], context: JobContext) -> str:
        """The SQL to run, over the FROM items of the scans. Cached if it does not depend on
        arguments, time or zone."""
        known = self._rendered
        if known is not None and known[0] == items:
            return known[1]
        evaluation = context.evaluation
        arguments = tuple(value.as_py() for value in evaluation.arguments)
        session = RenderingContext(arguments=arguments, zone=evaluation.zone, now=evaluation.now)
        left = iter(items)
        text = DuckDBRelations(Rendering(DUCKDB, session), lambda scan, read: next(left)).whole(
            self.relation
        )
        if not self._depends_on_session:
            self._rendered = (items, text)
        return text

    def _pin(self, cursor: Any) -> None:
        """Fixes the version of DuckDB's own tables that the query sees."""
        tables: list[Any] = [node.table for node in walk(self.relation) if isinstance(node, Scan)]
        own = [table.location for table in tables if hasattr(table, "duckdb_relation")]
        if not own:
            return
        # A transaction sees a database as it is when the transaction first reads it.
        one_each = {location.database: location.qualified for location in own}
        try:
            cursor.execute("BEGIN TRANSACTION")
            for name in one_each.values():
                cursor.execute(f"SELECT 1 FROM {name} LIMIT 0").fetchall()
        except Exception as error:
            cursor.close()
            failure = translated(error)
            failure.position = position_of(self.relation, failure)
            raise failure from error


class FragmentPartition(SourcePartition):
    """The rows of one run of a statement."""

    def __init__(self, stream: DuckDBStream) -> None:
        self._stream = stream

    def open(self, wake: Callable[[], None]) -> None:
        self._stream.start(wake)

    def read(self) -> pa.RecordBatch | Pause | End:
        batch = self._stream.take()
        if batch is not None:
            return batch
        return END if self._stream.is_ended else Pause()

    def close(self) -> None:
        self._stream.close()
