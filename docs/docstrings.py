"""Docstrings as Markdown, for the page of the Python API.

A docstring describes parameters and fields as `name: text`, one a line, with longer texts indented.
Markdown would join such lines into one paragraph, so they become a list. mkdocstrings loads the
class below as an extension of Griffe.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension

FIELD = re.compile(r"^(\*{0,2}\w+): (.*(?:\n {2,}\S.*)*)", re.MULTILINE)


def as_markdown(docstring: str) -> str:
    """The docstring, with its lines `name: text` as a list."""

    def item(match: re.Match[str]) -> str:
        text = " ".join(match[2].split())
        return f"- `{match[1]}`: {text}"

    return re.sub(
        r"(^(?!- ).+)\n(?=- `)", r"\1\n\n", FIELD.sub(item, docstring), flags=re.MULTILINE
    )


class Fields(Extension):
    """Changes the docstring of each object that Griffe loads."""

    def on_instance(self, *, obj: Any, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
