"""Expressions over columns, by our operators and in Spark: hundreds in one query; errors row by
row.

Cases are those of the function matrix over rows of random values, and every expression that an
`.slt` file asks without a table, its constants put into columns, so that neither side works it out
while it plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

import runnel
from runnel.connectors.spark.errors import leave_out_of_logs, spark_errors
from runnel.errors import DataError, Error
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.evaluate import compile_expression, evaluate, evaluate_constant, is_volatile
from runnel.expressions.kernels.values import array_of
from runnel.expressions.nodes import Call, Cast, Column, Expression, InList, Literal, walk
from runnel.foreign.fragment import Unrenderable
from runnel.planner.bind.query import Binder
from runnel.planner.parse.statement import parse
from runnel.planner.parse.syntax import Query
from runnel.relation.nodes import Project, Scan
from runnel.relation.nodes import walk as nodes_of
from runnel.rendering.render import Rendering
from runnel.rendering.spark.dialect import SPARK
from runnel.sqltypes import Kind, SqlType
from tests.both_runtimes.tally import Tally
from tests.both_runtimes.workers import shared_out
from tests.expressions.edge_values import same
from tests.rendering.function_cases import all_cases
from tests.rendering.outcomes import SESSION, ZONE, _alike, _plain, stored_type
from tests.slt.records import read
from tests.spark_process import new_session

BATCH = 100
THREADS = 2
_CONTEXT = EvaluationContext((), SESSION.now, ZONE)


class Case(NamedTuple):
    """An expression over the columns of a sheet; `text` is Spark's SQL for it."""

    shape: str
    expression: Expression
    text: str


class Outcome(NamedTuple):
    """What our operators give: values of all rows, and the error of each row that fails."""

    values: list[Any]
    errors: dict[int, DataError]


class Sheet:
    """Rows, and the view of a Spark session that has them. Not `cached` they are part of the plan,
    and what is asked of them is worked out by Spark's optimizer, much faster, by its interpreter
    instead of by code that it makes."""

    def __init__(self, session: Any, columns: Sequence[pa.Array], *, cached: bool) -> None:
        leave_out_of_logs()
        self.session = session
        self.columns = columns
        self.rows = len(columns[0])
        self.view = f"sheet_{id(self):x}"
        stored = [_stored(item) for item in columns]
        table = pa.table(
            [*stored, pa.array(range(self.rows), pa.int64())], names=[*self.names, "row"]
        )
        frame = session.createDataFrame(table)
        (frame.coalesce(1).cache() if cached else frame).createOrReplaceTempView(self.view)

    @property
    def names(self) -> list[str]:
        """The texts of the columns."""
        return [f"c{i}" for i in range(len(self.columns))]

    def run(self, texts: Sequence[str], condition: str = "TRUE") -> pa.Table:
        """The values of expressions, in the order of the rows; our error where a row fails."""
        columns = ", ".join(f"{text} AS v{i}" for i, text in enumerate(texts))
        with spark_errors():
            found: pa.Table = self.session.sql(
                f"SELECT {columns}, row AS place FROM {self.view} WHERE {condition}"
            ).toArrow()
        return found.sort_by("place").drop_columns(["place"])

    def close(self) -> None:
        self.session.catalog.dropTempView(self.view)


def _stored(item: pa.Array) -> pa.Array:
    """As a scan gives it to fragments; TIME comes as a number, as it isn't rendered."""
    return (
        item.cast(pa.int64())
        if pa.types.is_duration(item.type) or pa.types.is_time(item.type)
        else item
    )


def own_session() -> Any:
    """A session for our SQL without a connection; its zone is neither ours nor UTC, as nothing may
    depend on it."""
    return new_session(
        {
            "spark.sql.timestampType": "TIMESTAMP_NTZ",
            "spark.sql.session.timeZone": "America/New_York",
            "spark.sql.ansi.enabled": "true",
            "spark.sql.shuffle.partitions": "1",
        }
    )


def case_of(shape: str, expression: Expression, names: Sequence[str]) -> Case | str:
    """The case, or why Spark doesn't get it."""
    try:
        return Case(shape, expression, Rendering(SPARK, SESSION).expression(expression, names))
    except Unrenderable as refused:
        return refused.what


def of_matrix(names: Sequence[str], tally: Tally | None = None) -> list[Case]:
    """The cases of the function matrix that Spark gets; `tally` hears of the others."""
    cases = []
    for item in all_cases():
        if item.entry != "literals":
            case = case_of(item.shape, item.expression, names)
            if isinstance(case, Case):
                cases.append(case)
            elif tally is not None:
                tally.leave(case)
    return cases


