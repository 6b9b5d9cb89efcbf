"""The results of planning: one immutable class per kind of statement, each listing the catalog
objects it used.

A plan holds no arguments and nothing that runs. `engine/statements/run.py` names the handler of
each class, and of each command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runnel.base.frozen import frozen
from runnel.catalog import Dependency, Table, WatermarkClause
from runnel.connector import (
    ColumnDefinition,
    KeyedTable,
    RowAddressedTable,
    WritableTable,
    WriteMode,
)
from runnel.dag import DAG
from runnel.errors import Position
from runnel.expressions.nodes import Expression
from runnel.planner.parse.syntax import Command, OptionValue
from runnel.relation.nodes import Field, Relation
from runnel.sqltypes import SqlType


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


@frozen(kw_only=True)
class QueryPlan(Plan):
    """SELECT or VALUES, run as a light job.

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
    """

    table: KeyedTable
    key: tuple[Expression, ...]
    fields: tuple[Field, ...]
    columns: tuple[int, ...] | None
    expressions: tuple[Expression, ...]
    logical: Relation


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
    """A write of literals and parameters by key, without a job: INSERT or SINK of VALUES, UPDATE
    or DELETE by key.

    table: the table with the key.
    mode: how the rows are written.
    columns: the indexes of the table's columns that are written.
    rows: INSERT, SINK: the values for `columns`, already of the columns' types. UPDATE, DELETE: one
        row, the key.
    assignments: of UPDATE: (column, expression over all columns of the table).
    """

    table: KeyedTable
    mode: WriteMode
    columns: tuple[int, ...]
    rows: tuple[tuple[Expression, ...], ...]
    assignments: tuple[tuple[int, Expression], ...] = ()


@frozen(kw_only=True)
class ClearPlan(Plan):
    """DELETE without WHERE: removes all rows of the table."""

    table: KeyedTable | RowAddressedTable


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


@frozen(kw_only=True)
class CreateViewPlan(Plan):
    """CREATE VIEW.

    name: the view.
    sql: the text of the query. It was bound once, so it is valid against the current catalog.
    columns: new names for the first columns of the query.
    or_replace, if_not_exists, temporary: as in `syntax.CreateView`.
    """

    name: str
    sql: str
    columns: tuple[str, ...]
    or_replace: bool
    if_not_exists: bool
    temporary: bool


@frozen(kw_only=True)
class CreateJobPlan(Plan):
    """CREATE JOB.

    name: the job.
    position: of the name in the statement; None: unknown.
    options: the items of OPTIONS.
    write: the plan of the job's query, bound as the job will run it.
    text: the text of the job's query.
    if_not_exists: as in `syntax.CreateJob`.
    """

    name: str
    position: Position | None = None
    options: tuple[OptionValue, ...]
    write: WritePlan
    text: str
    if_not_exists: bool


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
class ShowPlan(Plan):
    """SHOW.

    what: as in `syntax.Show`.
    name: the object that is shown, where `what` needs one; None: there is none.
    rows: the result, where the planner computes it ("columns" and "views").
    """

    what: str
    name: str | None = None
    rows: tuple[tuple[str | None, ...], ...] = ()


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
