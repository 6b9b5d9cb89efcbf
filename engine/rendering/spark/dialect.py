"""Spark's dialect, in ANSI mode; nothing depends on the zone of the Spark session."""

from __future__ import annotations

from runnel.rendering.render import Dialect
from runnel.rendering.spark import values as spark_values
from runnel.rendering.spark.aggregates import AGGREGATES
from runnel.rendering.spark.casts import cast
from runnel.rendering.spark.functions import FUNCTIONS
from runnel.rendering.spark.python import python_call
from runnel.rendering.spark.windows import WINDOWS, spark_frame

SPARK = Dialect(
    quote=spark_values.quote,
    type_name=spark_values.type_name,
    literal=spark_values.literal,
    text=spark_values.text,
    error="raise_error",
    key=spark_values.key,
    functions=FUNCTIONS,
    casts=cast,
    aggregates=AGGREGATES,
    windows=WINDOWS,
    frame=spark_frame,
    python=python_call,
)
