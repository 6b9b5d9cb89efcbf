"""The plan cache: plans by text, search path and parameter types, with LRU eviction.

A plan is valid while every catalog object that it depends on has the version it had. Snapshots of
the catalog are numbered: once a plan was found valid for a snapshot, it is not checked again until
the catalog changes.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

from runnel.base.frozen import frozen
from runnel.catalog import Snapshot, dependency_version
from runnel.errors import InterfaceError
from runnel.planner.environment import PlanSettings
from runnel.planner.plans import Plan
from runnel.sqltypes import SqlType


class PlanKey(NamedTuple):
    """Everything besides the catalog that a plan depends on.

    sql: the text of the statement.
    search_path: the schemas in which names are looked up.
    types: the types of the arguments as passed.
    is_confined: whether the plan was made for a caller whose access to files is restricted.
    settings: the settings of the session that change plans.
    """

    sql: str
    search_path: tuple[str, ...]
    types: tuple[SqlType, ...]
    is_confined: bool = False
    settings: PlanSettings = PlanSettings()


@frozen
class CachedPlan:
    """A row of SHOW PLANS.

    key: the text and the environment that the plan was made for.
    plan: the plan.
    uses: how often the plan was run or found, including the statement that created it.
    """

    key: PlanKey
    plan: Plan
    uses: int


@frozen
class CacheStatistics:
    """The size of the cache, and counts since it was created.

    size: number of plans in the cache.
    capacity: maximum number of plans in the cache.
    hits: look-ups that found a valid plan.
    misses: look-ups that found none, or one that was no longer valid.
    evictions: plans removed for lack of room, by `resize` or by `clear`.
    invalidations: plans removed because an object that they used has changed.
    """

    size: int
    capacity: int
    hits: int
    misses: int
    evictions: int
    invalidations: int


class _Entry:
    __slots__ = ("key", "plan", "uses", "version")

    def __init__(self, key: PlanKey, plan: Plan, version: int) -> None:
        self.key = key
        self.plan = plan
        self.version = version
        self.uses = 1


class PlanCache:
    """At most `capacity` plans; a capacity of 0 stores none. Thread-safe."""

    def __init__(self, capacity: int) -> None:
        self._lock = Lock()
        self._entries: dict[PlanKey, _Entry] = {}
        # The entries by last use, oldest first. An entry is hashed by identity: a look-up that
        # finds a plan hashes its key, which contains types and settings, once and not twice.
        self._by_use: OrderedDict[_Entry, None] = OrderedDict()
        self._capacity = _checked(capacity)
        self._hits = self._misses = self._evictions = self._invalidations = 0

    def get(self, key: PlanKey, snapshot: Snapshot) -> Plan | None:
        """Returns the plan for `key` if it is cached and valid for this snapshot of the catalog."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and (
                entry.version == snapshot.version or self._is_valid(entry, key, snapshot)
            ):
                self._by_use.move_to_end(entry)
                entry.uses += 1
                self._hits += 1
                return entry.plan
            self._misses += 1
            return None

    def _is_valid(self, entry: _Entry, key: PlanKey, snapshot: Snapshot) -> bool:
        """Compares the versions of all dependencies.

        An invalid plan is removed, unless the snapshot is older than the one that the plan was
        made for.
        """
        is_newer = snapshot.version > entry.version
        for item in entry.plan.dependencies:
            if dependency_version(snapshot, item.kind, item.name) != item.version:
                if is_newer:
                    self._remove(entry)
                    self._invalidations += 1
                return False
        if is_newer:
            entry.version = snapshot.version
        return True

    def put(self, key: PlanKey, plan: Plan, snapshot: Snapshot) -> None:
        """Stores a plan that was made for `snapshot`.

        Does nothing if the plan is not cacheable, or if a plan for a later snapshot is stored.
        """
        if not plan.is_cacheable:
            return
        with self._lock:
            known = self._entries.get(key)
            if self._capacity == 0 or (known is not None and known.version > snapshot.version):
                return
            if known is not None:
                self._remove(known)
            entry = self._entries[key] = _Entry(key, plan, snapshot.version)
            self._by_use[entry] = None
            self._shrink()

    def _remove(self, entry: _Entry) -> None:
        del self._entries[entry.key], self._by_use[entry]

    def resize(self, capacity: int) -> None:
        """Changes the capacity and evicts the least recently used plans above it."""
        with self._lock:
            self._capacity = _checked(capacity)
            self._shrink()

    def _shrink(self) -> None:
        while len(self._entries) > self._capacity:
            self._remove(next(iter(self._by_use)))
            self._evictions += 1

    def clear(self) -> None:
        """Evicts all plans."""
        with self._lock:
            self._evictions += len(self._entries)
            self._entries.clear()
            self._by_use.clear()

    def entries(self) -> list[CachedPlan]:
        """The cached plans, most recently used first."""
        with self._lock:
            return [
                CachedPlan(entry.key, entry.plan, entry.uses) for entry in reversed(self._by_use)
            ]

    def statistics(self) -> CacheStatistics:
        with self._lock:
            return CacheStatistics(
                size=len(self._entries),
                capacity=self._capacity,
                hits=self._hits,
                misses=self._misses,
                evictions=self._evictions,
                invalidations=self._invalidations,
            )

    def __len__(self) -> int:
        return len(self._entries)


def _checked(capacity: int) -> int:
    if capacity < 0:
        raise InterfaceError(
            f"the size of the plan cache can't be {capacity}", hint="0 disables the cache"
        )
    return capacity
