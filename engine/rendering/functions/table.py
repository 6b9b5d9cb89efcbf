"""The scalar functions that DuckDB or Spark runs, all families."""

from __future__ import annotations

from runnel.rendering.functions.dates import DATES
from runnel.rendering.functions.numbers import NUMBERS
from runnel.rendering.functions.operators import OPERATORS
from runnel.rendering.functions.text import TEXT
from runnel.rendering.render import FunctionRule
from runnel.rendering.rules import ByEngine

FUNCTIONS: dict[str, ByEngine[FunctionRule]] = {**OPERATORS, **NUMBERS, **TEXT, **DATES}
"""The rules by the key of the function."""
