"""The syntax trees of source files, for tests that read the whole product."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """Trees have no cycles, but so many objects that the garbage collector would run hundreds of
    times meanwhile, each time over all that the tests of a process hold."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def nodes_of(text: str) -> list[ast.AST]:
    """The nodes of the tree of a source text as from `ast.walk`, which takes longer."""
    with without_collector():
        nodes: list[ast.AST] = [ast.parse(text)]
        for node in nodes:
            for value in node.__dict__.values():
                if isinstance(value, ast.AST):
                    nodes.append(value)
                elif value.__class__ is list:
                    nodes.extend(item for item in value if isinstance(item, ast.AST))
        return nodes


def lasting_tree(text: str) -> ast.Module:
    """The tree of a source text that is kept to the end of the process: later runs of the garbage
    collector pass it over."""
    with without_collector():
        tree = ast.parse(text)
        gc.freeze()
        return tree
