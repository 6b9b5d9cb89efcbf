"""Binding of the columns of a table that a write does not set: GENERATED ALWAYS AS an expression,
and GENERATED ALWAYS AS IDENTITY.

The catalog stores the text of the expression. Each write computes it from the row that it writes,
in a projection over the other values, so that a value such as `nextval('s')` is computed once:

    CREATE TABLE t (id SERIAL, code VARCHAR AS ('no ' || id));  INSERT INTO t DEFAULT VALUES

    Project(id, 'no ' || id) over Project(nextval('t_id_seq') AS id)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runnel.catalog import Table, TableColumn
from runnel.columns.table_definition import TableDefinition
from runnel.connector import ColumnDefinition
from runnel.errors import Error, Position, ProgrammingError, as_written
from runnel.expressions import build
from runnel.expressions.nodes import Expression, Literal
from runnel.planner.bind.tables.definitions import bound_over, parsed_text
from runnel.planner.parse.dml import is_default
from runnel.planner.parse.syntax import ColumnAssignment, Insert, Name
from runnel.planner.rewriting import substitute
from runnel.relation.nodes import Project, Relation, references
from runnel.sqltypes import NULL, SqlType

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder


def definition_of(table: Table) -> TableDefinition | None:
    """The definition of a table of CREATE TABLE."""
    found = getattr(table, "definition", None)
    return found if isinstance(found, TableDefinition) else None


def is_computed(table: Table, index: int) -> bool:
    """Whether each write computes the column."""
    definition = definition_of(table)
    return definition is not None and table.columns[index].name.lower() in definition.computed


def computed_columns(binder: StatementBinder, table: Table) -> dict[int, Expression]:
    """The expressions of the computed columns, over the columns of the table, by index."""
    definition = definition_of(table)
    if definition is None:
        return {}
    return computed_of(binder, definition, table.columns)


def computed_of(
    binder: StatementBinder,
    definition: TableDefinition,
    columns: Sequence[TableColumn | ColumnDefinition],
) -> dict[int, Expression]:
    """The expressions of the computed columns among `columns`, over `columns`, by index."""
    found: dict[int, Expression] = {}
    if definition.computed_by_database:
        return found
    for i, column in enumerate(columns):
        text = definition.computed.get(column.name.lower())
        if text is None:
            continue
        try:
            value = bound_over(binder.of_text(text), columns, parsed_text(text))
            found[i] = build.assign(value, column.type, column.name)
        except Error as error:
            error.position = None
            error.detail = f'in GENERATED ALWAYS AS ({text}) of column "{column.name}"'
            raise
    return found


def with_computed(
    binder: StatementBinder, table: Table, columns: tuple[int, ...], rows: Relation
) -> tuple[tuple[int, ...], Relation]:
    """New rows of a table, which have `columns`, with the values of the computed columns; a column
    that is not among them is NULL."""
    computed = computed_columns(binder, table)
    if not computed:
        return columns, rows
    own = dict(zip(columns, references(rows.fields), strict=True))
    row = [own.get(i, _null(column.type)) for i, column in enumerate(table.columns)]
    added = {i: substitute(value, row) for i, value in computed.items()}
    relation = Project(
        input=rows,
        expressions=(*references(rows.fields), *added.values()),
        names=(*(field.name for field in rows.fields), *(table.columns[i].name for i in added)),
    )
    return (*columns, *added), relation


def recomputed(
    binder: StatementBinder, table: Table, rows: Relation, positions: Mapping[int, int]
) -> Relation:
    """Changed rows with the values of the computed columns. `positions`: for each column of the
    table that the rows have, its index among their fields."""
    computed = computed_columns(binder, table)
    if not computed:
        return rows
    fields = references(rows.fields)
    row = [
        fields[positions[i]] if i in positions else _null(column.type)
        for i, column in enumerate(table.columns)
    ]
    values: list[Expression] = list(fields)
    for i, value in computed.items():
        values[positions[i]] = substitute(value, row)
    names = tuple(field.name for field in rows.fields)
    return Project(input=rows, expressions=tuple(values), names=names)


def _null(sql_type: SqlType) -> Expression:
    return build.cast(Literal(value=None, type=NULL), sql_type, implicit=True)


def check_written(
    table: Table, name: Name, index: int, position: Position | None, *, overrides: bool = False
) -> None:
    """ProgrammingError if a statement writes a value to a column that only the table sets.

    overrides: whether OVERRIDING SYSTEM VALUE is written.
    """
    definition = definition_of(table)
    if definition is None:
        return
    column = table.columns[index].name
    if column.lower() in definition.computed:
        text = definition.computed[column.lower()]
        raise ProgrammingError(
            f'column "{column}" of table "{name.text}" is computed, and can\'t be written',
            detail=f"it is GENERATED ALWAYS AS ({text})",
            hint="leave it out, or write DEFAULT as its value",
            position=position,
        )
    identity = definition.identities.get(column.lower())
    if identity is not None and identity.is_always and not overrides:
        raise ProgrammingError(
            f'column "{column}" of table "{name.text}" is GENERATED ALWAYS AS IDENTITY',
            hint="leave it out, or write INSERT INTO "
            f"{as_written(name.text)} (…) OVERRIDING SYSTEM VALUE …",
            position=position,
        )


def check_insert(
    table: Table, statement: Insert, columns: tuple[int, ...], tree: Any | None
) -> None:
    """ProgrammingError if an INSERT writes a column that only the table sets. `tree`: VALUES; None:
    the rows come from a query."""
    rows = [] if tree is None else tree.expressions
    items = [list(row.expressions) if row.key == "tuple" else [row] for row in rows]
    named = statement.columns
    for n, index in enumerate(columns):
        values = [item[n] for item in items if n < len(item)]
        if values and all(map(is_default, values)):
            continue
        has_name = named is not None and len(named) == len(columns)
        position = named[n].position if has_name and named is not None else statement.table.position
        overrides = statement.overrides_identity
        check_written(table, statement.table, index, position, overrides=overrides)


def check_assigned(table: Table, name: Name, index: int, item: ColumnAssignment) -> None:
    """ProgrammingError if SET assigns a value to a column that only the table sets."""
    if is_computed(table, index) or not is_default(item.value):
        check_written(table, name, index, item.column.position)


def with_recomputed(
    binder: StatementBinder, table: Table, source: Relation, assigned: dict[int, Expression]
) -> tuple[Relation, dict[int, Expression]]:
    """The rows of an UPDATE with the new values of all columns, and the columns that it changes:
    the assigned ones, and the computed ones."""
    computed = computed_columns(binder, table)
    if not computed:
        return source, assigned
    old = references(source.fields)
    rows: Relation = Project(
        input=source,
        expressions=tuple(assigned.get(i, column) for i, column in enumerate(old)),
        names=tuple(field.name for field in source.fields),
    )
    rows = recomputed(binder, table, rows, {i: i for i in range(len(table.columns))})
    new = references(rows.fields)
    return rows, {i: new[i] for i in (*assigned, *computed)}
