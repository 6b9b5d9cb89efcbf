"""DuckDB's dialect. It relies on settings that the kernel makes in its connections."""

from __future__ import annotations

from runnel.rendering.aggregates import AGGREGATES
from runnel.rendering.casts import CASTS, by_families
from runnel.rendering.duckdb.values import DuckDBValues
from runnel.rendering.functions.table import FUNCTIONS
from runnel.rendering.render import Dialect
from runnel.rendering.rules import for_duckdb
from runnel.rendering.window_functions import WINDOWS

DUCKDB = Dialect(
    values=DuckDBValues(),
    error="error",
    functions=for_duckdb(FUNCTIONS),
    casts=by_families(for_duckdb(CASTS)),
    aggregates=for_duckdb(AGGREGATES),
    windows=for_duckdb(WINDOWS),
    ignores_nulls_inside=True,
)
