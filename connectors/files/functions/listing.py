"""GLOB: the paths that match a pattern."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from runnel.access import Access
from runnel.catalog import Table
from runnel.connectors.arrow.tables import registered_table
from runnel.connectors.files.paths import file_path
from runnel.errors import ProgrammingError


def glob_table(positional: Sequence[Any], named: Mapping[str, Any], access: Access | None) -> Table:
    """The table of `GLOB('*.csv')`: a column `file` with the paths that match, in order. It is
    empty if none does."""
    patterns = positional[0] if len(positional) == 1 else None
    if isinstance(patterns, str):
        patterns = [patterns]
    if named or not isinstance(patterns, list) or not all(isinstance(p, str) for p in patterns):
        raise ProgrammingError(
            "glob needs one pattern, or a list of patterns", hint="write glob('folder/*.csv')"
        )
    found: list[str] = []
    for pattern in patterns:
        path = file_path(pattern, None, ignore_missing=True, access=access)
        found += [path.shown(file) for file in replace(path, ignore_missing=True).files()]
    batch = pa.RecordBatch.from_arrays([pa.array(found, pa.string())], names=["file"])
    return registered_table("glob", pa.Table.from_batches([batch]))
