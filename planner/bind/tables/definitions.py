"""Binding of CREATE TABLE: columns, DEFAULT, CHECK and keys; in a write of DEFAULT, and of NOT NULL
of a mapping."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from runnel.base.frozen import frozen
from runnel.catalog import Mapping
from runnel.columns.table_definition import TableDefinition, TableKey, drawn_sequences
from runnel.connector import ColumnDefinition
from runnel.errors import (
    Error,
    NotNullViolation,
    NotSupportedError,
    Position,
    ProgrammingError,
    UndefinedColumn,
    suggest,
)
from runnel.expressions import build
from runnel.expressions.nodes import Call, Cast, Column, Expression, Literal, walk
from runnel.expressions.properties import depends_on_statement, is_volatile
from runnel.planner.bind.constraints.foreign_keys import ForeignKeyBinder
from runnel.planner.bind.scalars.expression import ExpressionBinder
from runnel.planner.bind.scope import Scope, ScopeColumn
from runnel.planner.parse.query.query import parse_expression
from runnel.planner.parse.tables import CreateTable, KeyClause, TableColumnClause
from runnel.planner.parse.tokens import tokenize
from runnel.planner.parse.types import TypeLimit
from runnel.relation.nodes import (
    Filter,
    Limit,
    Project,
    Relation,
    Sort,
    Union,
    Values,
    references,
)
from runnel.relation.subqueries import Exists, InSubquery, ScalarSubquery
from runnel.sqltypes import INTEGER, NULL, VARCHAR, Kind, SqlType, decimal

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder

_COMPUTED = "GENERATED ALWAYS AS"


@frozen
class BoundTable:
    """A bound CREATE TABLE.

    columns: the columns.
    definition: the constraints.
    checks: the conditions of CHECK, over the columns.
    """

    columns: tuple[ColumnDefinition, ...]
    definition: TableDefinition
    checks: tuple[Expression, ...]


def bind_table(
    binder: StatementBinder,
    statement: CreateTable,
    source: Relation | None,
    owner: tuple[str, str],
) -> BoundTable:
    """Binds the definition of a table; `source`: the query after AS, if there is one; `owner`: the
    key of its schema, and its name."""
    if source is not None:
        columns = _columns_of(statement, source)
        return BoundTable(columns, TableDefinition(is_temporary=statement.is_temporary), ())
    clauses = statement.columns
    columns = _declared(binder, clauses)
    keys = tuple(table_key(key, columns) for key in statement.keys)
    texts = [check.text for check in statement.checks]
    checks = [check_of(binder, columns, check.tree) for check in statement.checks]
    for clause in clauses:
        if clause.length is not None and clause.type is not None:
            text = length_check(clause.name.text, clause.type, clause.length)
            texts.append(text)
            checks.append(check_of_text(binder, columns, text))
    for clause, column in zip(clauses, columns, strict=True):
        if clause.default is not None:
            bound_default(binder, clause.default.tree, column.name, column.type)
    definition = TableDefinition(
        defaults={c.name.text.lower(): c.default.text for c in clauses if c.default is not None},
        not_null=frozenset(c.name.text.lower() for c in clauses if c.is_not_null),
        keys=keys,
        checks=tuple(texts),
        is_temporary=statement.is_temporary,
        identities={c.name.text.lower(): c.identity for c in clauses if c.identity is not None},
        computed={c.name.text.lower(): c.computed.text for c in clauses if c.computed is not None},
    )
    if statement.foreign_keys:
        bound = ForeignKeyBinder(binder, owner, columns, definition)
        foreign_keys = tuple(bound.bind(clause) for clause in statement.foreign_keys)
        definition = replace(definition, foreign_keys=foreign_keys)
    return BoundTable(columns, definition, tuple(checks))


def _declared(
    binder: StatementBinder, clauses: Sequence[TableColumnClause]
) -> tuple[ColumnDefinition, ...]:
    if all(clause.computed is None for clause in clauses):
        return tuple(ColumnDefinition(c.name.text, c.type) for c in clauses if c.type is not None)
    return _typed_columns(binder, clauses)


def _typed_columns(
    binder: StatementBinder, clauses: Sequence[TableColumnClause]
) -> tuple[ColumnDefinition, ...]:
    """The columns of CREATE TABLE; a computed column without a type has the expression's. An error
    for an expression that does not fit the columns, or whose value is not determined by them."""
    base = [
        ColumnDefinition(c.name.text, c.type)
        for c in clauses
        if c.computed is None and c.type is not None
    ]
    if not base:
        raise ProgrammingError(
            "all columns of the table are computed",
            hint="a computed column reads columns of its row: declare at least one other column",
            position=clauses[0].name.position,
        )
    found = []
    for clause in clauses:
        sql_type = clause.type
        if clause.computed is not None:
            value = computed_value(binder, base, clause)
            sql_type = value.type
        assert sql_type is not None
        found.append(ColumnDefinition(clause.name.text, sql_type))
    return tuple(found)


def computed_value(
    binder: StatementBinder, base: Sequence[ColumnDefinition], clause: TableColumnClause
) -> Expression:
    """The expression of a computed column over the columns that are not computed."""
    assert clause.computed is not None
    name, position = clause.name.text, clause.computed.position
    try:
        value = bound_over(binder, base, clause.computed.tree)
    except ProgrammingError as error:
        if error.message.endswith("does not exist"):
            error.detail = error.detail or "a computed column reads columns that are not computed"
        raise
    if is_volatile(value) or any(map(depends_on_statement, walk(value))):
        raise ProgrammingError(
            f'the computed column "{name}" depends on more than its row',
            detail="the value would differ between two times, sessions or calls",
            hint="write DEFAULT, which is computed once, when the row is inserted",
            position=position,
        )
    if clause.type is not None:
        return build.assign(value, clause.type, name)
    if value.type == NULL:
        raise ProgrammingError(
            f'the type of the computed column "{name}" is unknown',
            hint="write a type between the name and the expression",
            position=position,
        )
    return value


def bound_over(binder: StatementBinder, columns: Sequence[Any], tree: Any) -> Expression:
    """The expression of a computed column over columns of its table."""
    scope = Scope(tuple(ScopeColumn(c.name, c.type, i) for i, c in enumerate(columns)))
    value = ExpressionBinder(binder, scope, _COMPUTED).bind(tree)
    refuse_subquery(value, _COMPUTED)
    return value


def _columns_of(statement: CreateTable, source: Relation) -> tuple[ColumnDefinition, ...]:
    """The columns of a query's rows. A name that occurs again gets a number, as in DuckDB."""
    names = [item.name for item in source.fields]
    listed = [clause.name for clause in statement.columns]
    if len(listed) > len(names):
        raise ProgrammingError(
            f'table "{statement.name.text}" has {len(names)} columns, '
            f"but {len(listed)} names are given",
            position=listed[len(names)].position,
        )
    names[: len(listed)] = [name.text for name in listed]
    used: set[str] = set()
    columns: list[ColumnDefinition] = []
    for name, item in zip(names, source.fields, strict=True):
        unique, number = name, 0
        while unique.lower() in used:
            number += 1
            unique = f"{name}_{number}"
        used.add(unique.lower())
        literals = _literals(source, len(columns))
        sql_type = INTEGER if item.type.kind is Kind.NULL else item.type
        if literals is not None:
            has_whole = len(literals) > 1 and any(
                _is_whole(item, statement.sql) for item in literals
            )
            sql_type = _stored_type(sql_type, has_whole)
        columns.append(ColumnDefinition(unique, sql_type))
    return tuple(columns)


