"""DuckDB's dialect. It relies on settings that the kernel makes in its connections."""

from __future__ import annotations

from runnel.rendering.duckdb.aggregates import AGGREGATES, WINDOWS
from runnel.rendering.duckdb.casts import cast
from runnel.rendering.duckdb.functions import FUNCTIONS
from runnel.rendering.duckdb.values import DuckDBValues
from runnel.rendering.render import Dialect

DUCKDB = Dialect(
    values=DuckDBValues(),
    error="error",
    functions=FUNCTIONS,
    casts=cast,
    aggregates=AGGREGATES,
    windows=WINDOWS,
    ignores_nulls_inside=True,
)
