"""The function matrix and the aggregates over edge values: values by code that Spark makes, errors
case by case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import runnel
from runnel.errors import Error
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.evaluate import compile_expression, evaluate
from runnel.foreign.fragment import Unrenderable
from runnel.rendering.render import Rendering
from runnel.rendering.spark.dialect import SPARK
from tests.both_runtimes.expressions import Sheet
from tests.both_runtimes.tally import Tally
from tests.both_runtimes.workers import shared_out
from tests.rendering import aggregate_cases, edge_table, spark_engine
from tests.rendering.aggregate_cases import AggregateCase
from tests.rendering.function_cases import FunctionCase, all_cases
from tests.rendering.outcomes import SESSION, ZONE, own_outcome, rendered, shown

_CONTEXT = EvaluationContext((), SESSION.now, ZONE)
Failing = tuple[str, str, int, Error]
"""What fails: its shape, Spark's SQL, the row or the group, and our error."""


def of_functions(tally: Tally, sheets: Sequence[Sheet]) -> Iterator[str]:
    """What Spark does otherwise with functions and casts. `sheets` are as many views of the edge
    table as there are threads."""
    cases = []
    for case in all_cases():
        try:
            Rendering(SPARK).expression(case.expression, edge_table.COLUMN_TEXTS)
            cases.append(case)
        except Unrenderable as refused:
            tally.leave(refused.what)
    tally.same(len(cases))
    yield from spark_engine.mismatches(cases, failing=1)
    found = shared_out(_failing(cases), sheets, lambda sheet, item: _of_failing(tally, sheet, item))
    yield from (item for item in found if item is not None)


def _failing(cases: Sequence[FunctionCase]) -> Iterator[Failing]:
    """One row of each case that has some that fail."""
    for case in cases:
        errors = own_outcome(case).errors
        if errors:
            row = errors[len(errors) // 2]
            yield (
                f"{case.shape}: {shown(case, row)}",
                str(rendered(case, SPARK)),
                row,
                _own_error(case, row),
            )


def _own_error(case: FunctionCase, row: int) -> Error:
    columns = [item.slice(row, 1) for item in edge_table.arrays()]
    try:
        evaluate(compile_expression(case.expression), EvaluationInput(columns, 1, _CONTEXT))
    except Error as error:
        return error
    raise AssertionError(f"{case.shape} fails among other rows only")


def _of_failing(tally: Tally, sheet: Sheet, item: Failing) -> str | None:
    shape, text, row, wanted = item
    found: Error | None = None
    try:
        sheet.run([text], f"row = {row}")
    except Error as error:
        found = error
    problem = tally.errors(wanted, found)
    return None if problem is None else f"{shape}: {problem}\n    {text[:400]}"


def of_aggregates(tally: Tally, sessions: Sequence[Any]) -> Iterator[str]:
    """What Spark's aggregates do otherwise, over the view `groups` of each session."""
    cases = []
    for case in aggregate_cases.all_cases():
        try:
            Rendering(SPARK, SESSION).aggregate(case.call, aggregate_cases.COLUMN_TEXTS)
            cases.append(case)
        except Unrenderable as refused:
            tally.leave(refused.what)
    tally.same(len(cases))
    yield from spark_engine.aggregate_mismatches(failing=1)
    found = shared_out(
        _failing_groups(cases), sessions, lambda session, item: _of_group(tally, session, item)
    )
    yield from (item for item in found if item is not None)


def _failing_groups(cases: Sequence[AggregateCase]) -> Iterator[Failing]:
    cursor = aggregate_cases._connection().cursor()
    for case in cases:
        own = aggregate_cases.own_values(case)
        group = next(
            (number for number in range(aggregate_cases.GROUPS) if number not in own), None
        )
        if group is None:
            continue
        try:
            cursor.execute(
                f"SELECT {case.text} AS v FROM groups WHERE g = {group}"
            ).fetch_arrow_table()
        except Error as error:
            yield case.shape, str(aggregate_cases.rendered(case, SPARK)), group, error


def _of_group(tally: Tally, session: Any, item: Failing) -> str | None:
    from runnel.connectors.spark.errors import spark_errors

    shape, text, group, wanted = item
    found: runnel.Error | None = None
    try:
        with spark_errors():
            session.sql(f"SELECT {text} AS v FROM groups WHERE g = {group}").toArrow()
    except Error as error:
        found = error
    problem = tally.errors(wanted, found)
    return None if problem is None else f"{shape}, group {group}: {problem}\n    {text[:400]}"
