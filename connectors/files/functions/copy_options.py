"""The options that COPY … TO and COPY … FROM share, as DuckDB and PostgreSQL write them."""

from __future__ import annotations

FILE_OPTIONS = {
    "format": "format",
    "header": "header",
    "delimiter": "delimiter",
    "delim": "delimiter",
    "sep": "delimiter",
    "quote": "quote",
    "escape": "escape",
    "null": "nullValue",
    "nullstr": "nullValue",
    "compression": "compression",
    "codec": "compression",
    "encoding": "encoding",
    "dateformat": "dateFormat",
    "date_format": "dateFormat",
    "timestampformat": "timestampFormat",
    "timestamp_format": "timestampFormat",
}
"""The option of a File mapping for each option of COPY."""

FORMAT_WORDS = frozenset({"csv", "json", "parquet"})
"""The formats that may be written without FORMAT, as in `(CSV, HEADER)`."""

COMPRESSIONS = {
    "gzip": "gz",
    "zstd": "zst",
    "bzip2": "bz2",
    "lz4_raw": "lz4",
    "uncompressed": "none",
}
"""The value of the option 'compression' for each name of a compression."""
