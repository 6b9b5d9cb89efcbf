"""ALTER TABLE t SET ('option' = 'value', …), and RESET ('option', …), of a table with options."""

from __future__ import annotations

from collections.abc import Mapping

from runnel.base.frozen import frozen
from runnel.errors import Position
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import Name, Statement
from runnel.planner.parse.tokens import read_options


@frozen(kw_only=True)
class AlterOptions(Statement):
    """ALTER TABLE … SET or RESET.

    name: the table.
    if_exists: whether a missing table is no error.
    options: the new value of each option; None: the option is removed.
    """

    name: Name
    if_exists: bool
    options: Mapping[str, str | None]


def parse_options(
    reader: StatementReader, position: Position, name: Name, if_exists: bool
) -> AlterOptions:
    """SET ('option' = 'value', …) | RESET ('option', …)"""
    options: dict[str, str | None] = {}
    if reader.accept("SET"):
        options.update((item.name.text, item.value) for item in read_options(reader))
    else:
        reader.expect("RESET", "(")
        while True:
            options[reader.string("an option's name in quotes").text] = None
            if not reader.accept(","):
                break
        reader.expect(")")
    return AlterOptions(
        sql=reader.sql, position=position, name=name, if_exists=if_exists, options=options
    )
