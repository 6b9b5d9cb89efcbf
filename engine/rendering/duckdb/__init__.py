"""DuckDB's dialect: its arithmetic, types, literals and relations.

Imports `engine/rendering`, `engine/foreign`, `engine/relation`, `engine/expressions` and
`engine/sqltypes.py`.

Begin with `dialect`, which combines the tables of `rendering`, then `arithmetic`, where DuckDB
rounds and overflows in other ways. `relations` adds common tables and WITH RECURSIVE.
"""
