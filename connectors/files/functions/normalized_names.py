"""The names of columns that normalize_names makes, which need no quotes in SQL."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache


def normalized(names: Sequence[str]) -> list[str]:
    """The names in lower case, without accents and other signs: "My Größe" becomes my_grosse; an
    underscore precedes keywords and digits."""
    return [_normalized(name) for name in names]


def _normalized(name: str) -> str:
    text = unicodedata.normalize("NFKD", name.replace("ß", "ss")).lower()
    text = re.sub(r"\s", "_", re.sub(r"[^a-z0-9_\s]", "", text).strip()) or "_"
    if text[0].isdigit() or text in _keywords():
        return f"_{text}"
    return text


@cache
def _keywords() -> frozenset[str]:
    """The keywords of DuckDB that can't name a column without quotes everywhere."""
    # Loaded on first use: few calls normalise names.
    import duckdb

    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        rows = connection.execute(
            "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'column_name'"
        ).fetchall()
    return frozenset(name for (name,) in rows)