def here(case: Case, sheet: Sheet) -> Outcome:
    """By our operators; what they fail on is found by halving."""
    used = sorted({node.index for node in walk(case.expression) if isinstance(node, Column)})
    columns = [sheet.columns[index] for index in used]
    evaluator = compile_expression(_moved(case.expression, used))
    values: list[Any] = [None] * sheet.rows
    errors: dict[int, DataError] = {}

    def run(low: int, high: int) -> None:
        try:
            array = evaluate(
                evaluator,
                EvaluationInput(
                    [item.slice(low, high - low) for item in columns], high - low, _CONTEXT
                ),
            )
        except DataError as error:
            if high - low == 1:
                errors[low] = error
                return
            run(low, (low + high) // 2)
            run((low + high) // 2, high)
        else:
            values[low:high] = _plain(array, case.expression.type)

    run(0, sheet.rows)
    return Outcome(values, errors)


def _moved(expression: Expression, used: Sequence[int]) -> Expression:
    if isinstance(expression, Column):
        return replace(expression, index=used.index(expression.index))
    return expression.with_children(tuple(_moved(child, used) for child in expression.children))


def differences(
    cases: Sequence[Case], sheet: Sheet, failing: int, most_failures: int, tally: Tally
) -> Iterator[str]:
    """What Spark does otherwise. Of the rows on which a case fails so many are tried by themselves,
    `most_failures` in all, spread over the cases."""
    work = [(case, here(case, sheet)) for case in cases]
    tally.same(len(work))
    parts = [work[start : start + BATCH] for start in range(0, len(work), BATCH)]
    for found in shared_out(
        parts, [sheet] * THREADS, lambda sheet, part: list(_compared(part, sheet))
    ):
        yield from found
    partial = [(case, own) for case, own in work if own.errors]
    step = max(1, len(partial) * failing // max(1, most_failures))
    tried = []
    for case, own in partial[::step]:
        rows = sorted(own.errors)
        tried += [(case, own, row) for row in rows[:: max(1, len(rows) // failing)][:failing]]
    for problem in shared_out(
        tried, [sheet] * THREADS, lambda sheet, item: _of_failing(*item, sheet, tally)
    ):
        if problem is not None:
            yield problem


def _compared(part: Sequence[tuple[Case, Outcome]], sheet: Sheet) -> Iterator[str]:
    try:
        table = sheet.run([_guarded(case.text, own) for case, own in part])
    except Error as error:
        if len(part) > 1:
            middle = len(part) // 2
            yield from _compared(part[:middle], sheet)
            yield from _compared(part[middle:], sheet)
            return
        case, own = part[0]
        yield (
            f"{case.shape}: fails only on Spark{_where(case, own, sheet)}: {error.message}\n"
            f"    {case.text[:400]}"
        )
        return
    for (case, own), column in zip(part, table.columns, strict=True):
        yield from _unequal(case, own, column.combine_chunks(), sheet)


def _where(case: Case, own: Outcome, sheet: Sheet) -> str:
    """The first row that fails."""
    for row in range(sheet.rows):
        if row not in own.errors:
            try:
                sheet.run([case.text], f"row = {row}")
            except Error:
                return f" of {_shown(case, row, sheet)}, which is {own.values[row]!r}"
    return ""


def _guarded(text: str, own: Outcome) -> str:
    """NULL in the rows that fail."""
    return (
        f"CASE WHEN row IN ({', '.join(map(str, own.errors))}) THEN NULL ELSE {text} END"
        if own.errors
        else text
    )


def _unequal(case: Case, own: Outcome, theirs: pa.Array, sheet: Sheet) -> Iterator[str]:
    wanted = stored_type(case.expression.type)
    if not _alike(theirs.type, wanted):
        yield f"{case.shape}: type {theirs.type} instead of {wanted}"
        return
    if case.expression.type.kind is Kind.INTERVAL:
        theirs = theirs.cast(pa.duration("us"))
    elif theirs.type != wanted:
        theirs = theirs.cast(wanted)
    values = _plain(theirs, case.expression.type)
    wrong = [
        i for i in range(sheet.rows) if i not in own.errors and not same(own.values[i], values[i])
    ]
    if wrong:
        at = wrong[0]
        what = f"{own.values[at]!r}, on Spark {values[at]!r}"
        yield (
            f"{case.shape}: {len(wrong)} rows differ: of {_shown(case, at, sheet)}: {what}\n"
            f"    {case.text[:400]}"
        )


def _of_failing(case: Case, own: Outcome, row: int, sheet: Sheet, tally: Tally) -> str | None:
    value, error = "", None
    try:
        value = f", but {sheet.run([case.text], f'row = {row}').column(0)[0]}"
    except Error as found:
        error = found
    problem = tally.errors(own.errors[row], error)
    return (
        None
        if problem is None
        else f"{case.shape}: of {_shown(case, row, sheet)}: {problem}{value}\n    {case.text[:400]}"
    )


def _shown(case: Case, row: int, sheet: Sheet) -> str:
    found = []
    for index in sorted({node.index for node in walk(case.expression) if isinstance(node, Column)}):
        item = sheet.columns[index][row]
        try:
            found.append(repr(item.as_py()))
        except (ValueError, OverflowError):
            found.append(str(item))
    return f"({', '.join(found)})"


class Lifted:
    """The expressions that `.slt` files ask without a table. `columns` are their constants."""

    def __init__(self) -> None:
        self._places: dict[tuple[SqlType, str], int] = {}
        self.columns: list[pa.Array] = []
        self.expressions: list[tuple[str, list[Expression]]] = []

    def add(self, path: Path) -> None:
        """All of a file."""
        with runnel.connect() as connection:
            for record in read(path):
                if record.kind in ("query", "statement") and not record.arguments:
                    for number, expression in enumerate(_asked(connection, record.sql)):
                        forms = [
                            self._lifted(expression, is_first_only=only) for only in (False, True)
                        ]
                        self.expressions.append(
                            (f"{record.place}, {number + 1}: {expression}", forms)
                        )

    def cases(self, tally: Tally | None = None) -> list[Case]:
        """Those that Spark gets, with all constants in columns, or at least the first of each call;
        `tally` hears of the others."""
        names = [f"c{i}" for i in range(len(self.columns))]
        found = []
        for place, forms in self.expressions:
            lifted = [
                form for form in forms if any(isinstance(node, Column) for node in walk(form))
            ]
            if not lifted:
                continue  # the planner works it out
            made = [case_of(place, form, names) for form in lifted]
            case = next((item for item in made if isinstance(item, Case)), None)
            if case is not None:
                found.append(case)
            elif tally is not None:
                tally.leave(str(made[-1]))
        return found

    def _lifted(self, expression: Expression, *, is_first_only: bool) -> Expression:
        if _is_leaf(expression):
            return self._column(expression)
        children = []
        for place, child in enumerate(expression.children):
            is_option = (
                is_first_only and isinstance(expression, Call) and place != _subject(expression)
            ) or (isinstance(expression, InList) and place > 0)
            is_named = isinstance(expression, Call) and place < _subject(expression)
            keeps = _is_leaf(child) and (is_option or is_named)
            children.append(child if keeps else self._lifted(child, is_first_only=is_first_only))
        return expression.with_children(tuple(children))

    def _column(self, expression: Expression) -> Expression:
        try:
            value = evaluate_constant(expression)
            key = (expression.type, repr(value))
            if key not in self._places:
                array = array_of([value], expression.type)
                self._places[key] = len(self.columns)
                self.columns.append(array)
        except Error:
            return expression
        return Column(index=self._places[key], name="x", type=expression.type)


def _subject(call: Call) -> int:
    """The argument that varies where the others are options."""
    return 1 if call.function in ("extract", "date_trunc", "date_diff") else 0


def _is_leaf(expression: Expression) -> bool:
    """Whether it is a value as it is written, of a type that a column of Spark can have."""
    without_columns = (Kind.NULL, Kind.UUID, Kind.INTERVAL_MIXED)
    if expression.type.is_nested or expression.type.kind in without_columns:
        return False
    if isinstance(expression, Literal):
        return True
    is_sign = isinstance(expression, Call) and expression.function == "negate"
    return (isinstance(expression, Cast) or is_sign) and all(
        isinstance(child, Literal) for child in expression.children
    )


def _asked(connection: runnel.Connection, sql: str) -> list[Expression]:
    """The expressions of a query without a table."""
    database = connection._database
    try:
        statement = parse(sql)
        if not isinstance(statement, Query) or statement.parameters:
            return []
        binder = Binder(
            statement.sql,
            database.catalog.snapshot,
            (),
            connection._session.planning_environment("UTC"),
        )
        relation = binder.statement_query(statement)
    except Error:
        return []
    if any(isinstance(node, Scan) for node in nodes_of(relation)) or relation.is_unbounded:
        return []
    found = [
        item
        for node in nodes_of(relation)
        if isinstance(node, Project)
        for item in node.expressions
    ]
    return [
        item
        for item in found
        if not is_volatile(item) and not any(isinstance(part, Column) for part in walk(item))
    ]
