"""Physical nodes: the operators that were chosen, one node per operator, before lowering divides
them into vertices.

A node is frozen. Its expressions refer to its input's columns by index, as in the relational nodes.
A physical plan is independent of the parallelism: lowering decides, for a given parallelism,
whether an operator runs in one stage or two, and how rows travel between its processors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from runnel.base.frozen import frozen
from runnel.catalog import Table
from runnel.connector import (
    IndexedTable,
    IndexLookup,
    ReadableTable,
    ScanRequest,
    SinkRequest,
    WritableTable,
)
from runnel.errors import Position
from runnel.expressions.nodes import AggregateCall as AggregateCall
from runnel.expressions.nodes import Column, Expression, SortKey, stored_name
from runnel.relation.nodes import Field, JoinKind
from runnel.relation.over import WindowCall

if TYPE_CHECKING:
    from runnel.foreign.fragment import FragmentSource
    from runnel.processors.sources.partition_watermarks import TimeRule
    from runnel.relation.nodes import MalformedOutput


@frozen(kw_only=True)
class Physical:
    """The base of all physical nodes.

    family: as in Relation.
    fields: names and types of the result's columns.
    rows: the estimated number of rows of the result; None: unknown.
    state_name: as in Relation.
    """

    family: ClassVar[str] = ""

    fields: tuple[Field, ...]
    rows: int | None = None
    state_name: str | None = None

    @property
    def inputs(self) -> tuple[Physical, ...]:
        return ()


@frozen(kw_only=True)
class LateOutput:
    """The output for late rows.

    table: the table to which late rows are written.
    request: the columns of the table, and how rows are written.
    expressions: the values of these columns, over the operator's input.
    """

    table: WritableTable
    request: SinkRequest
    expressions: tuple[Expression, ...]


@frozen(kw_only=True)
class SingleInput(Physical):
    """A node with one input."""

    input: Physical

    @property
    def inputs(self) -> tuple[Physical, ...]:
        return (self.input,)


@frozen(kw_only=True)
class TwoInputs(Physical):
    """A node with two inputs.

    left: the first input.
    right: the second input.
    """

    left: Physical
    right: Physical

    @property
    def inputs(self) -> tuple[Physical, ...]:
        return (self.left, self.right)


@frozen(kw_only=True)
class SourceScan(Physical):
    """A scan with its filter and projection in one step.

    table: the table that is read.
    request: the columns to read, with a predicate that the table may apply or ignore.
    condition: the condition that decides, over the columns of `request`.
    projections: over the same columns; None: the columns as they are.
    time: how watermarks are generated, over the same columns; None: there are none.
    malformed: the output for malformed records, or None.
    """

    family = "sources"

    table: ReadableTable
    request: ScanRequest
    condition: Expression | None = None
    projections: tuple[Expression, ...] | None = None
    time: TimeRule | None = None
    malformed: MalformedOutput | None = None


@frozen(kw_only=True)
class Shared(Physical):
    """One of several uses of a subplan that runs once.

    shared: the subplan.
    number: the same for all uses of one subplan.
    is_first: whether this is the use that has the subplan as its input.
    watermarks: the subplan's watermarks, with their numbers for this use; others end here.
    """

    family = "recursion"

    shared: Physical
    number: int
    is_first: bool
    watermarks: tuple[tuple[int, int], ...]

    @property
    def inputs(self) -> tuple[Physical, ...]:
        return (self.shared,) if self.is_first else ()


@frozen(kw_only=True)
class PhysicalCommonRows(Physical):
    """The rows of a common table that runs once: a leaf until `share_tables` replaces it by the
    plan with that number."""

    family = "recursion"

    number: int


@frozen(kw_only=True)
class Spool(SingleInput):
    """Spools its input: it reads all rows before it emits any. So a `Shared` below it never waits
    for its reader."""

    family = "recursion"


@frozen(kw_only=True)
class IndexScan(SourceScan):
    """A SourceScan that reads only the rows that `lookup` finds in an index, in the index's order
    if `lookup.ordered`."""

    family = "sources"

    lookup: IndexLookup

    @property
    def indexed_table(self) -> IndexedTable:
        assert isinstance(self.table, IndexedTable)
        return self.table


@frozen(kw_only=True)
class PhysicalFragment(Physical):
    """The rows of a subplan that another engine runs.

    source: reads the result of the fragment.
    stopped: the reason why the operators above are not part of the fragment; "": there is none.
    """

    family = "fragments"

    source: FragmentSource
    stopped: str = ""


@frozen(kw_only=True)
class NarrowedFragment(PhysicalFragment):
    """A fragment that is filtered by the keys of joins above it: rows whose `keys[i]` are not in
    `feeds[i]` are not needed.

    It is read when the feeds have been read to their end. It may return more rows: the joins above
    decide.
    """

    family = "fragments"

    feeds: tuple[Physical, ...]
    keys: tuple[tuple[Expression, ...], ...]

    @property
    def inputs(self) -> tuple[Physical, ...]:
        return self.feeds


@frozen(kw_only=True)
class PhysicalGenerate(Physical):
    """The rows of a table function without an input.

    function: the name of the table function in lower case, such as "generate_series".
    arguments: its arguments, which refer to no columns.
    """

    family = "sources"

    function: str
    arguments: tuple[Expression, ...]


@frozen(kw_only=True)
class Calc(SingleInput):
    """The rows for which `condition` is true (None: all), as `projections` (None: as they are)."""

    family = "calculations"

    condition: Expression | None = None
    projections: tuple[Expression, ...] | None = None


@frozen(kw_only=True)
class HashAggregate(SingleInput):
    """An aggregation by `keys`.

    keys: the expressions of GROUP BY; () for one group.
    aggregates: the aggregates, whose values follow the keys in the result.
    two_stage: whether each processor may aggregate its rows first, and the states are then combined
        by key; otherwise all rows of a group must reach one processor.
    """

    family = "aggregates"

    keys: tuple[Expression, ...]
    aggregates: tuple[AggregateCall, ...]
    two_stage: bool


@frozen(kw_only=True)
class HashJoin(Physical):
    """A join that reads its build side to the end, then streams its probe side.

    kind: determines the columns of the result: the probe side's, followed by the build side's.
    probe: the left side, which is streamed.
    build: the right side, which is read first.
    probe_keys, build_keys: the expressions that must be equal, one pair per key; without keys,
        every pair of rows is compared.
    condition: must also be TRUE, over the columns of `probe` followed by the columns of `build`;
        None: there is no such condition.
    columns: the indexes of the result's columns that are returned; None: all.
    is_partitioned: whether both sides are partitioned by the hash of the keys; otherwise each
        processor gets the whole build side.
    null_safe: the numbers of the keys that match by IS NOT DISTINCT FROM.
    position: of the join in the statement, or of the subquery that it replaces.
    refresh: milliseconds after which the build side (scans and calculations only) is read again;
        None: it is read once.
    """

    family = "hash_joins"

    kind: JoinKind
    probe: Physical
    build: Physical
    probe_keys: tuple[Expression, ...]
    build_keys: tuple[Expression, ...]
    condition: Expression | None = None
    columns: tuple[int, ...] | None = None
    is_partitioned: bool = False
    null_safe: tuple[int, ...] = ()
    position: Position | None = None
    refresh: int | None = None

    @property
    def inputs(self) -> tuple[Physical, ...]:
        return (self.probe, self.build)


@frozen(kw_only=True)
class PhysicalSort(SingleInput):
    """All rows in order."""

    family = "sorting"

    keys: tuple[SortKey, ...]


@frozen(kw_only=True)
class TopN(SingleInput):
    """The first rows in order. No more rows than the result and the skipped ones are in memory.

    keys: the keys of the order.
    count: the number of rows that are returned.
    offset: the number of rows that are skipped first; None: none.
    """

    family = "sorting"

    keys: tuple[SortKey, ...]
    count: Expression
    offset: Expression | None


@frozen(kw_only=True)
class PhysicalUnion(Physical):
    """The rows of all branches.

    `parts`: the branches.
    watermarks: for each branch, its watermarks and their numbers in the result; None: there are
        none.
    """

    family = "set_operations"

    parts: tuple[Physical, ...]
    watermarks: tuple[Mapping[int, int], ...] | None = None

    @property
    def inputs(self) -> tuple[Physical, ...]:
        return self.parts


@frozen(kw_only=True)
class PhysicalExpand(SingleInput):
    """Each row, repeated for each list of projections.

    projections: for each copy, the values of its columns.
    of_sets: whether the last column is the number of a grouping set.
    """

    family = "calculations"

    projections: tuple[tuple[Expression, ...], ...]
    of_sets: bool = False


class MostRows(NamedTuple):
    """A limit above a window: only rows with small values of one call are needed.

    call: the index of the call in the window.
    number: the largest value of that call in such a row.
    """

    call: int
    number: Expression


@frozen(kw_only=True)
class PhysicalWindow(SingleInput):
    """The first columns of the input, followed by the value of each call.

    calls: the calls with OVER.
    width: the number of columns of the input that are returned.
    keys: columns by which all calls partition, and by whose hash rows are distributed among
        processors; without any, one processor gets all rows.
    most: rows that this limit excludes may be dropped; None: there is no limit.
    """

    family = "over"

    calls: tuple[WindowCall, ...]
    width: int
    keys: tuple[Column, ...] = ()
    most: MostRows | None = None


@frozen(kw_only=True)
class PhysicalWorkingTable(Physical):
    """Inside the step of a recursion: the rows of the previous round."""

    family = "recursion"

    name: str


@frozen(kw_only=True)
class PhysicalRecursion(Physical):
    """The anchor's rows, followed by the rows that the stages compute from each round.

    anchor: the rows of the first round.
    sides: the other sides of the stages that are joins, in order.
    stages: the operators from the working table to the step's result.
    distinct: whether rows that an earlier round returned are dropped (UNION without ALL).
    step: the plan from which the stages were taken.
    """

    family = "recursion"

    anchor: Physical
    sides: tuple[Physical, ...]
    stages: tuple[Physical, ...]
    distinct: bool
    step: Physical

    @property
    def inputs(self) -> tuple[Physical, ...]:
        return (self.anchor, self.step)


@frozen(kw_only=True)
class Write(SingleInput):
    """Writes all rows to a table; the result is one row, their number.

    table: the table that is written.
    request: the columns to write, and how.
    """

    family = "sources"

    table: WritableTable
    request: SinkRequest


def tables_of(node: Physical) -> tuple[Table, ...]:
    """The tables that a physical plan scans, once per scan."""
    own: tuple[Table, ...] = (node.table,) if isinstance(node, SourceScan) else ()
    return own + tuple(table for item in node.inputs for table in tables_of(item))


def column_names(fields: tuple[Field, ...]) -> tuple[str, ...]:
    """Distinct names for the columns of a batch, from the fields' names: edges identify their keys
    by name."""
    return unique_names(stored_name(field.name) for field in fields)


def unique_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names, made distinct by appended numbers."""
    taken: set[str] = set()
    found = []
    for plain in names:
        name, number = plain, 1
        while name in taken:
            number += 1
            name = f"{plain}_{number}"
        taken.add(name)
        found.append(name)
    return tuple(found)
