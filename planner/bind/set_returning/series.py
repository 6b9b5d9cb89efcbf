"""Binding of GENERATE_SERIES and GENERATE_STREAM, in FROM and in a select list."""

from __future__ import annotations

from datetime import timedelta

from runnel.errors import Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Column, Expression, Literal, walk
from runnel.relation.nodes import Field, Generate, Relation, Values
from runnel.relation.subqueries import OuterColumn
from runnel.relation.unnest import Series
from runnel.sqltypes import (
    BIGINT,
    INTERVAL,
    INTERVAL_MIXED,
    INTERVAL_MONTH,
    NULL,
    TIMESTAMP,
    TIMESTAMP_TZ,
    VARCHAR,
    Kind,
    SqlType,
)

_PARAMETERS = {
    "generate_series": ("start", "stop", "step"),
    "range": ("start", "stop", "step"),
    "generate_stream": ("rate",),
}
_MICROSECOND = Literal(value=timedelta(microseconds=1), type=INTERVAL)


def generator(
    name: str,
    positional: list[Expression],
    named: dict[str, Expression],
    with_ordinality: bool,
    position: Position | None,
) -> Relation:
    """Binds GENERATE_SERIES(start, stop [, step]) or RANGE([start,] stop [, step]), over integers
    or timestamps, or GENERATE_STREAM(rate)."""
    column = "range" if name == "range" else "v"
    if name == "range" and len(positional) == 1 and not named:
        positional = [Literal(value=0, type=BIGINT), *positional]
    values = _arguments(name, positional, named, position)
    if any(values[key].type.is_temporal for key in ("start", "stop") if key in values):
        values = {key: _of_text(key, item, values) for key, item in values.items()}
    if name == "range":
        name = "generate_series"
        values["stop"] = _before(values["stop"], values.get("step"), position)
    if name == "generate_series" and any(item.type.is_temporal for item in values.values()):
        return _over_time(values, column, with_ordinality, position)
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
        return _series(arguments, column, with_ordinality, position)
    return Generate(
        function=name,
        arguments=arguments,
        columns=(Field(column, BIGINT),),
        unbounded=name == "generate_stream",
        position=position,
    )


def _arguments(
    name: str, positional: list[Expression], named: dict[str, Expression], position: Position | None
) -> dict[str, Expression]:
    parameters = _PARAMETERS[name]
    needed = 1 if name == "generate_stream" else 2
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


def _of_text(key: str, item: Expression, values: dict[str, Expression]) -> Expression:
    """A text literal among the arguments of a series of timestamps: it is read as an interval if
    it is the step, else as a timestamp like the other bound."""
    if not isinstance(item, Literal) or item.type != VARCHAR:
        return item
    if key == "step":
        return build.cast(item, INTERVAL_MIXED, item.position)
    is_zoned = TIMESTAMP_TZ in (values["start"].type, values["stop"].type)
    return build.cast(item, TIMESTAMP_TZ if is_zoned else TIMESTAMP, item.position)


def _before(stop: Expression, step: Expression | None, position: Position | None) -> Expression:
    """The last value that RANGE may return: the nearest one before `stop`, which is excluded."""
    if not stop.type.is_temporal:
        sign: Expression = Literal(value=1, type=BIGINT)
        if step is not None:
            sign = build.call("sign", [step], step.position)
        return build.call("subtract", [build.cast(stop, BIGINT, implicit=True), sign], position)
    if not isinstance(step, Literal) or step.value is None:
        raise ProgrammingError(
            "RANGE over timestamps needs a constant interval as its step",
            hint="write RANGE(start, stop, INTERVAL '1' HOUR), or use GENERATE_SERIES, which "
            "includes the stop",
            position=position if step is None else step.position or position,
        )
    zero = 0 if isinstance(step.value, int) else timedelta(0)
    operator = "add" if step.value < zero else "subtract"
    exact = stop if stop.type == TIMESTAMP_TZ else build.cast(stop, TIMESTAMP, implicit=True)
    return build.call(operator, [exact, _MICROSECOND], position)


def _over_time(
    values: dict[str, Expression], column: str, with_ordinality: bool, position: Position | None
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
    return _series((first, last, step), column, with_ordinality, position)


def _series(
    arguments: tuple[Expression, ...],
    column: str,
    with_ordinality: bool,
    position: Position | None,
) -> Relation:
    one = Values(rows=((),), columns=(), position=position)
    ordinality = "ordinality" if with_ordinality else None
    return Series(
        input=one, arguments=arguments, name=column, ordinality=ordinality, position=position
    )
