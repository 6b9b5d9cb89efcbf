"""The results of planning: one immutable class per kind of statement, each listing the catalog
objects it used.

A plan holds no arguments and nothing that runs. `engine/statements/run.py` names the handler of
each class, and of each command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.catalog import ComputedColumn, Dependency, Table, TableColumn, WatermarkClause
from runnel.connector import (
    ColumnDefinition,
    KeyedTable,
    RowAddressedTable,
    Source,
    WritableTable,
    WriteMode,
)
from runnel.dag import DAG
from runnel.errors import Position
from runnel.expressions.nodes import Expression
from runnel.planner.parse.syntax import Command, NamePattern, OptionValue
from runnel.relation.nodes import Field, Relation
from runnel.sqltypes import SqlType

if TYPE_CHECKING:
    from runnel.columns.table_definition import TableDefinition
    from runnel.planner.parse.macros import CreateMacro


@frozen(kw_only=True)
class Plan:
    """The base of all plans.

    parameters: for each argument, the type that it is converted to.
    dependencies: the catalog objects that the plan used, with their versions.
    is_cacheable: whether the plan may be used again while its dependencies are unchanged.
    """

    parameters: tuple[SqlType, ...] = ()
    dependencies: tuple[Dependency, ...] = ()
    is_cacheable: bool = False


@frozen
class StoredScan:
    """A query of all rows of a table in memory, which starts no job.

    source: the scan.
    columns: the indexes of the result's columns in the scan; None: all, in order.
    """

    source: Source
    columns: tuple[int, ...] | None


@frozen(kw_only=True)
class QueryPlan(Plan):
    """SELECT or VALUES, run as a light job unless it only needs rows in memory.

    logical: the logical tree after the rules.
    physical: the physical operators that were chosen.
    fields: names and types of the result's columns.
    dag: lowers `physical` for n worker threads; the DAGs are cached per n.
    tables: the tables that are scanned, from which the size of the work is estimated.
    is_unbounded: whether an input has no end.
    can_end: whether the query can end all the same, by a LIMIT for example.
    own_dag: as `dag`, without fragments, for when another engine refuses its fragment or has no
        memory for it; None if there are no fragments.
    left_out: the subplans that were not pushed down for lack of memory; "" for none.
    notice: a message to the user about the statement, shown before it runs; "" for none.
    state_limit: maximum number of bytes of its state, of EMIT CHANGES; 0: no limit.
    stored: the scan that the query consists of, if its rows are in memory as the query returns
        them; None: it runs as a job.
    """

    logical: Relation
    physical: object
    fields: tuple[Field, ...]
    dag: Callable[[int], DAG]
    tables: tuple[Table, ...]
    is_unbounded: bool
    can_end: bool
    own_dag: Callable[[int], DAG] | None = None
    left_out: str = ""
    notice: str = ""
    stored: StoredScan | None = None
    state_limit: int = 0

    @cached_property
    def is_direct(self) -> bool:
        """Whether its operators need no job while its only table has few rows."""
        if len(self.tables) != 1:
            return False
        # Loaded on first use: `SELECT 1` reads no table.
        from runnel.planner.physical.direct import runs_directly

        return runs_directly(self.physical)


@frozen(kw_only=True)
class KeyGetPlan(Plan):
    """SELECT … WHERE key = constant: a look-up by key, without a job.

    table: the table with the key.
    key: one literal or parameter per key column.
    fields: names and types of the result's columns.
    columns: the table's columns in the order of the result; None if `expressions` must be evaluated
        over the one row instead.
    expressions: the result's columns, over all columns of the table.
    logical: the logical tree after the rules, for EXPLAIN.
    may_convert: values of some columns are not always returned as they are stored.
    """

    table: KeyedTable
    key: tuple[Expression, ...]
    fields: tuple[Field, ...]
    columns: tuple[int, ...] | None
    expressions: tuple[Expression, ...]
    logical: Relation
    may_convert: bool


@frozen(kw_only=True)
class WritePlan(Plan):
    """INSERT, SINK, UPDATE or DELETE, run as a light job or by a named job.

    The DAG's result is one BIGINT, the number of rows written. Fields that are not listed here are
    as in QueryPlan.

    table: the table that is written.
    mode: how the rows are written.
    columns: the indexes of the table's columns that are written.
    logical: the query whose rows are written.
    is_unbounded: whether an input has no end, which only the write of a named job may have.
    """

    table: WritableTable
    mode: WriteMode
    columns: tuple[int, ...]
    logical: Relation
    physical: object
    dag: Callable[[int], DAG]
    tables: tuple[Table, ...]
    own_dag: Callable[[int], DAG] | None = None
    left_out: str = ""
    is_unbounded: bool = False


@frozen(kw_only=True)
class KeyPutPlan(Plan):
    """A write of literals and parameters without a job: INSERT or SINK of VALUES, UPDATE or DELETE
    by key.

    table: the table; for UPDATE and DELETE one with a key.
    mode: how the rows are written.
    columns: the indexes of the table's columns that are written.
    rows: INSERT, SINK: the values for `columns`, already of the columns' types. UPDATE, DELETE: one
        row, the key.
    assignments: of UPDATE: (column, expression over all columns of the table).
    """

    table: KeyedTable | RowAddressedTable
    mode: WriteMode
    columns: tuple[int, ...]
    rows: tuple[tuple[Expression, ...], ...]
    assignments: tuple[tuple[int, Expression], ...] = ()


@frozen(kw_only=True)
class ClearPlan(Plan):
    """DELETE without WHERE: removes all rows of the table."""

    table: KeyedTable | RowAddressedTable


class InsertRule(Enum):
    """The effect of an INSERT on a row whose key exists: FAIL, IGNORE the new row, or REPLACE the
    existing one."""

    FAIL = "fail"
    IGNORE = "ignore"
    REPLACE = "replace"


@frozen(kw_only=True)
class ChangePlan(Plan):
    """A statement that inserts, updates and deletes rows that a query computes: INSERT with ON
    CONFLICT, MERGE, UPDATE … FROM, DELETE … USING, and all of them with RETURNING.

    table: the table that is changed.
    rows: the rows: the action (INSERTED, UPDATED or DELETED), the address of the row if the table
        has row numbers, then the visible columns of the table, with their new values.
    columns: the indexes of the visible columns.
    rule: for inserted rows.
    key: with IGNORE: the names of the columns of the key; (): any key.
    allows_repeats: whether a row that is changed twice is changed once, else it is an error.
    has_action: whether the changed rows have the column merge_action.
    returning: plans the query of RETURNING over the changed rows; None: there is none.
    """

    table: KeyedTable | RowAddressedTable
    rows: QueryPlan
    columns: tuple[int, ...]
    rule: InsertRule = InsertRule.FAIL
    key: tuple[str, ...] = ()
    allows_repeats: bool = False
    has_action: bool = False
    returning: Callable[[Sequence[pa.RecordBatch]], QueryPlan] | None = None


INSERTED, UPDATED, DELETED = range(3)
"""The actions of the rows of a ChangePlan."""


@runtime_checkable
class RowChanges(Protocol):
    """A table with row numbers that changes rows in one step."""

    def unique_keys(self) -> Sequence[tuple[str, ...]]:
        """The columns of each key, by which ON CONFLICT finds a row; the primary key first."""

    def pinned(self) -> AbstractContextManager[object]:
        """Within it, the rows have the numbers that a scan returns."""

    def change(
        self, rows: pa.Table, columns: tuple[int, ...], inserts: str, key: tuple[str, ...]
    ) -> pa.Table:
        """Changes rows, all or none; returns the inserted rows if some may be ignored, else no
        rows.

        rows: the action, the row number, and the columns.
        columns: their indexes in the table.
        inserts: "fail", "ignore" or "replace", as `InsertRule`.
        key: with "ignore": the columns of the key; (): any key.
        """


@frozen(kw_only=True)
class CommandPlan(Plan):
    """A statement that needs no planning, as it was parsed."""

    statement: Command


@frozen(kw_only=True)
class CreateMappingPlan(Plan):
    """CREATE MAPPING. Exactly one of `connector` and `data_connection` is set.

    name: the mapping.
    connector: the name of the connector, or None.
    data_connection: the name of the data connection, or None.
    columns: the declared columns; () if the connector finds them.
    options: the values of OPTIONS by name.
    external_name: the object's name at the connector, joined by dots; None for the default.
    object_type, or_replace, if_not_exists: as in `syntax.CreateMapping`.
    watermark: how watermarks are generated; None: there are none.
    computed: the columns that are computed from declared ones.
    flink_text, is_temporary: as in `syntax.CreateMapping`.
    not_null: the columns, in lower case, to which no NULL is written.
    renamed: the mapping that gets the name, and is removed; None for a mapping of its own.
    schema: the key of its schema; "": public.
    """

    name: str
    connector: str | None
    data_connection: str | None
    columns: tuple[ColumnDefinition, ...]
    options: Mapping[str, str]
    external_name: str | None
    object_type: str | None
    or_replace: bool
    if_not_exists: bool
    watermark: WatermarkClause | None = None
    computed: tuple[ComputedColumn, ...] = ()
    flink_text: str | None = None
    is_temporary: bool = False
    not_null: frozenset[str] = frozenset()
    renamed: str | None = None
    schema: str = ""


@frozen(kw_only=True)
class FilledMappingPlan(Plan):
    """CREATE TABLE … WITH ('connector' = …) AS.

    mapping: the mapping that is created.
    insert: the INSERT that writes the rows of the query, planned when the mapping exists.
    """

    mapping: CreateMappingPlan
    insert: str


@frozen(kw_only=True)
class StatementSetPlan(Plan):
    """EXECUTE STATEMENT SET.

    writes: the INSERTs from inputs that end, in order.
    jobs: the INSERTs over streams, each of which starts a job.
    """

    writes: tuple[WritePlan, ...]
    jobs: tuple[CreateJobPlan, ...] = ()


@frozen(kw_only=True)
class CopyToPlan(Plan):
    """COPY … TO.

    query: the rows.
    path: the file.
    options: names and values as they are written.
    """

    query: QueryPlan | KeyGetPlan
    path: str
    options: Mapping[str, str | tuple[str, ...]]


@frozen(kw_only=True)
class CreateTablePlan(Plan):
    """CREATE TABLE.

    name: the table.
    columns: its columns.
    definition: its constraints.
    checks: the conditions of CHECK, over the columns.
    or_replace, if_not_exists: as in `CreateTable` of the parser.
    write: plans the write of the query's rows to the new table; None: it remains empty.
    schema: the key of its schema; "": public.
    """

    name: str
    columns: tuple[ColumnDefinition, ...]
    definition: TableDefinition
    checks: tuple[Expression, ...]
    or_replace: bool
    if_not_exists: bool
    write: Callable[[WritableTable], WritePlan] | None = None
    schema: str = ""


@frozen(kw_only=True)
class AlterTablePlan(Plan):
    """ALTER TABLE, or INSERT OVERWRITE.

    name: the table; its version when the statement was planned is among `dependencies`.
    new_name: its name after the statement.
    definition: its constraints after the statement.
    created: the table that replaces it, with its rows; None: the rows need no copy.
    is_cascading: as in `AlterTable` of the parser.
    counts_rows: whether the number of rows is the result, as of INSERT OVERWRITE.
    """

    name: str
    new_name: str
    definition: TableDefinition
    created: CreateTablePlan | None
    is_cascading: bool
    counts_rows: bool = False


@frozen(kw_only=True)
class NothingPlan(Plan):
    """A statement without an effect: its object does not exist, and IF EXISTS is written."""


@frozen(kw_only=True)
class CreateViewPlan(Plan):
    """CREATE VIEW.

    name: the view.
    sql: the text of the query. It was bound once, so it is valid against the current catalog.
    columns: new names for the first columns of the query.
    or_replace, if_not_exists, temporary: as in `syntax.CreateView`.
    schema: the key of its schema; "": public.
    path: the search path by which the query's names are looked up.
    """

    name: str
    sql: str
    columns: tuple[str, ...]
    or_replace: bool
    if_not_exists: bool
    temporary: bool
    schema: str = ""
    path: tuple[str, ...] = ()


@frozen(kw_only=True)
class CreateMacroPlan(Plan):
    """CREATE MACRO, whose body was checked once.

    statement: as it was parsed.
    """

    statement: CreateMacro


@frozen(kw_only=True)
class CreateJobPlan(Plan):
    """CREATE JOB.

    name: the job.
    position: of the name in the statement; None: unknown.
    options: the items of OPTIONS.
    write: the plan of the job's query, bound as the job will run it.
    text: the text of the job's query.
    if_not_exists: as in `syntax.CreateJob`.
    is_submitted: it is an INSERT of Flink: the job gets the name with a number, and the result is a
        row with its id and name.
    """

    name: str
    position: Position | None = None
    options: tuple[OptionValue, ...]
    write: WritePlan
    text: str
    if_not_exists: bool
    is_submitted: bool = False


@frozen(kw_only=True)
class AlterJobPlan(Plan):
    """ALTER JOB.

    name: the job.
    position: of the name in the statement; None: unknown.
    action: as in `syntax.AlterJob`.
    options: the items of OPTIONS.
    write, text: the plan and the text of the new query, if there is one.
    """

    name: str
    position: Position | None = None
    action: str
    options: tuple[OptionValue, ...] = ()
    write: WritePlan | None = None
    text: str = ""


@frozen(kw_only=True)
class CreateMaterializedViewPlan(Plan):
    """CREATE MATERIALIZED VIEW.

    name: the view.
    schema: the key of its schema; "": public.
    position: of the name in the statement.
    text: the statement.
    columns: its columns.
    key: the indexes of columns by which its rows differ; None: unknown.
    options: the items of OPTIONS that are a job's.
    write: the plan of its query, bound as the job will run it.
    or_replace, if_not_exists: as in the statement.
    """

    name: str
    schema: str
    position: Position | None
    text: str
    columns: tuple[TableColumn, ...]
    key: tuple[int, ...] | None
    options: tuple[OptionValue, ...]
    write: WritePlan
    or_replace: bool
    if_not_exists: bool


@frozen(kw_only=True)
class ShowPlan(Plan):
    """SHOW.

    what: as in `syntax.Show`.
    name: the object that is shown, where `what` needs one; None: there is none.
    rows: the result, where the planner computes it ("columns", "views", "description" of DESCRIBE
        and "all tables").
    like: the pattern that the first column must match; None: there is none.
    """

    what: str
    name: str | None = None
    rows: tuple[tuple[Any, ...], ...] = ()
    like: NamePattern | None = None


@frozen(kw_only=True)
class PivotPlan(Plan):
    """A statement with PIVOT without IN: it is planned again with the values that a query returns.

    values: the query for the values, which become columns.
    planned: returns the plan of the statement, given the values.
    """

    values: Plan
    planned: Callable[[Sequence[Expression]], Plan]


@frozen(kw_only=True)
class ExplainPlan(Plan):
    """EXPLAIN.

    stage: as in `syntax.Explain`.
    format: "text", "dot" or "json".
    plan: the plan of the explained statement; it is run only if the stage is "analyze".
    """

    stage: str
    format: str
    plan: Plan
