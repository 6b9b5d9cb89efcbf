"""docs/functions.md says what the tables of the renderings say."""

from __future__ import annotations

from tests.rendering.matrix import PATH, table


def test_the_documented_matrix_is_up_to_date() -> None:
    assert PATH.read_text("utf-8") == table(), "run `python -m tests.rendering.matrix`"
