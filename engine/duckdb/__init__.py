"""The DuckDB database in a connection: fragments and spilling operators run in it.

Imports the engine's basics, `connector`, `columns`, `expressions`, `relation`, `storage`, and
`error_mark` of `rendering`. Processors and connectors build on it.

Begin with `kernel.DuckDBKernel`, the one owner of the database. `stream` runs a query on a
thread of its own with a bounded queue; `arrow` has the column types at the border.
"""
