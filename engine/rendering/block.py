"""A SELECT under construction, and its text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Block:
    """A SELECT under construction: `columns` are the texts of the result's columns over the aliases
    in `source`.

    `is_plain`: these are columns of `source`, so that expressions over them can be put in their
    place. Order and limit follow the rest.
    """

    source: str
    columns: tuple[str, ...]
    where: tuple[str, ...] = ()
    is_plain: bool = True
    group: str = ""
    order: tuple[str, ...] = ()
    limit: str = ""
    is_item: bool = False
    """Whether `source` is one FROM item, not a join."""


def block_text(block: Block) -> str:
    """The SELECT as text, its columns called c0, c1, …."""
    columns = ", ".join(f"{text} AS c{i}" for i, text in enumerate(block.columns)) or "1 AS c0"
    where = f" WHERE {' AND '.join(block.where)}" if block.where else ""
    group = f" GROUP BY {block.group}" if block.group else ""
    order = f" ORDER BY {', '.join(block.order)}" if block.order else ""
    return f"SELECT {columns} FROM {block.source}{where}{group}{order}{block.limit}"
