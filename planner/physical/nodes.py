"""Physical nodes: what was chosen to run, one node per operator, before it is cut into vertices.

A node is frozen. Its expressions refer to its input's columns by index, as in the relational nodes;
`rows` is an estimate of the rows that come out (None: not known). A physical plan says nothing of
threads: lowering decides, for a given parallelism, whether an operator runs in one stage or two and
how rows travel between its processors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

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
from runnel.expressions.nodes import Aggregate as AggregateCall
from runnel.expressions.nodes import Column, Expression, SortKey
from runnel.relation.nodes import Field, JoinKind
from runnel.relation.over import WindowCall

if TYPE_CHECKING:
    from runnel.foreign.fragment import FragmentSource
    from runnel.processors.sources.partition_watermarks import TimeRule
    from runnel.relation.nodes import Divert


@frozen(kw_only=True)
class Physical:
    """The base of all physical nodes."""

    fields: tuple[Field, ...]
    rows: int | None = None
    state_name: str | None = None
    """As in Relation."""

    @property
    def inputs(self) -> tuple[Physical, ...]:
        return ()


@frozen(kw_only=True)
class SingleInput(Physical):
    """A node of one input."""

    input: Physical

    @property
    def inputs(self) -> tuple[Physical, ...]:
        return (self.input,)


@frozen(kw_only=True)
class TwoInputs(Physical):
    """A node of two inputs."""

    left: Physical
    right: Physical

    @property
    def inputs(self) -> tuple[Physical, ...]:
        return (self.left, self.right)


@frozen(kw_only=True)
class SourceScan(Physical):
    """A scan with its filter and projection in one step.

    `condition` and `projections` are over the columns of `request`, in that order; projections
    None: those columns as they are. The request's predicate is advice to the table, the condition
    decides.
    """

    table: ReadableTable
    request: ScanRequest
    condition: Expression | None = None
    projections: tuple[Expression, ...] | None = None
    time: TimeRule | None = None
    """How watermarks come about, where there are to be any; over the columns of `request`."""
    divert: Divert | None = None
    """Where records go that can't be read."""


@frozen(kw_only=True)
class Shared(Physical):
    """One of several uses of `shared`, which runs once; those of one have one `number`. Its
    watermarks, by their numbers, have the numbers that `watermarks` pairs them with for this use;
    others end here. The first use is the one that has an input."""

    shared: Physical
    number: int
    is_first: bool
    watermarks: tuple[tuple[int, int], ...]

    @property
    def inputs(self) -> tuple[Physical, ...]:
        return (self.shared,) if self.is_first else ()


@frozen(kw_only=True)
class CommonRows(Physical):
    """The rows of a common table that runs once, as in Relation: a leaf until `sharing_tables` puts
    the plan of that number in its place."""

    number: int


@frozen(kw_only=True)
class Hold(SingleInput):
    """The rows of its input, all of which it takes before it gives any: so what `Shared` stands
    below it never waits for it."""


@frozen(kw_only=True)
class IndexScan(SourceScan):
    """A SourceScan that reads only what `lookup` finds in an index, in the index's order if
    `lookup.ordered`."""

    lookup: IndexLookup

    @property
    def indexed_table(self) -> IndexedTable:
        assert isinstance(self.table, IndexedTable)
        return self.table


@frozen(kw_only=True)
class Fragment(Physical):
    """The rows of a sub-plan that another engine runs; `stopped` says why what is above it isn't
    part of it."""

    source: FragmentSource
    stopped: str = ""


@frozen(kw_only=True)
class NarrowedFragment(Fragment):
    """A Fragment of whose rows only those are wanted for which `keys[i]` are a row of `feeds[i]`.
    It is read when the feeds have been read to their end. More rows may come: the joins above
    decide."""

    feeds: tuple[Physical, ...]
    keys: tuple[tuple[Expression, ...], ...]

    @property
    def inputs(self) -> tuple[Physical, ...]:
        return self.feeds


@frozen(kw_only=True)
class Values(Physical):
    """Literal rows."""

    values: tuple[tuple[Expression, ...], ...]


@frozen(kw_only=True)
class Generate(Physical):
    """The rows of a table function without an input."""

    function: str
    arguments: tuple[Expression, ...]


@frozen(kw_only=True)
class Calc(SingleInput):
    """The rows for which `condition` is true (None: all), as `projections` (None: as they are)."""

    condition: Expression | None = None
    projections: tuple[Expression, ...] | None = None


@frozen(kw_only=True)
class HashAggregate(SingleInput):
    """Groups by `keys`. `two_stage`: may be accumulated where the data is and then combined by key;
    otherwise all rows of a group must meet in one place."""

    keys: tuple[Expression, ...]
    aggregates: tuple[AggregateCall, ...]
    two_stage: bool


