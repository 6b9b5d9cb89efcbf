"""Disables, in a forked process, the connections that its parent opened.

After `os.fork()` the child has copies of all objects, but only the thread that forked. A lock that
another thread held stays locked, files and sockets are shared with the parent, and finalizers would
release resources that the parent still uses. Therefore in the child:

- `leave` is called for each watched object: it acquires no lock, closes the descriptors that the
  child must not share, and makes the object refuse calls from then on;
- each watched object is pinned: neither the object nor anything that it refers to is ever
  collected, so that no destructor runs (the destructor of DuckDB writes a checkpoint and joins
  threads; a buffered file would write data that the parent writes too);
- functions that were registered by `finalizer` are not called.

A child opens connections of its own. A process that doesn't fork pays nothing for this.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from importlib import _bootstrap, import_module
from typing import Any, Protocol, TypeVar

from runnel.deadline import DeadlineLock
from runnel.errors import InterfaceError

T = TypeVar("T")


class Watched(Protocol):
    """An object that belongs to the process that created it."""

    def leave(self) -> None:
        """Called in a forked child, and in each child of that child.

        From then on no call may touch the threads, files or sockets of the parent. Must not acquire
        a lock, and must not fail.
        """


class ProcessOrigin:
    """The process in which an object was created.

    is_left: whether the current process is a child of that process.
    """

    __slots__ = ("is_left",)

    def __init__(self) -> None:
        self.is_left = False

    def check(self) -> None:
        """Raise InterfaceError in a child of the process."""
        if self.is_left:
            raise closed_error(self)


class SharedLock:
    """A PatientLock that all connections of a process share; in a forked child it is free."""

    def __init__(self, waiting_for: str) -> None:
        self._waiting_for = waiting_for
        self._lock = DeadlineLock(waiting_for)
        watch(self)

    def leave(self) -> None:
        self._lock = DeadlineLock(self._waiting_for)

    def __enter__(self) -> None:
        self._lock.__enter__()

    def __exit__(self, *error: object) -> None:
        self._lock.release()


def here() -> ProcessOrigin:
    """Return the current process."""
    return _origins[-1]


def closed_error(origin: ProcessOrigin) -> InterfaceError:
    """Return the error of a call on a connection that is closed or that another process opened."""
    if origin.is_left:
        return InterfaceError(
            "the connection is closed: it belongs to the process that this one was forked from",
            hint="open a connection of this process with runnel.connect(), after the fork",
        )
    return InterfaceError("the connection is closed", hint="open a new one with runnel.connect()")


def watch(item: Watched) -> None:
    """Register an object: a forked child calls `item.leave` and pins the item.

    The registration ends when the item is collected.
    """
    # Imported here, in the parent, for `pin`: a child must not wait for an import that a thread of
    # the parent had begun.
    import ctypes  # noqa: F401

    _watched.add(item)


def finalizer(owner: T, function: Callable[..., Any], *arguments: Any) -> weakref.finalize[..., T]:
    """Return a `weakref.finalize` whose function a forked child doesn't call."""
    return weakref.finalize(owner, _call_here, here(), function, arguments)


def pin(item: object) -> None:
    """Keep an object, and all that it refers to, alive so that no destructor ever runs.

    The destructor doesn't run at the end of the process either.
    """
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(item))


def _call_here(
    origin: ProcessOrigin, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    if not origin.is_left:
        function(*arguments)


def _finish_imports() -> None:
    """Before a fork: wait for the modules of Runnel that other threads are importing.

    That includes the modules that these import in turn.
    """
    for _ in range(_MOST_IMPORTS):
        names = _half_imported()
        if not names:
            return
        for name in names:
            with suppress(Exception):  # the thread that began the import raises it
                import_module(name)


def _forget_imports() -> None:
    """In the child: forget the imports that began after `_finish_imports` looked for them.

    Such a module is imported again. Python leaves its import lock locked, so the lock is removed.
    """
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
    _origins.append(ProcessOrigin())
    items = list(_watched)
    for item in items:
        # Pinned first, so that it isn't destroyed even if a `leave` fails.
        pin(item)
    failure: BaseException | None = None
    for item in items:
        try:
            item.leave()
        except BaseException as error:  # a failure must not keep other items from leaving
            failure = failure or error
    if failure is not None:
        raise failure  # Python prints it and continues


_MOST_IMPORTS = 100
"""Maximum number of rounds in which a fork waits for imports, as each may start further ones."""

_origins = [ProcessOrigin()]
"""The processes that this one descends from, outermost first, and this process last."""
_watched: weakref.WeakSet[Watched] = weakref.WeakSet()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_finish_imports, after_in_child=_enter_child)
