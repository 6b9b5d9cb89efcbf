"""What a forked process does with the connections that its parent opened: nothing.

After `os.fork()` the child has copies of all objects, but no thread besides the one that forked. A
lock that another thread held stays locked, files and sockets are shared with the parent, and
finalizers would end what the parent still uses. So in the child:

- each watched object is told by `leave`: it takes no lock, closes the descriptors that the child
  must not share, and refuses calls from then on;
- each watched object is pinned: neither it nor what it refers to is ever collected, so that no
  destructor runs (DuckDB's writes a checkpoint and joins threads, a buffered file writes what the
  parent writes too);
- what was registered by `finalizer` isn't called.

A child opens connections of its own. Nothing of this costs anything in a process that doesn't fork.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from importlib import _bootstrap, import_module
from typing import Any, Protocol, TypeVar

from runnel.deadline import PatientLock
from runnel.errors import InterfaceError

T = TypeVar("T")


class Watched(Protocol):
    """What belongs to the process that made it."""

    def leave(self) -> None:
        """Called in a forked child, and in a child of that: no call may touch the parent's threads,
        files or sockets from here on. Takes no lock, and doesn't fail."""


class Origin:
    """The process in which something was made. `is_left`: this process is a child of that one."""

    __slots__ = ("is_left",)

    def __init__(self) -> None:
        self.is_left = False

    def check(self) -> None:
        """InterfaceError in a child of the process."""
        if self.is_left:
            raise closed_error(self)


class SharedLock:
    """A PatientLock for all connections of a process. A forked child has one of its own, which is
    free."""

    def __init__(self, held: str) -> None:
        self._held = held
        self._lock = PatientLock(held)
        watch(self)

    def leave(self) -> None:
        self._lock = PatientLock(self._held)

    def __enter__(self) -> None:
        self._lock.__enter__()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


def here() -> Origin:
    """This process."""
    return _origins[-1]


def closed_error(origin: Origin) -> InterfaceError:
    """The error of a call on a connection that is closed, or that another process opened."""
    if origin.is_left:
        return InterfaceError(
            "the connection is closed: it belongs to the process that this one was forked from",
            hint="open a connection of this process with runnel.connect(), after the fork",
        )
    return InterfaceError("the connection is closed", hint="open a new one with runnel.connect()")


def watch(item: Watched) -> None:
    """Has `item.leave` called in a forked child, while the item exists, and the item pinned
    there."""
    # Loaded here, in the parent: a child must not wait for an import that a thread of the parent
    # had begun.
    import ctypes  # noqa: F401

    _watched.add(item)


def finalizer(owner: T, function: Callable[..., Any], *arguments: Any) -> weakref.finalize[..., T]:
    """A `weakref.finalize` that a forked child doesn't call."""
    return weakref.finalize(owner, _call_here, here(), function, arguments)


def pin(item: object) -> None:
    """Keeps an object, and what it refers to, until the process ends, and beyond: its destructor
    never runs."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(item))


def _call_here(origin: Origin, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    if not origin.is_left:
        function(*arguments)


def _finish_imports() -> None:
    """Before a fork: waits for modules of ours that other threads import just now, and for what
    they import in turn."""
    for _ in range(_MOST_IMPORTS):
        names = _half_imported()
        if not names:
            return
        for name in names:
            with suppress(Exception):  # it is raised where it was asked for
                import_module(name)


def _forget_imports() -> None:
    """In the child: what was begun after that look is to be imported again, by nobody's lock.
    Python leaves it locked."""
    for name in _half_imported():
        del sys.modules[name]
    locks: dict[str, object] = getattr(_bootstrap, "_module_locks", {})
    for name in list(locks):
        if name.startswith("runnel."):
            locks.pop(name, None)


def _half_imported() -> list[str]:
    return [
        name
        for name, module in list(sys.modules.items())
        if name.startswith("runnel.")
        and getattr(getattr(module, "__spec__", None), "_initializing", False)
    ]


def _enter_child() -> None:
    _forget_imports()
    _origins[-1].is_left = True
    _origins.append(Origin())
    items = list(_watched)
    for item in items:
        # First, so that nothing of it is destroyed whatever happens after that.
        pin(item)
    failure: BaseException | None = None
    for item in items:
        try:
            item.leave()
        except BaseException as error:  # one that fails must not keep the others from leaving
            failure = failure or error
    if failure is not None:
        raise failure  # Python reports it, and goes on


_MOST_IMPORTS = 100
"""A fork waits for so many imports, one after the other."""

_origins = [Origin()]
"""This process, after those that it was forked from."""
_watched: weakref.WeakSet[Watched] = weakref.WeakSet()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_finish_imports, after_in_child=_enter_child)
