"""Binding of the JSON functions that have clauses. `json_clauses` has written the clauses as
arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from sqlglot import exp

from runnel.errors import DatabaseError, NotSupportedError, Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.coercion import convert
from runnel.expressions.json import text as json_text
from runnel.expressions.nodes import Call, Expression, Literal
from runnel.planner.parse.query.json_clauses import AGGREGATES, CLAUSE
from runnel.planner.parse.types import parse_type
from runnel.sqltypes import JSON, VARCHAR, Kind, SqlType, array, row

Bind = Callable[[Any], Expression]

NAMES = frozenset({"JSON_QUERY", "JSON_VALUE", "JSON_OBJECT", "JSON_ARRAY", "JSON_EXISTS"})


def json_call(bind: Bind, name: str, arguments: list[Any], position: Position | None) -> Expression:
    """Binds a call of one of `NAMES`."""
    return _BINDERS[name](bind, name, arguments, position)


def aggregate(
    bind: Bind, tree: Any, name: str, position: Position | None, where: Any = None
) -> Expression:
    """Binds JSON_ARRAYAGG and JSON_OBJECTAGG: ARRAY_AGG collects the rows, and a JSON function
    converts its arrays. `where` is the condition of FILTER."""
    function, _, nulls = name.partition(" ")
    if function not in AGGREGATES:
        raise ProgrammingError("FILTER needs an aggregate function", position=position)
    count = 1 if function == "JSON_ARRAYAGG" else 2
    if len(tree.expressions) != count:
        expected = "a name and a value" if count == 2 else "1 argument"
        raise ProgrammingError(
            f"{function} accepts {expected}, not {len(tree.expressions)} arguments",
            position=position,
        )
    lists = []
    for argument in tree.expressions:
        collected = tree.copy()
        collected.set("this", "ARRAY_AGG")
        collected.set("expressions", [argument.copy()])
        lists.append(
            bind(
                collected if where is None else exp.Filter(this=collected, expression=where.copy())
            )
        )
    nulls = nulls or ("ABSENT" if count == 1 else "NULL")
    return build.call(
        "json_array_of_list" if count == 1 else "json_object_of_lists",
        [_text(nulls), *lists],
        position,
    )


def _clause_of(tree: Any) -> str | None:
    is_text = isinstance(tree, exp.Literal) and tree.is_string
    return tree.this[len(CLAUSE) :] if is_text and tree.this.startswith(CLAUSE) else None


def _clauses(arguments: list[Any]) -> Iterator[tuple[str, Any]]:
    """The clauses among the arguments, each with its operand. A clause without an operand is paired
    with its own text."""
    at = 0
    while at < len(arguments):
        clause = _clause_of(arguments[at])
        takes_one = clause in ("DEFAULT", "RETURNING")
        yield (
            clause or "",
            arguments[at + 1] if takes_one and at + 1 < len(arguments) else arguments[at],
        )
        at += 2 if takes_one else 1


def _plain_count(arguments: list[Any]) -> int:
    """The number of arguments before the first clause."""
    return next(
        (i for i, item in enumerate(arguments) if _clause_of(item) is not None), len(arguments)
    )


def _text(value: str, position: Position | None = None) -> Literal:
    return Literal(value=value, type=VARCHAR, position=position)


class _Behaviour:
    """The clauses of a JSON function.

    answers: the words before ON by event ("EMPTY", "ERROR"), or "DEFAULT".
    defaults: the sqlglot tree after DEFAULT, by event.
    returning: the operand of RETURNING, or None.
    wrapper: "WITHOUT", "CONDITIONAL" or "UNCONDITIONAL".
    """

    def __init__(
        self, name: str, arguments: list[Any], allowed: frozenset[str], position: Position | None
    ) -> None:
        self.answers = {"EMPTY": "NULL", "ERROR": "NULL"}
        self.defaults: dict[str, Any] = {}
        self.returning: Any = None
        self.wrapper = "WITHOUT"
        self._position = position
        waiting: Any = None
        found: set[str] = set()
        for clause, argument in _clauses(arguments):
            words = clause.split()
            kind = (
                f"ON {words[-1]}"
                if "ON" in words
                else "WRAPPER"
                if words[-1:] == ["WRAPPER"]
                else clause
            )
            if kind in found:
                raise self._wrong(f"{kind} appears twice in {name}")
            found.add(kind)
            if clause == "RETURNING" and "RETURNING" in allowed:
                self.returning = argument
            elif clause == "DEFAULT" and "DEFAULT" in allowed:
                waiting = argument
                found.discard("DEFAULT")
            elif kind == "WRAPPER" and "WRAPPER" in allowed:
                self.wrapper = (
                    "WITHOUT"
                    if words[0] == "WITHOUT"
                    else "CONDITIONAL"
                    if "CONDITIONAL" in words
                    else "UNCONDITIONAL"
                )
            elif kind in ("ON EMPTY", "ON ERROR") and self._answer(words, waiting, allowed):
                waiting = None
            else:
                raise self._wrong(f"{clause or 'this argument'} is not allowed here in {name}")
        if waiting is not None:
            raise self._wrong(f"DEFAULT in {name} needs ON EMPTY or ON ERROR")

    def _answer(self, words: list[str], waiting: Any, allowed: frozenset[str]) -> bool:
        event, answer = words[-1], " ".join(words[:-2])
        if waiting is not None:
            self.answers[event] = "DEFAULT"
            self.defaults[event] = waiting
            return not answer
        if answer == "EMPTY":
            answer = "EMPTY ARRAY"
        self.answers[event] = answer
        return answer in allowed

    def _wrong(self, message: str) -> ProgrammingError:
        return ProgrammingError(message, position=self._position)


_VALUE_CLAUSES = frozenset({"RETURNING", "DEFAULT", "NULL", "ERROR"})
_QUERY_CLAUSES = frozenset({"RETURNING", "WRAPPER", "NULL", "ERROR", "EMPTY ARRAY", "EMPTY OBJECT"})
_EXISTS_CLAUSES = frozenset({"TRUE", "FALSE", "UNKNOWN", "ERROR"})


def _value(bind: Bind, name: str, arguments: list[Any], position: Position | None) -> Expression:
    count = _plain_count(arguments)
    behaviour = _Behaviour(name, arguments[count:], _VALUE_CLAUSES, position)
    operands = [bind(item) for item in arguments[:count]]
    target = VARCHAR if behaviour.returning is None else bind(behaviour.returning).type
    answers = _text(f"{behaviour.answers['EMPTY']},{behaviour.answers['ERROR']}")
    call = build.call(
        "json_value", [*operands, answers, Literal(value=None, type=target)], position
    )
    if not behaviour.defaults:
        return call
    defaults = {
        event: build.cast(bind(tree), target, position, implicit=False)
        for event, tree in behaviour.defaults.items()
    }
    # The default must not fail for a row that doesn't need it, so it is a branch of a CASE.
    outcome = build.call("json_outcome", [*operands, Literal(value=None, type=target)], position)
    conditions = [build.call("eq", [outcome, _text(event)], position) for event in defaults]
    return build.case(conditions, list(defaults.values()), call, position)


def _query(bind: Bind, name: str, arguments: list[Any], position: Position | None) -> Expression:
    count = _plain_count(arguments)
    behaviour = _Behaviour(name, arguments[count:], _QUERY_CLAUSES, position)
    answers = f"{behaviour.answers['EMPTY']},{behaviour.answers['ERROR']},{behaviour.wrapper}"
    found = build.call(
        "json_query", [*(bind(item) for item in arguments[:count]), _text(answers)], position
    )
    if behaviour.returning is None:
        return found
    target = bind(behaviour.returning).type
    if target not in (found.type, VARCHAR, JSON, array(VARCHAR)):
        raise NotSupportedError(
            f"RETURNING {target} of JSON_QUERY is not supported",
            hint="write RETURNING ARRAY<STRING>, or CAST the result: CAST(CAST(q AS JSON) AS …)",
            position=position,
        )
    if target != array(VARCHAR):
        return build.cast(found, target, position)
    on_error, json = behaviour.answers["ERROR"], build.cast(found, JSON, position)
    if on_error == "NULL":  # also where the value is no array
        return Call(function="try_cast", arguments=(json,), type=target, position=position)
    if on_error != "ERROR":
        raise NotSupportedError(
            f"{on_error} ON ERROR with RETURNING {target} is not supported",
            hint="write NULL ON ERROR or ERROR ON ERROR",
            position=position,
        )
    return build.cast(json, target, position)


def _exists(bind: Bind, name: str, arguments: list[Any], position: Position | None) -> Expression:
    count = _plain_count(arguments)
    behaviour = _Behaviour(name, arguments[count:], _EXISTS_CLAUSES, position)
    answer = behaviour.answers["ERROR"] if count < len(arguments) else "FALSE"
    return build.call(
        "json_exists", [*(bind(item) for item in arguments[:count]), _text(answer)], position
    )


def _constructor(
    bind: Bind, name: str, arguments: list[Any], position: Position | None
) -> Expression:
    count = _plain_count(arguments)
    clauses = [_clause_of(item) for item in arguments[count:]]
    if clauses not in ([], ["NULL ON NULL"], ["ABSENT ON NULL"]):
        raise ProgrammingError(
            f"{name} accepts only NULL ON NULL or ABSENT ON NULL, as its last clause",
            position=position,
        )
    nulls = (
        clauses[0] if clauses else ("NULL ON NULL" if name == "JSON_OBJECT" else "ABSENT ON NULL")
    )
    return build.call(
        name.lower(),
        [_text(str(nulls).split()[0]), *(bind(item) for item in arguments[:count])],
        position,
    )


_BINDERS: dict[str, Callable[[Bind, str, list[Any], Position | None], Expression]] = {
    "JSON_VALUE": _value,
    "JSON_QUERY": _query,
    "JSON_EXISTS": _exists,
    "JSON_OBJECT": _constructor,
    "JSON_ARRAY": _constructor,
}

__all__ = ["AGGREGATES", "NAMES", "aggregate", "json_call"]


STRUCTURED = {
    "FROM_JSON": "json_transform",
    "JSON_TRANSFORM": "json_transform",
    "FROM_JSON_STRICT": "json_transform_strict",
    "JSON_TRANSFORM_STRICT": "json_transform_strict",
}
"""The functions whose type a structure such as '{"a": "INTEGER", "b": ["DATE"]}' describes, by name
in SQL."""

_EXAMPLE = """'{"a": "INTEGER", "b": ["VARCHAR"]}'"""


def structured(name: str, arguments: Sequence[Expression], position: Position | None) -> Expression:
    """The call of one of the functions."""
    text = arguments[1] if len(arguments) == 2 else None
    if not isinstance(text, Literal) or text.type not in (VARCHAR, JSON) or text.value is None:
        raise ProgrammingError(
            f"{name} expects a JSON and a structure as a text literal",
            hint=f"write {name.lower()}(j, {_EXAMPLE})",
            position=position,
        )
    document = arguments[0]
    if document.type.kind not in (Kind.JSON, Kind.VARCHAR, Kind.NULL):
        raise ProgrammingError(
            f"argument 1 of {name} must be JSON, not {document.type}",
            hint="add an explicit CAST to JSON",
            position=document.position or position,
        )
    at = text.position or position
    try:
        structure = json_text.parse(str(text.value))
    except DatabaseError:
        raise _invalid(name, "is not JSON", at) from None
    return Call(
        function=STRUCTURED[name],
        arguments=(convert(document, JSON),),
        type=_type(name, structure, at),
        position=position,
    )


def _type(name: str, structure: Any, position: Position | None) -> SqlType:
    match structure:
        case dict():
            if not structure:
                raise _invalid(name, "has an object without names", position)
            return row(*((key, _type(name, item, position)) for key, item in structure.items()))
        case [item]:
            return array(_type(name, item, position))
        case list():
            raise _invalid(name, "has an array without exactly one item", position)
        case "NULL":
            return JSON
        case str():
            try:
                return parse_type(structure)
            except DatabaseError as error:
                error.position = position
                raise
    raise _invalid(name, f"has the value {json_text.write(structure)}", position)


def _invalid(name: str, what: str, position: Position | None) -> ProgrammingError:
    return ProgrammingError(
        f"the structure of {name} {what}",
        hint=f"it consists of names of types: {_EXAMPLE}",
        position=position,
    )
