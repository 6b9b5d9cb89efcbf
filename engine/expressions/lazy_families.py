"""The families of functions whose modules are imported on first use, and how a name leads to one.

A process that calls none of these functions doesn't pay for their import. The modules are the only
list of their functions: a look-up searches their source for the name in quotes, which takes less
than a millisecond, and imports the modules that have it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

LAZY_FAMILIES = (
    "casts.limits",
    "casts.try_cast",
    "text.binary",
    "time.make_dates",
    "time.dates",
    "time.interval_functions",
    "time.ages",
    "time.calendar_sums",
    "numbers.exact_decimals",
    "numbers.bits",
    "numbers.integers",
    "json.build",
    "json.changes",
    "json.functions",
    "json.members",
    "json.transform",
    "nested.lambdas",
    "nested.lists",
    "nested.list_values",
    "nested.list_zip",
    "nested.time_ranges",
    "nested.maps",
    "text.regexps",
    "kernels.samples",
    "text.rare_strings",
    "to_char.functions",
    "to_char.strftime",
    "text.printf",
    "text.similarity",
    "text.file_paths",
    "time.units",
    "numbers.rare_mathematics",
    "nested.list_measures",
    "typeof",
)
"""Modules, relative to `runnel.expressions`."""

SLOW_FAMILIES = frozenset(
    {
        "json.functions",
        "json.changes",
        "json.members",
        "json.transform",
        "json.build",
        "text.regexps",
        "text.rare_strings",
        "text.binary",
        "to_char.functions",
        "to_char.strftime",
        "text.printf",
        "text.similarity",
        "text.file_paths",
        "nested.list_measures",
    }
)
"""Their functions call Python code for each distinct value; see `Function.is_slow`."""


def families_with(words: tuple[str, ...]) -> Iterator[str]:
    """The lazy families whose source has one of the words in quotes: one of them defines the
    function of this name, if it exists. A family whose source can't be read may have it, too."""
    quoted = [f'"{word}"' for word in words]
    for module in LAZY_FAMILIES:
        text = _source(module)
        if text is None or any(word in text for word in quoted):
            yield module


@cache
def _source(module: str) -> str | None:
    """The source of a module; None if the package has only compiled modules, or is an archive."""
    path = Path(__file__).parent.joinpath(*module.split(".")).with_suffix(".py")
    try:
        return path.read_text("utf-8")
    except OSError:
        return None
