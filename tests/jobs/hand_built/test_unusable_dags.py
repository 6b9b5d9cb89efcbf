"""Hand-built DAGs with suppliers and arguments that cannot be used: errors, never from inside."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import runnel
from runnel.dag import DAG, Edge, Vertex
from runnel.named_jobs.hand_built.dag_record import dag_from_json, dag_to_json
from runnel.storage.value_codec import decode, encode
from tests.jobs.hand_built import odd_values


@pytest.fixture
def connection() -> Iterator[runnel.Connection]:
    with runnel.connect() as made:
        yield made


def single(supplier: Any, parallelism: Any = None) -> DAG:
    dag = DAG()
    dag.vertex("a", supplier, parallelism)
    return dag


def recursive() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("made", "detail"),
    [
        (recursive, "it has a value that is nested too deeply, or contains itself"),
        (lambda: 10**5000, "it has an integer of 16,610 bits, more than 14,000"),
        (odd_values.Strict, "it has a value of class Strict"),
        (lambda: odd_values.Point(1, 2), "class Point, which would be read as a tuple: convert it"),
        (lambda: defaultdict(list), "it has a value of class defaultdict, which would be read as"),
        (
            lambda: [OrderedDict()],
            "it has a value of class OrderedDict, which would be read as a di",
        ),
        (lambda: Counter("ab"), "it has a value of class Counter, which would be read as a dict"),
        (lambda: "x" * (2 << 20), "its stored form has 2,097,2"),
        (lambda: [list(range(9)) for _ in range(70_000)], "more than 2,097,152"),
    ],
    ids=[
        *("recursive", "long integer", "own __getattr__", "namedtuple", "defaultdict"),
        *("OrderedDict", "Counter", "long text", "long list"),
    ],
)
def test_arguments_that_have_no_stored_form(
    connection: runnel.Connection, made: Callable[[], Any], detail: str
) -> None:
    dag = single(partial(odd_values.processor, made()))
    with pytest.raises(runnel.ProgrammingError, match='the supplier of vertex "a"') as caught:
        connection.submit(dag, name="j", guarantee="exactlyOnce")
    assert detail in str(caught.value.detail)
    assert caught.value.hint is not None
    assert connection.jobs() == []


@pytest.mark.parametrize(
    "value",
    [
        odd_values.Colour.RED | odd_values.Colour.BLUE,
        odd_values.Colour(0),
        odd_values.Colour.RED,
        odd_values.Uncomparable,
        10**4000,
    ],
    ids=["flags", "no flag", "flag", "class", "integer"],
)
def test_arguments_that_have_a_stored_form(value: Any) -> None:
    assert decode(encode(value)) is value or decode(encode(value)) == value


def test_a_stored_value_of_an_unknown_form() -> None:
    stored = dag_to_json(single(partial(odd_values.processor, 1.5)))
    ((_, values, _),) = stored["vertices"][0]["supplier"].values()
    assert list(values[0]) == ["float"]
    values[0] = {"quaternion": "1"}
    with pytest.raises(runnel.OperationalError) as caught:
        dag_from_json(stored)
    assert caught.value.message == 'the supplier of vertex "a" can\'t be read'
    assert caught.value.detail == 'a value has the unknown form "quaternion"'
    assert "a newer version of Runnel" in str(caught.value.hint)


def test_two_vertices_of_one_name(connection: runnel.Connection) -> None:
    dag = single(odd_values.processor)
    with pytest.raises(runnel.ProgrammingError, match='"a" exists already in this DAG') as caught:
        dag.vertex("a", odd_values.processor)
    assert caught.value.hint == "give each vertex its own name"
    for options in ({}, {"name": "j", "guarantee": "exactlyOnce"}):
        twice = DAG({"a": dag.vertices["a"], "b": Vertex("a", odd_values.processor)}, [])
        with pytest.raises(runnel.ProgrammingError, match='has vertex "a" under the name "b"'):
            connection.submit(twice, **options)
        unknown = DAG(dict(dag.vertices), [Edge("a", "c")])
        with pytest.raises(runnel.ProgrammingError, match='unknown vertex "c"'):
            connection.submit(unknown, **options)
    assert connection.jobs() == []


def test_a_number_of_numpy_is_stored_as_a_float() -> None:
    assert decode(encode(np.float64(1.5))) == 1.5


@pytest.mark.parametrize("guarantee", [None, "exactlyOnce"])
@pytest.mark.parametrize(
    ("supplier", "message", "detail"),
    [
        (odd_values.nothing, "a supplier returned a value of class NoneType", 'in vertex "a"'),
        (odd_values.ends, 'vertex "a" failed: SystemExit: 3', 'in vertex "a"'),
    ],
)
def test_suppliers_that_return_no_processor(
    connection: runnel.Connection, guarantee: Any, supplier: Any, message: str, detail: str
) -> None:
    with pytest.raises(runnel.OperationalError, match=message) as caught:
        connection.submit(single(supplier), name="j", guarantee=guarantee).join()
    assert caught.value.detail == detail


def test_a_dataclass_that_ends_the_program(connection: runnel.Connection) -> None:
    supplier = odd_values.Ending(1)
    supplier.number = 99
    with pytest.raises(runnel.OperationalError, match="can't be imported") as caught:
        connection.submit(single(supplier), name="j", guarantee="exactlyOnce").join()
    assert caught.value.detail == "SystemExit: 2"


@pytest.mark.parametrize("supplier", [None, 3])
def test_values_that_are_no_suppliers(supplier: Any) -> None:
    with pytest.raises(runnel.InterfaceError, match="can't be a value of class"):
        single(supplier)


@pytest.mark.parametrize("parallelism", ["2", 2.0, 0])
def test_parallelism_that_is_no_number(parallelism: Any) -> None:
    with pytest.raises(runnel.ProgrammingError, match="must be at least 1, not") as caught:
        single(odd_values.processor, parallelism)
    assert caught.value.hint is not None


def test_options_that_are_no_mapping(connection: runnel.Connection) -> None:
    options: Any = ["x"]
    with pytest.raises(runnel.InterfaceError, match="options can't be a value of class list"):
        connection.submit(single(odd_values.processor), name="j", guarantee="none", options=options)


def test_an_update_without_a_dag(connection: runnel.Connection) -> None:
    connection.execute(
        "CREATE MAPPING m (__key BIGINT, this BIGINT) TYPE IMap "
        "OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'bigint')"
    )
    connection.execute(
        "CREATE JOB j AS SINK INTO m SELECT v, v FROM TABLE(GENERATE_STREAM(1)) t(v)"
    )
    with pytest.raises(runnel.InterfaceError, match="a DAG can't be a value of class str"):
        connection.job("j").update("x")  # type: ignore[arg-type]
