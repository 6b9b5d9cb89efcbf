"""DuckDB's dialect: functions, casts and types rendered with Runnel's semantics.

Imports `engine/rendering`, `engine/foreign`, `engine/relation`, `engine/expressions` and
`engine/sqltypes.py`.

Begin with `dialect`, the tables put together, then `casts` and `arithmetic`, where DuckDB
rounds and overflows in other ways. `relations` adds common tables and WITH RECURSIVE.
"""
