"""Which functions are in the modules that are imported on first use: for each module, the keys of its functions and the
names under which SQL calls them (none for an operator). A test compares this with what the modules define."""

from __future__ import annotations

from collections.abc import Mapping


def _family(text: str) -> dict[str, tuple[str, ...]]:
    """Read from words: `key` is called by the same word in upper case, `key=A,B` by A and B, `key=` by none."""
    functions = {}
    for word in text.split():
        key, equals, names = word.partition("=")
        functions[key] = tuple(names.split(",")) if names else () if equals else (key.upper(),)
    return functions


LATER: Mapping[str, Mapping[str, tuple[str, ...]]] = {module: _family(text) for module, text in {}.items()}
