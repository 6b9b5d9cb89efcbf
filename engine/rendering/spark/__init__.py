"""Spark's dialect, in ANSI mode: functions, casts, types and streaming queries.

Imports `engine/rendering`, `engine/foreign`, `engine/relation`, `engine/expressions` and the
basics. It doesn't import pyspark.

Begin with `dialect`, the tables put together. The result never depends on the zone of the Spark
session: see `zones` and `dates`. `streams` renders queries for Structured Streaming;
`time_bounds` has the join conditions on event time.
"""
