"""Registered objects: Arrow, pandas, Polars and DuckDB relations as tables.

Imports the engine's basics, its contracts (`connector`, `catalog`, `processor`), `columns` and
`expressions`; nothing else of `connectors`. Connections, `engine/serving` and the tables of job
state use it.

Begin with `tables.registered_table`: it recognizes the object and describes its columns.
`source` scans batches in memory and streams; `duckdb_relation` serves DuckDB relations.
"""
