"""The examples of docs/functions.md with columns in the place of their literals.

`ABS(-5)` becomes `ABS(-c0)` over a row with c0 = 5. Where a literal must stay, such as the length
of DECIMAL(10, 2), only one of the others becomes a column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from sqlglot import TokenType

import runnel
from runnel.planner.parse.tokens import tokenize
from tests.rendering.matrix import examples

_LITERALS = (TokenType.NUMBER, TokenType.STRING)
_AGGREGATED = re.compile(
    r"\bx\b(?! *(?:->|,|:|IN\b|IF\b))|COUNT_STAR|[(][*][)]|OVER \(|^(ANY_VALUE|MODE|ARBITRARY)[(]1"
)


class ColumnExample(NamedTuple):
    """An example over columns.

    name: the name of the function.
    expression: over `columns`.
    columns: the names of the columns, and the literal that each stands for.
    value: the value of the expression over a table in memory, as `repr`.
    """

    name: str
    expression: str
    columns: dict[str, str]
    value: str


def column_examples(connection: runnel.Connection) -> Iterator[ColumnExample]:
    """The examples of scalar functions in which at least one literal can be a column."""
    for number, (name, example) in enumerate(examples().items()):
        text = example.expression
        if _AGGREGATED.search(re.sub("'[^']*'", "", text)):
            continue
        found = [token for token in tokenize(text) if token.token_type in _LITERALS]
        choices = [range(len(found)), *([index] for index in range(len(found)))]
        for chosen in choices if found else ():
            columns = {f"c{number}_{index}": literal(text, found[index]) for index in chosen}
            changed = text
            for column, index in reversed([*zip(columns, chosen, strict=True)]):
                token = found[index]
                changed = changed[: token.start] + column + changed[token.end + 1 :]
            try:
                row = one_row(connection, [columns])
                connection.register("documented", row)
                rows = connection.execute(f"SELECT {changed} FROM documented").fetchall()
            except runnel.Error:
                continue
            if len(rows) == 1:  # else a function that returns rows
                yield ColumnExample(name, changed, columns, repr(rows[0][0]))
            break


def literal(text: str, token: Any) -> str:
    return text[token.start : token.end + 1]


def one_row(connection: runnel.Connection, columns: Sequence[dict[str, str]]) -> pa.Table:
    """A row with the columns."""
    items = [f"{value} AS {name}" for group in columns for name, value in group.items()]
    return connection.execute(f"SELECT {', '.join(items)}").fetch_arrow_table()


def chunks(found: Sequence[ColumnExample], size: int) -> Iterator[Sequence[ColumnExample]]:
    for start in range(0, len(found), size):
        yield found[start : start + size]
