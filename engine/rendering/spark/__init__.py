"""Spark's dialect, in ANSI mode: its arithmetic, types, literals, relations and streaming queries.

Imports `engine/rendering`, `engine/foreign`, `engine/relation`, `engine/expressions` and the
basics. It doesn't import pyspark.

Begin with `dialect`, which combines the tables of `rendering`. No result depends on the zone of the
Spark session: see `arithmetic.local_time`. `streams` renders queries for Structured Streaming;
`time_bounds` has the join conditions on event time.
"""
