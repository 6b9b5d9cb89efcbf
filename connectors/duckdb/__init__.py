"""TYPE DuckDB: tables of DuckDB databases, and query fragments that DuckDB runs.

Imports `engine/duckdb` (the connection's own DuckDB), `engine/rendering`, `engine/foreign`,
`engine/relation`, `engine/columns`, `engine/expressions`, the contracts, and `constants` and
`live/tables` of `engine/processors`. From `connectors` it imports `options`, `parallel_reading`,
`comparisons` and `files`, since DuckDB reads some data files itself.

Begin with `connector` for the mapping and `table` for reads; `sink` writes in one transaction
per statement or epoch. `fragments` decides which sub-plans DuckDB is offered and runs them.
"""
