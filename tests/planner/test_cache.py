"""The plan cache: what keeps a plan, what makes it invalid, what puts it out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from runnel.catalog import (
    Catalog,
    Dependency,
    Index,
    Mapping,
    Registration,
    Snapshot,
    Table,
    View,
    dependency_version,
)
from runnel.errors import InterfaceError
from runnel.planner.cache import PlanCache, PlanKey
from runnel.planner.plans import Plan, ShowPlan
from runnel.sqltypes import BIGINT, VARCHAR


class Nothing(Table):
    """A table without columns."""

    name = "nothing"
    connector = "test"
    columns = ()

    def row_count(self) -> int | None:
        return 0


def mapping(name: str) -> Mapping:
    return Mapping(name, "test", Nothing(), {}, None)


def key(sql: str = "select 1", *types: object) -> PlanKey:
    return PlanKey(sql, ("public",), types)  # type: ignore[arg-type]


def plan_over(snapshot: Snapshot, *names: str, indexes: bool = False) -> Plan:
    """A plan that used objects of the catalog, and perhaps their indexes."""
    kinds = ("object", "indexes") if indexes else ("object",)
    used = tuple(
        Dependency(kind, name, dependency_version(snapshot, kind, name))
        for name in names
        for kind in kinds
    )
    return ShowPlan(what="jobs", dependencies=used, is_cacheable=True)


@pytest.fixture
def catalog() -> Catalog:
    made = Catalog()
    made.put(mapping("m"))
    made.put(View("v", "select 1", ()))
    made.put(Registration("r", Nothing()))
    made.put_index(Index("i", "m", ("a",), "hash"))
    return made


def test_a_hit_gives_the_same_plan(catalog: Catalog) -> None:
    cache = PlanCache(10)
    plan = plan_over(catalog.snapshot, "m", "v")
    assert cache.get(key(), catalog.snapshot) is None
    cache.put(key(), plan, catalog.snapshot)
    assert cache.get(key(), catalog.snapshot) is plan
    found = cache.statistics()
    assert (found.hits, found.misses, found.size, found.capacity) == (1, 1, 1, 10)


def test_the_key_is_text_path_and_types(catalog: Catalog) -> None:
    cache = PlanCache(10)
    cache.put(key("select ?", BIGINT), plan_over(catalog.snapshot), catalog.snapshot)
    assert cache.get(key("select ?", BIGINT), catalog.snapshot) is not None
    assert cache.get(key("select ?", VARCHAR), catalog.snapshot) is None
    assert cache.get(key("select  ?", BIGINT), catalog.snapshot) is None
    assert cache.get(PlanKey("select ?", ("other",), (BIGINT,)), catalog.snapshot) is None


CHANGES = {
    "mapping replaced": lambda c: c.put(mapping("m")),
    "mapping replaced, other case": lambda c: c.put(mapping("M")),
    "mapping dropped": lambda c: c.remove("m"),
    "mapping dropped and made again": lambda c: (c.remove("m"), c.put(mapping("m"))),
    "view replaced": lambda c: c.put(View("v", "select 2", ())),
    "view replaced by the same text": lambda c: c.put(View("v", "select 1", ())),
    "view dropped": lambda c: c.remove("v"),
    "registration replaced": lambda c: c.put(Registration("r", Nothing())),
    "registration dropped": lambda c: c.remove("r"),
    "view in the place of a registration": lambda c: c.put(View("r", "select 1", ())),
    "index added": lambda c: c.put_index(Index("j", "m", ("b",), "sorted")),
    "index dropped": lambda c: c.remove_index("i"),
    "index replaced": lambda c: c.put_index(Index("i", "m", ("a",), "hash")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_what_it_names_makes_a_plan_invalid(catalog: Catalog, name: str) -> None:
    cache = PlanCache(10)
    cache.put(key(), plan_over(catalog.snapshot, "m", "v", "r", indexes=True), catalog.snapshot)
    assert cache.get(key(), catalog.snapshot) is not None
    CHANGES[name](catalog)
    assert cache.get(key(), catalog.snapshot) is None
    found = cache.statistics()
    assert (found.invalidations, found.size, found.misses) == (1, 0, 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.put(mapping("other")),
        lambda c: c.put_index(Index("j", "other", ("a",), "hash")),
        lambda c: c.remove("nothing there"),
        lambda c: c.put(View("v2", "select 1", ())),
    ],
)
def test_other_changes_leave_it_valid(catalog: Catalog, change: object) -> None:
    cache = PlanCache(10)
    plan = plan_over(catalog.snapshot, "m", "v", "r", indexes=True)
    cache.put(key(), plan, catalog.snapshot)
    change(catalog)  # type: ignore[operator]
    assert cache.get(key(), catalog.snapshot) is plan
    assert cache.get(key(), catalog.snapshot) is plan
    assert cache.statistics().invalidations == 0


def test_an_older_snapshot_does_not_put_a_newer_plan_out(catalog: Catalog) -> None:
    cache = PlanCache(10)
    older = catalog.snapshot
    stale = plan_over(older, "m")
    catalog.put(mapping("m"))
    newer = catalog.snapshot
    plan = plan_over(newer, "m")
    cache.put(key(), plan, newer)
    assert cache.get(key(), older) is None
    cache.put(key(), stale, older)
    assert cache.get(key(), newer) is plan
    assert cache.statistics().invalidations == 0


def test_what_is_not_cacheable_is_not_kept(catalog: Catalog) -> None:
    cache = PlanCache(10)
    cache.put(key(), replace(plan_over(catalog.snapshot), is_cacheable=False), catalog.snapshot)
    assert len(cache) == 0


def test_the_least_recently_used_goes_first(catalog: Catalog) -> None:
    cache = PlanCache(3)
    for sql in ("a", "b", "c"):
        cache.put(key(sql), plan_over(catalog.snapshot), catalog.snapshot)
    cache.get(key("a"), catalog.snapshot)
    cache.put(key("d"), plan_over(catalog.snapshot), catalog.snapshot)
    assert [entry.key.sql for entry in cache.entries()] == ["d", "a", "c"]
    assert [entry.uses for entry in cache.entries()] == [1, 2, 1]
    assert cache.statistics().evictions == 1


def test_resize_and_clear(catalog: Catalog) -> None:
    cache = PlanCache(5)
    for sql in "abcde":
        cache.put(key(sql), plan_over(catalog.snapshot), catalog.snapshot)
    cache.resize(2)
    assert [entry.key.sql for entry in cache.entries()] == ["e", "d"]
    assert cache.statistics().evictions == 3
    cache.clear()
    assert len(cache) == 0 and cache.statistics().evictions == 5


def test_size_zero_keeps_nothing(catalog: Catalog) -> None:
    cache = PlanCache(0)
    cache.put(key(), plan_over(catalog.snapshot), catalog.snapshot)
    assert cache.get(key(), catalog.snapshot) is None
    with pytest.raises(InterfaceError, match="the size of the plan cache can't be -1"):
        cache.resize(-1)
    with pytest.raises(InterfaceError):
        PlanCache(-1)


def test_many_threads(catalog: Catalog) -> None:
    cache = PlanCache(8)

    def work(seed: int) -> int:
        found = 0
        for i in range(300):
            sql = str((seed * 7 + i) % 12)
            snapshot = catalog.snapshot
            plan = cache.get(key(sql), snapshot)
            if plan is None:
                cache.put(key(sql), plan_over(snapshot, "m"), snapshot)
            else:
                assert plan.dependencies[0].version == dependency_version(snapshot, "object", "m")
                found += 1
            if i % 50 == 0:
                catalog.put(mapping("m"))
        return found

    with ThreadPoolExecutor(4) as pool:
        hits = sum(pool.map(work, range(4)))
    found = cache.statistics()
    assert found.hits == hits and found.hits + found.misses == 1200
    assert found.size <= 8
