"""The modules of the product, and what they define, for tests that look for tables."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any


@cache
def modules(*packages: str) -> tuple[ModuleType, ...]:
    """All modules below these packages of `runnel`."""
    parents = [importlib.import_module(f"runnel.{package}") for package in packages]
    return tuple(
        importlib.import_module(item.name)
        for parent in parents
        for item in pkgutil.walk_packages(parent.__path__, f"{parent.__name__}.")
    )


def members(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The values and functions that a module names, with the members of its classes."""
    for name, value in vars(module).items():
        if not isinstance(value, type):
            yield name, value
        elif value.__module__ == module.__name__:
            yield from ((f"{name}.{key}", item) for key, item in vars(value).items())


def defines(module: ModuleType, name: str) -> bool:
    """Whether a module defines a name, rather than imports it."""
    at_start = rf"^(def )?{name}\b"
    return "." in name or re.search(at_start, inspect.getsource(module), re.M) is not None


def file_of(module: ModuleType) -> str:
    """The path of a module in the repository."""
    path = module.__name__.removeprefix("runnel.").replace(".", "/") + ".py"
    return path if path.startswith(("planner/", "connectors/")) else f"engine/{path}"
