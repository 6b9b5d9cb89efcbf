"""The functions and casts that find an object of the catalog by its number or its name:
format_type, pg_get_constraintdef, 't'::regclass and others. Loaded on first use.

A call becomes a look-up in a table that is made when the statement is planned. The plan depends on
the whole catalog.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from runnel.catalog import View
from runnel.errors import (
    ErrorCode,
    InvalidSchemaName,
    Position,
    ProgrammingError,
    UndefinedObject,
    UndefinedTable,
    suggest,
)
from runnel.expressions import build
from runnel.expressions.nodes import Expression, Literal
from runnel.expressions.python.calls import python_call
from runnel.expressions.python.function import PythonFunction
from runnel.planner.bind.binders import QueryBinder
from runnel.planner.bind.pg_catalog import types
from runnel.planner.bind.pg_catalog.objects import (
    OWNER,
    OWNER_OID,
    PG_CATALOG,
    Objects,
    in_text,
    query_text,
)
from runnel.planner.bind.pg_catalog.relations import owned_sequences
from runnel.planner.bind.pg_catalog.tables import objects_of
from runnel.planner.bind.tables.information_schema import comments_of
from runnel.planner.parse.types import object_kind_of
from runnel.sqltypes import BIGINT, BOOLEAN, VARCHAR, SqlType

Kernel = Callable[..., Any]
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')
"""A part of a qualified name, between double quotes or not."""


def catalog_call(
    query: QueryBinder, name: str, arguments: Sequence[Expression], position: Position | None
) -> Expression:
    """The value of a call of one of the functions of the module."""
    query.note("catalog", "", query.snapshot.version)
    objects = objects_of(query.snapshot)
    if name == "CURRENT_SCHEMAS":
        return _schemas(objects, arguments, position)
    if name == "PG_BACKEND_PID":
        return _applied(name, os.getpid, (), BIGINT, [], position)
    if name == "PG_GET_SERIAL_SEQUENCE":
        return _serial_sequence(objects, arguments, position)
    known = _BY_NUMBER.get(name)
    if known is None:
        found, parameters, result = _FUNCTIONS[name](objects)
    else:
        found, parameters, result = known(objects).get, (BIGINT,), _RESULTS.get(name, VARCHAR)
    given = list(arguments[: len(parameters)])
    if not given or len(arguments) > 3:
        raise ProgrammingError(
            f"{name} expects the number of an object, not {len(arguments)} arguments",
            hint=f"write {name.lower()}('t'::regclass)",
            position=position,
        )
    while len(given) < len(parameters):
        given.append(Literal(value=None, type=parameters[len(given)]))
    if parameters[0] == BIGINT and isinstance(given[0], Literal) and given[0].type == VARCHAR:
        number = _number_of(objects, "REGCLASS", str(given[0].value), position)
        given[0] = Literal(value=number, type=BIGINT, position=position)
    return _applied(name, found, parameters, result, given, position)


def _applied(
    name: str,
    found: Kernel,
    parameters: tuple[SqlType, ...],
    result: SqlType,
    arguments: Sequence[Expression],
    position: Position | None,
) -> Expression:
    """A call of a Python function over values, whose result may be None."""
    function = PythonFunction(
        name,
        found,
        parameters,
        result,
        is_deterministic=bool(parameters),  # not the number of the process
        is_scalar=True,
        is_own=True,
    )
    converted = [
        build.assign(argument, parameter, "the argument")
        for argument, parameter in zip(arguments, parameters, strict=True)
    ]
    return python_call(function, converted, position)


def _constraint_texts(objects: Objects) -> dict[int, str]:
    return {item.oid: item.text for item in objects.constraints}


def _view_texts(objects: Objects) -> dict[int, str]:
    texts = {
        oid: query_text(relation.item)
        for oid, relation in objects.relations.items()
        if relation.item is not None and relation.kind in ("v", "m")
    }
    return {oid: text for oid, text in texts.items() if text is not None}


def _visible(objects: Objects) -> dict[int, bool]:
    return {oid: objects.is_visible(item) for oid, item in objects.relations.items()}


def _sizes(objects: Objects) -> dict[int, int]:
    """No sizes: the number of bytes of a table is not known."""
    return {}


_BY_NUMBER: dict[str, Callable[[Objects], dict[int, Any]]] = {
    "PG_GET_CONSTRAINTDEF": _constraint_texts,
    "PG_GET_VIEWDEF": _view_texts,
    "PG_GET_USERBYID": lambda objects: {OWNER_OID: OWNER},
    "PG_TABLE_IS_VISIBLE": _visible,
    **dict.fromkeys(
        ("PG_RELATION_SIZE", "PG_TOTAL_RELATION_SIZE", "PG_TABLE_SIZE", "PG_INDEXES_SIZE"), _sizes
    ),
}
"""The functions of a number, with the results that they find. Further arguments have no effect."""
_RESULTS = {
    "PG_TABLE_IS_VISIBLE": BOOLEAN,
    **dict.fromkeys(
        ("PG_RELATION_SIZE", "PG_TOTAL_RELATION_SIZE", "PG_TABLE_SIZE", "PG_INDEXES_SIZE"), BIGINT
    ),
}

_Function = tuple[Kernel, tuple[SqlType, ...], SqlType]


def _format_type(objects: Objects) -> _Function:
    known = types.all_types(
        kind
        for relation in objects.relations.values()
        if relation.item is not None and not isinstance(relation.item, View)
        for kind in (column.type for column in relation.item.table.columns)
    )

    def shown(oid: int | None, modifier: int | None) -> str | None:
        if oid is None:
            return None
        item = known.get(oid)
        return types.shown(item, modifier) if item is not None else "-" if oid == 0 else "???"

    return shown, (BIGINT, BIGINT), VARCHAR


def _index_text(objects: Objects) -> _Function:
    known = {index.relation.oid: index for index in objects.indexes}

    def text(oid: int | None, column: int | None) -> str | None:
        index = None if oid is None else known.get(oid)
        if index is None:
            return None
        if not column:
            return index.text
        return index.columns[column - 1] if 0 < column <= len(index.columns) else ""

    return text, (BIGINT, BIGINT), VARCHAR


def _description(objects: Objects) -> _Function:
    comments = _comments(objects)

    def text(oid: int | None, catalog: str | None) -> str | None:
        is_class = (catalog or "pg_class") == "pg_class"
        return comments.get((oid or 0, 0)) if is_class else None

    return text, (BIGINT, VARCHAR), VARCHAR


def _column_description(objects: Objects) -> _Function:
    comments = _comments(objects)
    return (
        lambda oid, number: comments.get((oid or 0, number or 0)) if number else None,
        (BIGINT, BIGINT),
        VARCHAR,
    )


def _comments(objects: Objects) -> dict[tuple[int, int], str]:
    """The comments by number of the relation and number of the column, 0: of the relation."""
    found: dict[tuple[int, int], str] = {}
    for relation in objects.relations.values():
        if relation.item is None or relation.kind == "i":
            continue
        comments = dict(comments_of(relation.item))
        if not comments:
            continue
        table = None if isinstance(relation.item, View) else relation.item.table
        shown = [] if table is None else [column for column in table.columns if not column.hidden]
        for number, name in enumerate(["", *(column.name.lower() for column in shown)]):
            if name in comments:
                found[relation.oid, number] = comments[name]
    return found


def _relation_number(objects: Objects) -> _Function:
    def number(name: str | None) -> int | None:
        relation = None if name is None else _found(objects, name)
        return None if relation is None else relation.oid

    return number, (VARCHAR,), BIGINT


def _type_number(objects: Objects) -> _Function:
    def number(name: str | None) -> int | None:
        item = None if name is None else types.named_type(name)
        return None if item is None else item.oid

    return number, (VARCHAR,), BIGINT


_FUNCTIONS: dict[str, Callable[[Objects], _Function]] = {
    "FORMAT_TYPE": _format_type,
    "PG_GET_INDEXDEF": _index_text,
    "OBJ_DESCRIPTION": _description,
    "COL_DESCRIPTION": _column_description,
    "TO_REGCLASS": _relation_number,
    "TO_REGTYPE": _type_number,
}


def _schemas(
    objects: Objects, arguments: Sequence[Expression], position: Position | None
) -> Expression:
    """CURRENT_SCHEMAS(with_implicit): the schemas in which names are looked up."""
    with_catalog = len(arguments) == 1 and isinstance(arguments[0], Literal) and arguments[0].value
    if len(arguments) != 1 or arguments[0].type != BOOLEAN:
        raise ProgrammingError(
            "CURRENT_SCHEMAS expects TRUE or FALSE",
            hint="write current_schemas(true), which includes pg_catalog",
            position=position,
        )
    keys = [key for key in objects.path if key != PG_CATALOG]
    names = ([PG_CATALOG] if with_catalog else []) + [key or "public" for key in keys]
    items = [Literal(value=name, type=VARCHAR) for name in names]
    return build.call("array", items, position)


def _serial_sequence(
    objects: Objects, arguments: Sequence[Expression], position: Position | None
) -> Expression:
    """PG_GET_SERIAL_SEQUENCE(table, column): the sequence of a column, as text for setval; NULL if
    it has none."""
    known = {
        (table.oid, column): f"public.{in_text(sequence.name)}"
        for sequence, table, _, column in owned_sequences(objects)
    }

    def sequence(table: str | None, column: str | None) -> str | None:
        if table is None or column is None:
            return None
        oid = _number_of(objects, "REGCLASS", table, position)
        return known.get((oid, column.strip('"').lower()))

    if len(arguments) != 2:
        raise ProgrammingError(
            f"PG_GET_SERIAL_SEQUENCE expects 2 arguments, not {len(arguments)}",
            hint="write pg_get_serial_sequence('t', 'id')",
            position=position,
        )
    first, second = arguments
    if isinstance(first, Literal) and isinstance(second, Literal):
        return Literal(value=sequence(first.value, second.value), type=VARCHAR, position=position)
    name = "PG_GET_SERIAL_SEQUENCE"
    return _applied(name, sequence, (VARCHAR, VARCHAR), VARCHAR, arguments, position)


def _found(objects: Objects, name: str) -> Any:
    """The relation of a name as SQL writes it; None if there is none."""
    parts = _PART.findall(name.strip())
    return objects.find(
        ".".join((quoted or plain).replace('""', '"') for quoted, plain in parts).lower()
    )


def _number_of(objects: Objects, kind: str, text: str, position: Position | None) -> int:
    """The number of the object that a text names; ProgrammingError if there is none."""
    if text.strip().isdecimal():
        return int(text)
    if text.strip() == "-":
        return 0
    number: int | None
    what, known = "type", [item.shown for item in types.base_types().values()]
    if kind == "REGTYPE":
        item = types.named_type(text)
        number = None if item is None else item.oid
    elif kind == "REGNAMESPACE":
        name = text.strip().strip('"').lower()
        number = objects.oids.get(f"schema {'' if name in ('public', 'main') else name}")
        what, known = "schema", [key or "public" for key in objects.schema_keys]
    elif kind == "REGROLE":
        number = OWNER_OID if text.strip('"').lower() == OWNER else None
        what, known = "role", [OWNER]
    else:
        relation = _found(objects, text)
        number = None if relation is None else relation.oid
        what, known = "object", [item.name for item in objects.relations.values()]
    if number is None:
        kinds = {"object": UndefinedTable, "schema": InvalidSchemaName}
        raise kinds.get(what, UndefinedObject)(
            f'{what} "{text}" not found',
            code=ErrorCode.OBJECT_NOT_FOUND,
            hint=suggest(text, known, "SHOW TABLES lists the tables, \\d in the shell"),
            position=position,
        )
    return number


def _names(objects: Objects, kind: str) -> dict[int, str]:
    """The names that are shown for numbers."""
    if kind == "REGTYPE":
        return {oid: item.shown for oid, item in types.base_types().items()}
    if kind == "REGNAMESPACE":
        return {
            objects.oids[f"schema {key}"]: in_text(key or "public") for key in objects.schema_keys
        }
    if kind == "REGROLE":
        return {OWNER_OID: OWNER}
    return {
        oid: in_text(item.name)
        if objects.is_visible(item)
        else f"{in_text(item.schema or 'public')}.{in_text(item.name)}"
        for oid, item in objects.relations.items()
    }


def object_cast(
    query: QueryBinder, operand: Expression, tree: Any, position: Position | None
) -> Expression:
    """CAST(x AS REGCLASS), or another type of numbers of objects. The value is the number where it
    is compared, cast, or an argument of a function of the catalog, and the name elsewhere."""
    if _is_name_of_sequence(tree):
        return operand
    kind = object_kind_of(tree.args["to"]) or ""
    query.note("catalog", "", query.snapshot.version)
    objects = objects_of(query.snapshot)
    if isinstance(operand, Literal) and operand.type == VARCHAR:
        number = _number_of(objects, kind, str(operand.value), position)
        operand = Literal(value=number, type=BIGINT, position=position)
    elif operand.type == VARCHAR:
        operand = _applied(
            kind,
            lambda text: None if text is None else _number_of(objects, kind, text, position),
            (VARCHAR,),
            BIGINT,
            [operand],
            position,
        )
    if is_number(tree):
        return operand
    names = _names(objects, kind)

    def shown(oid: int | None) -> str | None:
        return None if oid is None else names.get(oid, "-" if oid == 0 else str(oid))

    return _applied(kind, shown, (BIGINT,), VARCHAR, [operand], position)


_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.NullSafeEQ)
_AROUND = (
    *(exp.Paren, exp.Array, exp.Tuple, exp.Any, exp.Values, exp.From, exp.SetOperation),
    exp.Subquery,
)
_CALLS = ("PG_", "HAS_", "FORMAT_TYPE", "OBJ_DESCRIPTION", "COL_DESCRIPTION")
_NUMBERS = ("BIGINT", "INTEGER")


def is_number(tree: Any) -> bool:
    """Whether the value of a cast to regclass is used as a number."""
    node, parent = tree, tree.parent
    while isinstance(parent, _AROUND) or (
        isinstance(parent, exp.Select) and node.arg_key in ("expressions", "from_")
    ):
        node, parent = parent, parent.parent
    if isinstance(parent, exp.Cast):
        to = parent.args["to"]
        return object_kind_of(to) is not None or str(to.meta.get("sql_type")) in _NUMBERS
    if isinstance(parent, exp.Anonymous):
        return parent.name.upper().removeprefix("\0").startswith(_CALLS)
    return isinstance(parent, _COMPARED)


def _is_name_of_sequence(tree: Any) -> bool:
    """Whether the cast is an argument of nextval, as in dumps of PostgreSQL."""
    is_call = isinstance(tree.parent, exp.Anonymous)
    return is_call and tree.parent.name.upper() in ("NEXTVAL", "CURRVAL", "SETVAL")
