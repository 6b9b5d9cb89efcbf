"""`make` uses any Python from 3.11 on, reports which one, and names what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAKE = shutil.which("make")
pytestmark = pytest.mark.skipif(MAKE is None, reason="make is not installed")

# Stands for a Python: prints its version, exits with 1 if it is too old, and records other calls.
PROGRAM = """#!/bin/sh
case "$2" in
  *version_info*) echo {version}; exit {too_old} ;;
  "import venv, ensurepip") exit {no_venv} ;;
esac
echo "called: $*"
"""


def program(folder: Path, name: str, version: str, *, no_venv: bool = False) -> None:
    too_old = tuple(map(int, version.split("."))) < (3, 11)
    path = folder / name
    path.write_text(PROGRAM.format(version=version, too_old=int(too_old), no_venv=int(no_venv)))
    path.chmod(0o755)


def make(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    assert MAKE is not None
    inherited = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTHON")
    environment = {name: value for name, value in os.environ.items() if name not in inherited}
    return subprocess.run(
        [MAKE, "--no-print-directory", "-C", str(ROOT), *arguments],
        env={**environment, "PATH": str(path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("name", ["python3", "python", "python3.11", "python3.14"])
def test_a_python_under_any_usual_name_is_used(tmp_path: Path, name: str) -> None:
    program(tmp_path, name, "3.12.4")
    done = make(tmp_path, "python")
    assert (done.returncode, done.stdout) == (0, f"{name} (3.12.4)\n")


def test_an_older_python_is_passed_over(tmp_path: Path) -> None:
    program(tmp_path, "python3", "3.9.2")
    program(tmp_path, "python3.13", "3.13.1")
    assert make(tmp_path, "python").stdout == "python3.13 (3.13.1)\n"


def test_the_python_of_the_command_line_is_used(tmp_path: Path) -> None:
    program(tmp_path, "python3", "3.11.0")
    program(tmp_path, "special", "3.15.0")
    assert make(tmp_path, "python", "PYTHON=special").stdout == "special (3.15.0)\n"
    done = make(tmp_path, "python", "PYTHON=absent")
    assert done.returncode == 2
    assert "Python 3.11 or later is required; not found: absent\n" in done.stderr


def test_only_an_older_python(tmp_path: Path) -> None:
    program(tmp_path, "python3", "3.9.2")
    program(tmp_path, "python", "2.7.18")
    done = make(tmp_path, "python")
    assert done.returncode == 2
    assert done.stderr.startswith(
        "Python 3.11 or later is required; found only: python3 (3.9.2) python (2.7.18)\n"
        "Install it, or name it: make PYTHON="
    )


def test_no_python(tmp_path: Path) -> None:
    done = make(tmp_path, "python")
    assert done.returncode == 2
    assert "Python 3.11 or later is required; not found: python3, python" in done.stderr


def test_a_python_without_venv(tmp_path: Path) -> None:
    program(tmp_path, "python3", "3.12.0", no_venv=True)
    done = make(tmp_path, "python")
    assert done.returncode == 2
    assert done.stderr.startswith("python3 (3.12.0) has no module venv; on Debian and Ubuntu: ")


def test_the_environment_is_created_with_it(tmp_path: Path) -> None:
    program(tmp_path, "python3", "3.12.4")
    new = tmp_path / "new"
    done = make(tmp_path, f"VENV={new}", f"{new}/bin/python")
    assert done.stdout.splitlines() == [
        f"Creating {new} with python3 (3.12.4)",
        f"called: -m venv {new}",
    ]
