"""The one owner of a connection's DuckDB: an in-memory database that fragments and spilling operators run in."""