def _literals(relation: Relation, index: int) -> list[Expression] | None:
    """The literals of a column whose values are computed from literals: then its type, the type of
    the largest literal, says nothing about later rows. None for any other column."""
    match relation:
        case Values():
            found = [row[index] for row in relation.rows]
            return found if all(map(_is_literal, found)) else None
        case Project():
            expression = relation.expressions[index]
            while isinstance(expression, Cast) and expression.implicit:
                expression = expression.operand
            if isinstance(expression, Column):
                return _literals(relation.input, expression.index)
            return [expression] if _is_literal(expression) else None
        case Union():
            lists = [_literals(item, index) for item in relation.inputs]
            if any(item is None for item in lists):
                return None
            return [literal for item in lists if item is not None for literal in item]
        case Filter() | Sort() | Limit():
            return _literals(relation.input, index)
    return None


_OF_VALUES = ("array", "row", "struct", "map_of", "map")
"""The functions that make nested values."""


def _is_literal(expression: Expression) -> bool:
    if isinstance(expression, Cast) and expression.implicit:
        return _is_literal(expression.operand)
    if isinstance(expression, Call) and expression.function in _OF_VALUES:
        return all(map(_is_literal, expression.arguments))
    return isinstance(expression, Literal)


def _stored_type(kind: SqlType, has_whole: bool) -> SqlType:
    """The type of a column of literals. DuckDB's whole numbers are INTEGER, also in lists, rows and
    maps, and next to decimals they have ten digits.

    has_whole: whether one of several literals is a whole number.
    """
    if kind.kind in (Kind.TINYINT, Kind.SMALLINT):
        return INTEGER
    if kind.kind is Kind.DECIMAL and has_whole and 0 < kind.scale <= 28:
        return decimal(max(kind.precision - kind.scale, 10) + kind.scale, kind.scale)
    if not kind.is_nested:
        return kind
    element, key = (
        None if item is None else _stored_type(item, False) for item in (kind.element, kind.key)
    )
    fields = tuple((name, _stored_type(item, False)) for name, item in kind.fields)
    return replace(kind, element=element, key=key, fields=fields)


