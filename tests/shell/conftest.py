"""The shell over a script from its standard input."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from runnel.shell.command import main

RunScript = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run_script(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> RunScript:
    """Runs a script with `-At` and other arguments in an empty folder; returns the exit status, and
    what was printed to the output and to the error output."""
    monkeypatch.chdir(tmp_path)

    def called(script: str, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(script))
        return (main(("-At", *arguments)), *capsys.readouterr())

    return called
