"""DuckDB's dialect. The kernel's connections have the settings that it counts on."""

from __future__ import annotations

from runnel.rendering.duckdb import values as duckdb_values
from runnel.rendering.duckdb.aggregates import AGGREGATES, WINDOWS
from runnel.rendering.duckdb.casts import cast
from runnel.rendering.duckdb.functions import FUNCTIONS
from runnel.rendering.render import Dialect

DUCKDB = Dialect(
    quote=duckdb_values.quote,
    type_name=duckdb_values.type_name,
    literal=duckdb_values.literal,
    text=duckdb_values.text,
    error="error",
    key=duckdb_values.key,
    functions=FUNCTIONS,
    casts=cast,
    aggregates=AGGREGATES,
    windows=WINDOWS,
    ignores_nulls_inside=True,
)
