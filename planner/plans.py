"""The results of planning: one immutable class per kind of statement, each listing the catalog
objects it used.

A plan holds no arguments and nothing that runs. `engine/statements/run.py` names the handler of
each class.
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
from runnel.relation.nodes import Field, Relation
from runnel.sqltypes import SqlType


@frozen(kw_only=True)
class Plan:
    """The base of all plans. `parameters[i]` is the type that argument i is converted to."""

    parameters: tuple[SqlType, ...] = ()
    dependencies: tuple[Dependency, ...] = ()
    is_cacheable: bool = False


@frozen(kw_only=True)
class QueryPlan(Plan):
    """SELECT, VALUES: a light job. `logical` is the tree after the rules, `physical` what was
    chosen; `dag(n)` lowers it for n worker threads (lowered once per n, then kept); `tables` are
    those scanned, to judge the size of the work.

    `own_dag` is the same without fragments, for when another engine has no room for its part or
    refuses it; None where there are none. `left_out`: what another engine was not given for want of
    memory. `notice`: what its reader should know before it runs."""

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
    """SELECT … WHERE key = constant: a look-up without a job. `key` are literals or parameters, one
    per key column. `columns` are the table's columns in the order of the result; None where
    `expressions` (over all columns of the table) must be evaluated over the one row instead."""

    table: KeyedTable
    key: tuple[Expression, ...]
    fields: tuple[Field, ...]
    columns: tuple[int, ...] | None
    expressions: tuple[Expression, ...]
    logical: Relation


@frozen(kw_only=True)
class WritePlan(Plan):
    """INSERT, SINK, UPDATE, DELETE as a light job; the DAG's result is one BIGINT, the number of
    rows written. `logical` is the query whose rows are written to `columns` of the table; the rest
    is as for a QueryPlan. Only that of a job may be unbounded."""

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
    """A write of literals and parameters only, without a job: INSERT or SINK of VALUES, UPDATE or
    DELETE by key.

    INSERT, SINK: `rows` are the values for `columns` of the table, each already of the column's
    type. DELETE: `rows` is one row, the key. UPDATE: `rows` is one row, the key; `assignments` are
    (column, expression over all columns of the table).
    """

    table: KeyedTable
    mode: WriteMode
    columns: tuple[int, ...]
    rows: tuple[tuple[Expression, ...], ...]
    assignments: tuple[tuple[int, Expression], ...] = ()


@frozen(kw_only=True)
class ClearPlan(Plan):
    """DELETE without WHERE."""

    table: KeyedTable | RowAddressedTable


@frozen(kw_only=True)
class CreateMappingPlan(Plan):
    """Either `connector` or `data_connection` is given."""

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
class CreateDataConnectionPlan(Plan):
    name: str
    connector: str
    options: Mapping[str, str]
    is_shared: bool
    or_replace: bool
    if_not_exists: bool


@frozen(kw_only=True)
class CreateViewPlan(Plan):
    """`sql` is the query's text as written; it was bound once, so it is sound now."""

    name: str
    sql: str
    columns: tuple[str, ...]
    or_replace: bool
    if_not_exists: bool
    temporary: bool


@frozen(kw_only=True)
class CreateIndexPlan(Plan):
    name: str
    table_name: str
    columns: tuple[str, ...]
    kind: str
    if_not_exists: bool


GivenOption = tuple[str, str, Position | None]
"""An option as written: name, value, and where the name stands."""


@frozen(kw_only=True)
class CreateJobPlan(Plan):
    """`write` is the plan of the job's query, whose text is `text`: it was bound as it is to run.
    `position`: where its name stands, as in the plans below."""

    name: str
    position: Position | None = None
    options: tuple[GivenOption, ...]
    write: WritePlan
    text: str
    if_not_exists: bool


@frozen(kw_only=True)
class AlterJobPlan(Plan):
    """`action` is as in `syntax.AlterJob`; `write` and `text` are those of a new query."""

    name: str
    position: Position | None = None
    action: str
    options: tuple[GivenOption, ...] = ()
    write: WritePlan | None = None
    text: str = ""


@frozen(kw_only=True)
class DropJobPlan(Plan):
    """`snapshot`: the name under which the job's state is kept."""

    name: str
    position: Position | None = None
    if_exists: bool
    snapshot: str | None = None


@frozen(kw_only=True)
class VerifyJobPlan(Plan):
    name: str
    position: Position | None = None
    options: tuple[GivenOption, ...] = ()


@frozen(kw_only=True)
class CreateSnapshotPlan(Plan):
    """`job_position`: where the name of the job stands."""

    name: str
    job: str
    or_replace: bool
    position: Position | None = None
    job_position: Position | None = None


@frozen(kw_only=True)
class DropSnapshotPlan(Plan):
    name: str
    if_exists: bool
    position: Position | None = None


@frozen(kw_only=True)
class DropPlan(Plan):
    """`kind` is "mapping", "view", "index" or "data connection"."""

    kind: str
    name: str
    if_exists: bool


@frozen(kw_only=True)
class ShowPlan(Plan):
    """`what` is as in `syntax.Show`. `rows` are what the planner has found out for "columns" and
    "views"."""

    what: str
    name: str | None = None
    rows: tuple[tuple[str | None, ...], ...] = ()


@frozen(kw_only=True)
class SetPlan(Plan):
    """`value` is the text or literal given; None for DEFAULT. `position` is that of the name."""

    name: str
    value: str | int | bool | float | None
    position: Position | None = None


@frozen(kw_only=True)
class ExplainPlan(Plan):
    """`stage` is "logical", "physical", "dag" or "all"; `format` is "text", "dot" or "json". `plan`
    is the plan of the statement explained, which is run only if the stage is "analyze"."""

    stage: str
    format: str
    plan: Plan
