"""Spark's dialect, in ANSI mode; nothing depends on the zone of the Spark session."""

from __future__ import annotations

from runnel.rendering.aggregates import AGGREGATES
from runnel.rendering.casts import CASTS, by_families
from runnel.rendering.functions.table import FUNCTIONS
from runnel.rendering.render import Dialect
from runnel.rendering.rules import for_spark
from runnel.rendering.spark.python import python_call
from runnel.rendering.spark.values import SparkValues
from runnel.rendering.spark.windows import spark_frame
from runnel.rendering.window_functions import WINDOWS

SPARK = Dialect(
    values=SparkValues(),
    error="raise_error",
    functions=for_spark(FUNCTIONS),
    casts=by_families(for_spark(CASTS)),
    aggregates=for_spark(AGGREGATES),
    windows=for_spark(WINDOWS),
    frame=spark_frame,
    python=python_call,
)
