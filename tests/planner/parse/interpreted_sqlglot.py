"""Makes Python import sqlglot's sources although its compiled modules are installed beside them.

A pytest plugin too, to run any tests with the interpreted build:
`python -m pytest -p tests.planner.parse.interpreted_sqlglot …`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType


class SourcesOnly(MetaPathFinder):
    """Finds the modules of one package in their .py files only."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._package and not fullname.startswith(self._package + "."):
            return None
        for folder in sys.path if path is None else path:
            spec = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(fullname)
            if spec is not None:
                return spec
        return None


def install() -> None:
    """From now on; sqlglot must not have been imported yet."""
    if "sqlglot" in sys.modules:
        raise RuntimeError("sqlglot was imported already")
    sys.meta_path.insert(0, SourcesOnly("sqlglot"))


def pytest_configure() -> None:
    install()
