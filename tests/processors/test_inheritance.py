"""Processors share code by parts that they own, and by one base class at most."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from runnel import processors
from runnel.processor import ROLES, Processor

DEEPEST = 3
"""`Processor`, one shared base, and the class."""

DEEPER = {
    "CoGroupProcessor": "KeyedOperations with several inputs",
    "FramedAggregateProcessor": "time_windows will be rewritten",
    "JoinStep": "a hash join that checks its columns",
}
"""Classes that are deeper: why."""


def all_processors(kind: type[Processor] = Processor) -> Iterator[type[Processor]]:
    for item in kind.__subclasses__():
        if item.__module__.startswith((processors.__name__, Processor.__module__)):
            yield item
            yield from all_processors(item)


def depth(kind: type) -> int:
    """The number of classes from `Processor` to this one. Roles have no bases, and do not count."""
    if kind is Processor:
        return 1
    return 1 + max(depth(base) for base in kind.__bases__ if issubclass(base, Processor))


def test_processors_inherit_from_one_shared_base_at_most() -> None:
    for module in pkgutil.walk_packages(processors.__path__, f"{processors.__name__}."):
        importlib.import_module(module.name)
    found = {kind.__name__: depth(kind) for kind in all_processors()}
    assert len(found) > 40
    assert {name for name, count in found.items() if count > DEEPEST} == DEEPER.keys()


def test_roles_have_no_bases() -> None:
    assert all(role.__bases__ == (object,) for role in ROLES)
