"""Pinned error texts: a file of `expected/` for each topic, a section for each case.

A section is a line "== name", then the error's class of PEP 249 and code, then its whole text.
RUNNEL_COMPLETE=1 writes the texts anew; read the difference before you commit it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import runnel

FOLDER = Path(__file__).parent / "expected"
HEADING = "== "


def sections(topic: str) -> dict[str, str]:
    """The pinned texts of a topic by name."""
    path = FOLDER / f"{topic}.txt"
    found: dict[str, str] = {}
    if path.exists():
        for section in ("\n" + path.read_text()).split(f"\n{HEADING}")[1:]:
            name, _, text = section.partition("\n")
            found[name] = text.strip("\n")
    return found


def story(error: runnel.Error, folder: Path | None = None) -> str:
    """Class, code and whole text of an error; `folder` is shown as FOLDER."""
    kind = next(item for item in type(error).__mro__ if item.__name__ in runnel.Connection.__dict__)
    text = f"{kind.__name__} {error.code.name}\n{error}"
    return text if folder is None else text.replace(str(folder), "FOLDER")


def check(topic: str, name: str, text: str) -> None:
    """Compares a text with the pinned one; or pins it, where it is told to."""
    pinned = sections(topic)
    if os.environ.get("RUNNEL_COMPLETE"):
        pinned[name] = text
        path = FOLDER / f"{topic}.txt"
        path.write_text(
            "\n\n".join(f"{HEADING}{key}\n{value}".rstrip() for key, value in pinned.items()) + "\n"
        )
        return
    assert name in pinned, f"no text is pinned for {name!r} in {topic}.txt"
    assert text == pinned[name]


def refused(
    topic: str, name: str, action: Callable[[], object], folder: Path | None = None
) -> runnel.Error:
    """Does what must fail with an error of PEP 249, whose text is the pinned one."""
    with pytest.raises(runnel.Error) as caught:
        action()
    assert not isinstance(caught.value, runnel.InternalError), caught.value
    check(topic, name, story(caught.value, folder))
    return caught.value
