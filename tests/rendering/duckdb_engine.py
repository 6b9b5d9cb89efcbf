"""The edge table in DuckDB, set up as the kernel sets it up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from runnel.duckdb.kernel import DuckDBKernel
from runnel.rendering.duckdb.dialect import DUCKDB
from tests.rendering import aggregate_cases
from tests.rendering.edge_table import ROWS, stored
from tests.rendering.function_cases import FunctionCase, all_cases
from tests.rendering.outcomes import Outcome, difference, own_outcome, rendered, shown

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BATCH = 40
FAILING_ROWS = 2


@cache
def cursor() -> DuckDBPyConnection:
    """A cursor that knows the table as `edges`."""
    kernel = DuckDBKernel(2)
    made = kernel.cursor()
    made.register("edge_input", stored())
    made.execute("CREATE TEMP TABLE edges AS SELECT * FROM edge_input")
    _KEPT.append(kernel)
    return made


_KEPT: list[DuckDBKernel] = []


def run(texts: Sequence[str], condition: str = "TRUE") -> pa.Table:
    """The values of expressions in the rows of the edge table."""
    columns = ", ".join(f"{text} AS v{i}" for i, text in enumerate(texts))
    return (
        cursor()
        .sql(f'SELECT {columns} FROM edges WHERE {condition} ORDER BY "row"')
        .to_arrow_table()
    )


def mismatches(cases: Sequence[FunctionCase] | None = None) -> list[str]:
    """What DuckDB does otherwise than our operators, over all cases that it gets."""
    work = []
    for case in all_cases() if cases is None else cases:
        text = rendered(case, DUCKDB)
        if text is not None:
            work.append((case, text, own_outcome(case)))
    total = [item for item in work if not item[2].errors]
    found = _all_partial([item for item in work if item[2].errors])
    for start in range(0, len(total), BATCH):
        part = total[start : start + BATCH]
        try:
            columns = run([text for _, text, _ in part]).columns
        except _engine_error():
            found += [problem for item in part for problem in _alone(*item)]
        else:
            for (case, _, own), column in zip(part, columns, strict=True):
                found += _listed(case, difference(case, own, column.combine_chunks()))
    return found


def _engine_error() -> type[Exception]:
    import duckdb

    return duckdb.Error


def _listed(case: FunctionCase, problem: str | None) -> list[str]:
    return [] if problem is None else [f"{case.shape}: {problem}"]


def _alone(case: FunctionCase, text: str, own: Outcome) -> list[str]:
    try:
        column = run([text]).column(0).combine_chunks()
    except _engine_error() as error:
        return [f"{case.shape}: fails: {str(error)[:200]}"]
    return _listed(case, difference(case, own, column))


def _all_partial(work: Sequence[tuple[FunctionCase, str, Outcome]]) -> list[str]:
    """Cases in which some rows fail: the others alone give our values, and of these some are
    tried."""
    found = []
    for start in range(0, len(work), BATCH):
        part = work[start : start + BATCH]
        try:
            columns = run(
                [f"CASE WHEN {_fails_not(own)} THEN {text} END" for _, text, own in part]
            ).columns
        except _engine_error():
            found += [problem for item in part for problem in _partial(*item)]
            continue
        for (case, text, own), column in zip(part, columns, strict=True):
            rows = _kept(own)
            found += _compared(case, own, column.combine_chunks().take(pa.array(rows, pa.int64())))
            found += _no_errors(case, text, own)
    return found


def _partial(case: FunctionCase, text: str, own: Outcome) -> list[str]:
    try:
        column = run([text, '"row"'], _fails_not(own)).column(0)
    except _engine_error() as error:
        return [f"{case.shape}: fails: {str(error)[:200]}"]
    return [*_compared(case, own, column.combine_chunks()), *_no_errors(case, text, own)]


def _fails_not(own: Outcome) -> str:
    return f'"row" NOT IN ({", ".join(map(str, own.errors))})'


def _kept(own: Outcome) -> list[int]:
    return sorted(set(range(ROWS)) - set(own.errors))


def _compared(case: FunctionCase, own: Outcome, column: pa.Array) -> list[str]:
    rows = _kept(own)
    return _listed(
        case, difference(case, Outcome([own.values[row] for row in rows], []), column, rows)
    )


def _no_errors(case: FunctionCase, text: str, own: Outcome) -> list[str]:
    for row in spread_rows(own.errors):
        try:
            run([text], f'"row" = {row}')
        except _engine_error():
            continue
        return [f"{case.shape}: no error in {shown(case, row)}"]
    return []


def spread_rows(rows: Sequence[int], count: int = FAILING_ROWS) -> Sequence[int]:
    """Some of the rows, from all over."""
    step = max(1, len(rows) // count)
    return rows[::step][:count]


def aggregate_mismatches() -> list[str]:
    """What DuckDB's aggregates give otherwise than ours, group by group."""
    cursor().register("groups", aggregate_cases.engine_table())
    found = []
    for case in aggregate_cases.all_cases():
        text = aggregate_cases.rendered(case, DUCKDB)
        if text is None:
            continue
        own = aggregate_cases.own_values(case)
        groups = ", ".join(map(str, own)) or "-1"
        try:
            table = (
                cursor()
                .sql(f"SELECT g, {text} AS v FROM groups WHERE g IN ({groups}) GROUP BY g")
                .to_arrow_table()
            )
        except _engine_error() as error:
            if not aggregate_cases.is_limited(case, str(error)):
                found.append(f"{case.shape}: fails: {str(error)[:200]}")
            continue
        problem = aggregate_cases.difference(
            case, own, table.column(0).to_pylist(), table.column(1).combine_chunks()
        )
        found += _described(case.shape, problem)
        for group in [number for number in range(aggregate_cases.GROUPS) if number not in own][:2]:
            try:
                cursor().sql(f"SELECT {text} AS v FROM groups WHERE g = {group}").to_arrow_table()
            except _engine_error():
                continue
            found.append(f"{case.shape}: no error in group {group}")
    return found


def _described(shape: str, problem: str | None) -> list[str]:
    return [] if problem is None else [f"{shape}: {problem}"]
