"""Binding of GENERATE_SERIES and GENERATE_STREAM, in FROM and in a select list."""

from __future__ import annotations

from runnel.errors import Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Column, Expression, Literal, walk
from runnel.relation.nodes import Field, Generate, Relation, Values
from runnel.relation.subqueries import OuterColumn
from runnel.relation.unnest import Series
from runnel.sqltypes import (
    BIGINT,
    INTERVAL,
    INTERVAL_MONTH,
    NULL,
    TIMESTAMP,
    TIMESTAMP_TZ,
    Kind,
    SqlType,
)

_PARAMETERS = {"generate_series": ("start", "stop", "step"), "generate_stream": ("rate",)}


def generator(
    name: str,
    positional: list[Expression],
    named: dict[str, Expression],
    with_ordinality: bool,
    position: Position | None,
) -> Relation:
    """Binds GENERATE_SERIES(start, stop [, step]), over integers or timestamps, or
    GENERATE_STREAM(rate)."""
    values = _arguments(name, positional, named, position)
    if name == "generate_series" and any(item.type.is_temporal for item in values.values()):
        return _over_time(values, with_ordinality, position)
    for key, value in values.items():
        if not (value.type.is_integer or value.type == NULL):
            raise ProgrammingError(
                f'argument "{key}" of {name.upper()} must be an integer, not {value.type}',
                position=value.position or position,
            )
    if name == "generate_series":
        values.setdefault("step", Literal(value=1, type=BIGINT))
    arguments = tuple(build.cast(values[key], BIGINT, implicit=True) for key in _PARAMETERS[name])
    varies = any(
        isinstance(node, OuterColumn | Column) for item in arguments for node in walk(item)
    )
    if name == "generate_series" and (with_ordinality or varies):
        return _series(arguments, with_ordinality, position)
    return Generate(
        function=name,
        arguments=arguments,
        columns=(Field("v", BIGINT),),
        unbounded=name == "generate_stream",
        position=position,
    )


def _arguments(
    name: str, positional: list[Expression], named: dict[str, Expression], position: Position | None
) -> dict[str, Expression]:
    parameters = _PARAMETERS[name]
    needed = 2 if name == "generate_series" else 1
    if len(positional) > len(parameters):
        raise ProgrammingError(
            f"{name.upper()} accepts at most {len(parameters)} arguments", position=position
        )
    values = dict(zip(parameters, positional, strict=False))
    for key, value in named.items():
        if key not in parameters or key in values:
            raise ProgrammingError(
                f'{name.upper()} has no further argument "{key}"',
                hint=f"its arguments are {', '.join(parameters)}",
                position=position,
            )
        values[key] = value
    missing = [parameter for parameter in parameters[:needed] if parameter not in values]
    if missing:
        raise ProgrammingError(
            f'{name.upper()} needs the argument "{missing[0]}"', position=position
        )
    return values


def _over_time(
    values: dict[str, Expression], with_ordinality: bool, position: Position | None
) -> Relation:
    """A series of timestamps. Dates are converted to timestamps. The series has a time zone if its
    start or its stop has one."""
    bounds = [values["start"], values["stop"]]
    kind: SqlType = TIMESTAMP_TZ if any(item.type == TIMESTAMP_TZ for item in bounds) else TIMESTAMP
    for key, item in zip(("start", "stop"), bounds, strict=True):
        if item.type.kind not in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ, Kind.NULL):
            raise ProgrammingError(
                f'argument "{key}" of GENERATE_SERIES must be a timestamp, not {item.type}',
                position=item.position or position,
            )
    step = values.get("step")
    if step is None or step.type not in (INTERVAL, INTERVAL_MONTH):
        raise ProgrammingError(
            "GENERATE_SERIES over timestamps needs an interval as its step",
            hint="write GENERATE_SERIES(start, stop, INTERVAL '1' HOUR)",
            position=position if step is None else step.position or position,
        )
    first, last = (
        item if item.type == kind else build.cast(item, kind, implicit=True) for item in bounds
    )
    return _series((first, last, step), with_ordinality, position)


def _series(
    arguments: tuple[Expression, ...], with_ordinality: bool, position: Position | None
) -> Relation:
    one = Values(rows=((),), columns=(), position=position)
    ordinality = "ordinality" if with_ordinality else None
    return Series(
        input=one, arguments=arguments, name="v", ordinality=ordinality, position=position
    )