@frozen(kw_only=True)
class HashJoin(Physical):
    """A join that reads `build` (the right side) to its end, then streams `probe` (the left side)
    past it.

    Without keys it compares every pair. The columns of the result are those at `columns` (None:
    all) of the probe side's, followed by the build side's, as `kind` has it. `is_partitioned`:
    where several processors run, both sides are divided by the hash of the keys; otherwise each
    processor is given the whole build side. The keys whose number is in `null_safe` match by IS NOT
    DISTINCT FROM. `position`: where the statement has it, or the subquery that it stands for.
    `refresh`: after how many milliseconds the build side, scans and calculations only, is read
    again (None: it is read once).
    """

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
class Sort(SingleInput):
    """All rows in order."""

    keys: tuple[SortKey, ...]


@frozen(kw_only=True)
class TopN(SingleInput):
    """The first `count` rows after `offset` in order, keeping no more rows than these in memory."""

    keys: tuple[SortKey, ...]
    count: Expression
    offset: Expression | None


@frozen(kw_only=True)
class Limit(SingleInput):
    """After leaving out `offset` rows, at most `count` rows (None: all)."""

    count: Expression | None
    offset: Expression | None


@frozen(kw_only=True)
class Union(Physical):
    """The rows of all parts. `watermarks`: for each part those that it brings, by their numbers,
    with the numbers they get (None: there are none)."""

    parts: tuple[Physical, ...]
    watermarks: tuple[Mapping[int, int], ...] | None = None

    @property
    def inputs(self) -> tuple[Physical, ...]:
        return self.parts


@frozen(kw_only=True)
class SetOperation(TwoInputs):
    """INTERSECT or EXCEPT, with ALL or without."""

    operation: str
    all: bool


@frozen(kw_only=True)
class Unnest(SingleInput):
    """Each row once per element of `array`. The columns of the result are those at `columns` (None:
    all) of the input's, followed by the element and, with `ordinality`, its number."""

    array: Expression
    outer: bool
    ordinality: str | None
    columns: tuple[int, ...] | None = None
    more: tuple[Expression, ...] = ()
    """Further arrays, whose elements stand beside those of the first."""


@frozen(kw_only=True)
class Expand(SingleInput):
    """Each row once per list of `projections`; `of_sets` is as in the relational node."""

    projections: tuple[tuple[Expression, ...], ...]
    of_sets: bool = False


class MostRows(NamedTuple):
    """Of a window only the rows are needed for which the value of the call at `call` is at most
    `number`."""

    call: int
    number: Expression


@frozen(kw_only=True)
class Window(SingleInput):
    """The first `width` columns of the input, then the value of each call. Where several processors
    run, the rows are divided by the hash of `keys`, columns by which all calls partition; without
    any they come together in one. With `most` rows that can't be among those needed may be left
    out."""

    calls: tuple[WindowCall, ...]
    width: int
    keys: tuple[Column, ...] = ()
    most: MostRows | None = None


@frozen(kw_only=True)
class Series(SingleInput):
    """Each row once per value of the series from the first to the second of the `arguments`, by the
    third. The columns of the result are as with Unnest."""

    arguments: tuple[Expression, ...]
    outer: bool
    ordinality: str | None
    columns: tuple[int, ...] | None = None


@frozen(kw_only=True)
class GroupLimit(SingleInput):
    """Of the rows with the same `keys`, in order, `count` rows (None: all) after `offset`."""

    keys: tuple[Expression, ...]
    order: tuple[SortKey, ...]
    count: Expression | None
    offset: Expression | None


@frozen(kw_only=True)
class WorkingTable(Physical):
    """Inside the step of a recursion: the rows of the round before."""

    name: str


@frozen(kw_only=True)
class Recursion(Physical):
    """The anchor's rows, then those that the `stages` make of the rows of the round before. `sides`
    are the other sides of the stages that are joins, in order. `step` is the plan that the stages
    were taken from."""

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
    """Writes all rows to `table` and gives one row: their number."""

    table: WritableTable
    request: SinkRequest


def tables_of(node: Physical) -> tuple[Table, ...]:
    """The tables that a physical plan scans, once per scan."""
    own: tuple[Table, ...] = (node.table,) if isinstance(node, SourceScan) else ()
    return own + tuple(table for item in node.inputs for table in tables_of(item))


def column_names(fields: tuple[Field, ...]) -> tuple[str, ...]:
    """Names for the columns of a batch: those of the fields, each one only once (edges name their
    keys by them)."""
    return unique_names(field.name for field in fields)


def unique_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names, those that come again with numbers."""
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
