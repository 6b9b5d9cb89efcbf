"""SQL for us and for DuckDB."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Text:
    """A piece of SQL as we take it and as DuckDB does. `tables`: where tables can't be asked in the
    words for streams."""

    ours: str
    duckdb: str
    tables: str = ""

    def map(self, change: Callable[[str], str]) -> Text:
        return Text(change(self.ours), change(self.duckdb))


def both(text: str) -> Text:
    return Text(text, text)


def joined(template: str, **parts: Text) -> Text:
    """The template with the parts put in."""
    return Text(
        template.format(**{name: part.ours for name, part in parts.items()}),
        template.format(**{name: part.duckdb for name, part in parts.items()}),
    )
