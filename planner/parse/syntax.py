"""The statements as written: the result of `parse`, before names and types are looked up.

Every node is frozen and carries the position of its first word. Scalar expressions and queries are
sqlglot trees of the DuckDB dialect; `query/shapes.py` lists the shapes that occur in them. Names
keep their spelling.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, ClassVar

from runnel.base.frozen import frozen
from runnel.connector import WriteMode
from runnel.errors import Position
from runnel.sqltypes import SqlType


@frozen
class Name:
    """An identifier.

    text: as written, without quotes; of the name of an object with its qualifiers.
    position: of the identifier in the statement.
    qualifiers: the schema, or the catalog and the schema, that qualify the name of an object.
    last: the name after the qualifiers.
    """

    text: str
    position: Position
    qualifiers: tuple[str, ...] = ()
    last: str = ""

    @property
    def local(self) -> str:
        """The name without qualifiers."""
        return self.last if self.qualifiers else self.text

    def __str__(self) -> str:
        return self.text


@frozen(kw_only=True)
class Statement:
    """The base of all statements.

    sql: the whole text that was parsed; all positions point into it.
    position: of the statement's first word.
    """

    sql: str
    position: Position


@frozen(kw_only=True)
class Command(Statement):
    """A statement that needs no planning: its handler receives it as it was parsed.

    has_rows: whether the result is rows.
    """

    has_rows: ClassVar[bool] = False


@frozen
class EmissionClauses:
    """EMIT EVERY, ALLOWED LATENESS and LATE DATA INTO, each None if the query doesn't have it.

    every: a sqlglot tree: the interval of processing time.
    lateness: a sqlglot tree: the duration in event time.
    late_table: the mapping to which late rows are written.
    position: of the first clause.
    """

    every: Any
    lateness: Any
    late_table: Name | None
    position: Position


@frozen
class ChangesClause:
    """EMIT CHANGES of a query.

    position: of the clause.
    epoch_millis: the option 'epochMillis'; None: the default.
    state_limit: the option 'maxStateBytes'; 0: no limit.
    poll_millis: the option 'pollChangesMillis'; None: tables are read once.
    """

    position: Position
    epoch_millis: int | None = None
    state_limit: int = 0
    poll_millis: int | None = None


@frozen(kw_only=True)
class Query(Statement):
    """SELECT, WITH, VALUES or a set operation.

    expression: the sqlglot tree, which has passed `allow_list.check`.
    text: the query's section of `sql`.
    parameters: the number of parameters in the whole of `sql`.
    emission: EMIT EVERY, ALLOWED LATENESS and LATE DATA INTO; None: the query has none of them.
    unbounded_state: whether its state may grow without bound (OPTIONS
        ('allowUnboundedState'='true')).
    changes: EMIT CHANGES; None: the query does not have it.
    """

    expression: Any
    text: str
    parameters: int
    emission: EmissionClauses | None = None
    unbounded_state: bool = False
    changes: ChangesClause | None = None


@frozen
class MappingColumn:
    """A column as CREATE MAPPING declares it.

    name: the column in SQL.
    type: the declared SQL type.
    external_name: the column's name in the external data; None: the same name.
    is_not_null: whether NOT NULL is written.
    """

    name: Name
    type: SqlType
    external_name: Name | None = None
    is_not_null: bool = False


@frozen
class ComputedClause:
    """`name AS expression` among the columns of CREATE MAPPING.

    name: the column in SQL.
    text: the expression as it is written.
    index: the position among the columns of the statement, from 0.
    value: the sqlglot tree of the expression; None if `type` is set.
    type: the type, if the expression names columns of the connector that are not declared.
    """

    name: Name
    text: str
    index: int
    value: Any = None
    type: SqlType | None = None


@frozen
class MappingWatermark:
    """WATERMARK FOR of a mapping.

    column: the event time column.
    value: the expression after AS, as a sqlglot tree.
    """

    column: Name
    value: Any


@frozen
class OptionClause:
    """One item `'name' = 'value'` of an OPTIONS list; both are texts."""

    name: Name
    value: str


OptionValue = tuple[str, str, Position]
"""An option as written: name, value, and the position of the name in the statement."""


def option_values(options: Iterable[OptionClause]) -> tuple[OptionValue, ...]:
    return tuple((option.name.text, option.value, option.name.position) for option in options)


@frozen(kw_only=True)
class CreateMapping(Statement):
    """CREATE MAPPING. Exactly one of `connector` (TYPE) and `data_connection` is set.

    name: the mapping.
    columns: the declared columns; () if none are declared.
    connector: the connector after TYPE, or None.
    data_connection: the data connection, or None.
    options: the items of OPTIONS.
    external_name: the object's name at the connector, its components joined by dots; None: the name
        of the mapping.
    object_type: the word after OBJECT TYPE, whose meaning depends on the connector; None: its
        default.
    or_replace: whether an existing mapping is replaced.
    if_not_exists: whether an existing mapping is left as it is.
    watermark: the clause WATERMARK FOR, or None.
    computed: the computed columns.
    flink_text: the CREATE TABLE … WITH ('connector' = …) of which this is the translation; None:
        CREATE MAPPING.
    is_temporary: whether TEMPORARY is written: the mapping is not stored in a directory.
    """

    name: Name
    columns: tuple[MappingColumn, ...]
    connector: Name | None
    data_connection: Name | None
    options: tuple[OptionClause, ...]
    external_name: Name | None
    object_type: Name | None
    or_replace: bool
    if_not_exists: bool
    watermark: MappingWatermark | None = None
    computed: tuple[ComputedClause, ...] = ()
    flink_text: str | None = None
    is_temporary: bool = False


@frozen(kw_only=True)
class CreateDataConnection(Command):
    """CREATE DATA CONNECTION.

    name: the data connection.
    connector: the connector after TYPE.
    options: the items of OPTIONS.
    is_shared: False after NOT SHARED.
    or_replace: whether an existing data connection is replaced.
    if_not_exists: whether an existing data connection is left as it is.
    """

    name: Name
    connector: Name
    options: tuple[OptionClause, ...]
    is_shared: bool
    or_replace: bool
    if_not_exists: bool


@frozen(kw_only=True)
class CreateView(Statement):
    """CREATE VIEW.

    name: the view.
    columns: new names for the query's columns; () if none are listed.
    query: the query after AS.
    or_replace: whether an existing view is replaced.
    if_not_exists: whether an existing view is left as it is.
    temporary: whether TEMPORARY is written: the view is not stored in a directory.
    must_exist: whether it is ALTER VIEW, which replaces an existing view.
    """

    name: Name
    columns: tuple[Name, ...]
    query: Query
    or_replace: bool
    if_not_exists: bool
    temporary: bool
    must_exist: bool = False


@frozen(kw_only=True)
class CreateIndex(Command):
    """CREATE INDEX.

    name: the index; None: it is named after the table and the columns.
    table: the table that is indexed.
    columns: the indexed columns, in order.
    method: the word after TYPE or USING, in upper case; None: there is none.
    kind: "sorted" or "hash", for a map.
    is_unique: whether no two rows have the same values.
    if_not_exists: whether an existing index is left as it is.
    """

    name: Name | None
    table: Name
    columns: tuple[Name, ...]
    method: str | None
    kind: str
    is_unique: bool
    if_not_exists: bool


@frozen(kw_only=True)
class DropObject(Command):
    """DROP of a catalog object.

    kind: the words after DROP in lower case.
    name: the object.
    if_exists: whether a missing object is no error.
    """

    kind: ClassVar[str]
    name: Name
    if_exists: bool


@frozen(kw_only=True)
class DropMapping(DropObject):
    """DROP MAPPING.

    is_cascading: whether jobs that use the mapping are suspended.
    """

    kind = "mapping"
    is_cascading: bool = False


@frozen(kw_only=True)
class DropView(DropObject):
    """DROP VIEW."""

    kind = "view"


@frozen(kw_only=True)
class DropDataConnection(DropObject):
    """DROP DATA CONNECTION."""

    kind = "data connection"


@frozen(kw_only=True)
class DropIndex(DropObject):
    """DROP INDEX.

    table: the mapping after ON, if the statement names one.
    """

    kind = "index"
    table: Name | None


@frozen
class ColumnAssignment:
    """One `column = value` of UPDATE.

    column: the column that is changed.
    value: the new value, as a sqlglot tree.
    """

    column: Name
    value: Any


@frozen
class ConflictClause:
    """ON CONFLICT of INSERT, or OR IGNORE.

    columns: the columns of the key; (): any key.
    assignments: the items of DO UPDATE SET; None: DO NOTHING.
    where: the condition of DO UPDATE, as a sqlglot tree; None: true.
    position: of the clause.
    """

    columns: tuple[Name, ...]
    assignments: tuple[ColumnAssignment, ...] | None
    where: Any | None
    position: Position


@frozen(kw_only=True)
class Insert(Statement):
    """INSERT INTO or SINK INTO.

    table: the table that is written.
    columns: the listed columns; None: the statement lists none.
    query: the rows to write.
    mode: INSERT or SINK.
    alias: the table's name within the statement; None: its own name.
    conflict: ON CONFLICT or OR IGNORE; None: a row with an existing key is an error.
    replaces: whether OR REPLACE is written.
    by_name: whether the query's columns are assigned by name.
    has_default_values: whether DEFAULT VALUES is written: `query` is one row without columns.
    returning: the query of RETURNING over the written rows; None: there is none.
    overwrites: whether OVERWRITE is written: the rows replace the ones of the table.
    partition: Flink's PARTITION: columns that have the same value in each row.
    overrides_identity: whether OVERRIDING SYSTEM VALUE is written.
    """

    table: Name
    columns: tuple[Name, ...] | None
    query: Query
    mode: WriteMode
    alias: Name | None = None
    conflict: ConflictClause | None = None
    replaces: bool = False
    by_name: bool = False
    has_default_values: bool = False
    returning: Any | None = None
    overwrites: bool = False
    partition: tuple[ColumnAssignment, ...] = ()
    overrides_identity: bool = False

    @property
    def needs_rows(self) -> bool:
        """Whether a sink alone cannot run it."""
        return self.conflict is not None or self.returning is not None or self.overwrites


@frozen(kw_only=True)
class Update(Statement):
    """UPDATE.

    table: the table that is changed.
    alias: the table's name within the statement; None: its own name.
    assignments: the items of SET, in order.
    where: the condition, as a sqlglot tree; None: all rows are changed.
    parameters: the number of parameters in `sql`.
    source: the items of FROM, as a sqlglot SELECT over them; None: there are none.
    returning: the query of RETURNING over the new rows; None: there is none.
    """

    table: Name
    alias: Name | None
    assignments: tuple[ColumnAssignment, ...]
    where: Any | None
    parameters: int
    source: Any | None = None
    returning: Any | None = None

    @property
    def needs_rows(self) -> bool:
        """Whether a sink alone cannot run it."""
        return self.source is not None or self.returning is not None


@frozen(kw_only=True)
class Delete(Statement):
    """DELETE FROM.

    table: the table from which rows are deleted.
    alias: the table's name within the statement; None: its own name.
    where: the condition, as a sqlglot tree; None: all rows are deleted.
    parameters: the number of parameters in `sql`.
    source: the items of USING, as a sqlglot SELECT over them; None: there are none.
    returning: the query of RETURNING over the deleted rows; None: there is none.
    restart: the position of RESTART IDENTITY of TRUNCATE; None: it is not written.
    """

    table: Name
    alias: Name | None
    where: Any | None
    parameters: int
    source: Any | None = None
    returning: Any | None = None
    restart: Position | None = None

    @property
    def needs_rows(self) -> bool:
        """Whether a sink alone cannot run it."""
        return self.source is not None or self.returning is not None


@frozen(kw_only=True)
class CreateJob(Statement):
    """CREATE JOB.

    name: the job.
    options: the items of OPTIONS.
    body: the statement that the job runs.
    text: the section of `sql` that is the job's body.
    if_not_exists: whether an existing job is left as it is.
    """

    name: Name
    options: tuple[OptionClause, ...]
    body: Insert
    text: str
    if_not_exists: bool

    @property
    def parameters(self) -> int:
        """The number of `?` in `sql`."""
        return self.body.query.parameters


@frozen(kw_only=True)
class AlterJob(Statement):
    """ALTER JOB.

    name: the job.
    action: "suspend", "resume", "restart", "options", "options and resume" or "query".
    options: the items of OPTIONS; () if the action does not set any.
    body: the new query if the action is "query"; otherwise None.
    text: the section of `sql` that is the new query; "" if there is none.
    """

    name: Name
    action: str
    options: tuple[OptionClause, ...] = ()
    body: Insert | None = None
    text: str = ""

    @property
    def parameters(self) -> int:
        """The number of `?` in `sql`."""
        return 0 if self.body is None else self.body.query.parameters


@frozen(kw_only=True)
class Explain(Statement):
    """EXPLAIN.

    stage: "all" (logical and physical), "logical", "physical", "dag", "state" or "analyze".
    format: "text", "dot" or "json".
    statement: a Query, Insert, Update, Delete, CreateJob, or AlterJob with a new query.
    """

    stage: str
    format: str
    statement: Statement


@frozen
class NamePattern:
    """[NOT] {LIKE | ILIKE} 'pattern' of SHOW.

    pattern: with % and _ as in LIKE.
    ignores_case: whether it is ILIKE.
    negated: whether it is NOT.
    """

    pattern: str
    ignores_case: bool
    negated: bool

    def matches(self, name: str) -> bool:
        """Whether a name is shown."""
        signs = {"%": ".*", "_": "."}
        regex = "".join(signs.get(sign) or re.escape(sign) for sign in self.pattern)
        flags = re.DOTALL | (re.IGNORECASE if self.ignores_case else 0)
        return (re.fullmatch(regex, name, flags) is None) is self.negated


@frozen(kw_only=True)
class Show(Statement):
    """SHOW.

    what: "mappings", "views", "snapshots", "plans", "indexes", "settings" (also for SHOW
        ALL), "functions", "user functions", "data connections" or "all tables"; with a `name`:
        "setting", "resources" (of a data connection), "partitions" or "columns" (of a table).
    like: the pattern that the names must match; None: all are shown.
    """

    what: str
    name: Name | None = None
    like: NamePattern | None = None


@frozen(kw_only=True)
class Describe(Statement):
    """DESCRIBE.

    name: the table or view; None: `query` is described, or without one, all tables.
    query: a query, or `FROM 'file'` for a file.
    """

    name: Name | None = None
    query: Query | None = None

    @property
    def parameters(self) -> int:
        """The number of `?` in `sql`."""
        return 0 if self.query is None else self.query.parameters


@frozen(kw_only=True)
class Summarize(Statement):
    """SUMMARIZE.

    query: the query; `FROM t` for a table or file.
    """

    query: Query

    @property
    def parameters(self) -> int:
        """The number of `?` in `sql`."""
        return self.query.parameters


@frozen(kw_only=True)
class NoEffect(Command):
    """A statement that is accepted and does nothing, such as USE of the only catalog."""


@frozen(kw_only=True)
class SetOption(Command):
    """SET name = value, or RESET name.

    name: the setting.
    value: None for DEFAULT and RESET; a bare word is text.
    """

    name: Name
    value: str | int | float | bool | None
