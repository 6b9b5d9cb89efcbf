"""The options of `write_csv` and `write_parquet`, as options of COPY."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runnel.errors import as_written
from runnel.results.calls import _literal

_NAMES = {
    "date_format": "DATEFORMAT",
    "escapechar": "ESCAPE",
    "na_rep": "NULLSTR",
    "quotechar": "QUOTE",
    "sep": "DELIMITER",
    "timestamp_format": "TIMESTAMPFORMAT",
}
"""The names in SQL of options that have another one in Python."""
_QUOTE_ALL = ("1", "all", "force", "quote_all")
_NO_EFFECT = ("use_tmp_file", "encoding")
"""A file replaces another one when it is whole, and is written in UTF-8."""


def copy_options(options: Mapping[str, Any]) -> Iterator[str]:
    """The text of each option."""
    for name, value in options.items():
        if value is None or name in _NO_EFFECT:
            continue
        if name == "quoting":
            if str(value).lower() in _QUOTE_ALL:
                yield "FORCE_QUOTE *"
        elif name == "partition_by":
            names = [value] if isinstance(value, str) else value
            yield f"PARTITION_BY ({', '.join(map(as_written, names))})"
        else:
            yield f"{_NAMES.get(name, name.upper())} {_literal(value)}"
