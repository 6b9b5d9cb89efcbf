"""The examples of docs/jet.md run, one after another; the steps that it names exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from runnel.processors import library

PAGE = (Path(__file__).parents[3] / "docs" / "jet.md").read_text("utf-8")


def test_the_examples_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "docs/jet.md", "exec"), names)
    assert names["counts"] and names["windows"]


def test_the_page_names_each_step_of_the_library() -> None:
    operations = {"averaging", "maximum", "minimum", "summing", "to_list"}
    others = {"result_sink", "WindowDefinition"}
    named = set(re.findall(r"\w+", PAGE))
    assert set(library.__all__) - operations - others <= named