_WHOLE = re.compile(r"[-+\s]*[0-9_]+(?![0-9_.eE])")


def _is_whole(literal: Expression, sql: str) -> bool:
    """Whether a literal was typed as a whole number."""
    position = literal.position
    return position is not None and _WHOLE.match(sql, position.offset) is not None


def table_key(key: KeyClause, columns: Sequence[ColumnDefinition]) -> TableKey:
    """A key over the columns of a table."""
    names = []
    for name in key.columns:
        found = next((c.name for c in columns if c.name.lower() == name.text.lower()), None)
        if found is None:
            known = [column.name for column in columns]
            raise UndefinedColumn(
                f'column "{name.text}" of the key does not exist',
                hint=suggest(name.text, known, f"the columns are {', '.join(known[:20])}"),
                position=name.position,
            )
        names.append(found)
    return TableKey(tuple(names), key.is_primary)


def check_of(binder: StatementBinder, columns: Sequence[ColumnDefinition], tree: Any) -> Expression:
    """A condition of CHECK over the columns of a table."""
    scope = Scope(tuple(ScopeColumn(c.name, c.type, i) for i, c in enumerate(columns)))
    bound = ExpressionBinder(binder, scope, "CHECK").condition(tree)
    refuse_subquery(bound, "CHECK")
    return bound


def check_of_text(
    binder: StatementBinder, columns: Sequence[ColumnDefinition], text: str
) -> Expression:
    """A stored condition of CHECK over the columns of a table."""
    return check_of(binder.of_text(text), columns, parsed_text(text))


def default_of(
    binder: StatementBinder, table: TableDefinition | None, name: str, sql_type: SqlType
) -> Expression:
    """The value of a column in a row that doesn't set it: of its DEFAULT, else NULL."""
    text = "NULL" if table is None else table.defaults.get(name.lower(), "NULL")
    if table is not None and not table.file_sequences.isdisjoint(drawn_sequences(text)):
        raise NotSupportedError(
            f'DEFAULT {text} of column "{name}" is not supported',
            detail="the sequence is one of the DuckDB file, outside the connection's own schema",
            hint="set the column, or connect to the file: the sequences of its schema main work",
        )
    try:
        return bound_default(binder.of_text(text), parsed_text(text), name, sql_type)
    except Error as error:
        error.position = None
        error.detail = f'in DEFAULT {text} of column "{name}"'
        raise


def bound_default(binder: StatementBinder, tree: Any, name: str, sql_type: SqlType) -> Expression:
    """The expression of DEFAULT for a column."""
    value = ExpressionBinder(binder, Scope(), "DEFAULT").bind(tree)
    refuse_subquery(value, "DEFAULT")
    return build.assign(value, sql_type, name)


def refuse_subquery(expression: Expression, clause: str) -> None:
    """ProgrammingError if an expression of a definition has a subquery."""
    for node in walk(expression):
        if isinstance(node, Exists | InSubquery | ScalarSubquery):
            raise ProgrammingError(
                f"a subquery is not allowed in {clause}",
                hint="write an expression without SELECT",
                position=_position(expression, node),
            )


def _position(*expressions: Expression) -> Position | None:
    return next((item.position for item in reversed(expressions) if item.position), None)


def parsed_text(text: str) -> Any:
    """The tree of a stored expression."""
    return parse_expression(tokenize(text), text, {}, Position.at(text, 0))


def length_check(column: str, sql_type: SqlType, length: int | TypeLimit) -> str:
    """The text of the CHECK of VARCHAR(n), of an unsigned type, or of an array of fixed size."""
    if isinstance(length, TypeLimit):
        if sql_type.is_nested:
            return f"CARDINALITY({_quoted(column)}) = {length.high}"
        return f"{_quoted(column)} BETWEEN {length.low} AND {length.high}"
    return f"CHAR_LENGTH({_quoted(column)}) <= {length}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def present_rows(
    mapping: Mapping, position: Position | None, columns: Sequence[int], rows: Relation
) -> Relation:
    """New rows of a mapping, which have `columns`, with an error where a column with NOT NULL is
    NULL; IntegrityError if the rows do not have the column."""
    names = [mapping.table.columns[i].name for i in columns]
    for name in sorted(mapping.not_null - {name.lower() for name in names}):
        raise NotNullViolation(
            f'column "{name}" must not be NULL',
            hint=f'add "{name}" to the columns of the statement',
            position=position,
        )
    values = (
        build.call("not_null", [value, Literal(value=name, type=VARCHAR)], position)
        if name.lower() in mapping.not_null
        else value
        for name, value in zip(names, references(rows.fields), strict=True)
    )
    fields = tuple(field.name for field in rows.fields)
    return Project(input=rows, expressions=tuple(values), names=fields)
