"""What all tests share."""

from __future__ import annotations

import gc
import signal
from collections.abc import Generator, Iterator
from typing import Any

import pytest

import runnel


def pytest_configure() -> None:
    """What a shell starts in the background doesn't hear Ctrl-C, which tests send."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays: the garbage collector needn't look at it, neither meanwhile nor with
    each of its runs later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """What is there between two files mostly stays: modules, tables of functions, syntax trees. By
    the end of the suite, each run of the garbage collector over all of it would take seconds, and
    tests that count memory ask for many."""
    done = yield
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()
    return done


@pytest.fixture
def connection() -> Iterator[runnel.Connection]:
    """A connection in memory, closed afterwards."""
    with runnel.connect() as made:
        yield made


@pytest.fixture
def cursor(connection: runnel.Connection) -> runnel.Cursor:
    """A cursor of `connection`."""
    return connection.cursor()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """In the process that deals tests out."""
    if config.getvalue("dist") != "loadfile":
        return None
    from tests.distribution import Scheduling

    config.option.loadscopereorder = False
    return Scheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a process that is dealt tests."""
    if hasattr(config, "workerinput"):
        from tests.distribution import longest_first

        longest_first(items)
