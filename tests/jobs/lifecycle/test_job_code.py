"""The code of a job: packages and archives, and names that only this job sees."""

from __future__ import annotations

import gc
import pickle
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from weakref import ref
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

import runnel
from runnel import JobStatus
from runnel.processors.library import counting
from runnel.processors.library.accumulators import AccumulatorCodec
from runnel.session.job_code.isolated import JobCode
from runnel.session.job_code.sources import read_sources
from tests.jobs.hand_built import steps
from tests.jobs.lifecycle.test_create_job import MAP, PATIENCE
from tests.jobs.named import World
from tests.waiting import eventually

REGISTER = """
def register(connection):
    connection.create_function("change", change, ["BIGINT"], "BIGINT", type="arrow")
"""
HELPERS = {
    "shop/__init__.py": (
        "import shop.prices\n"
        "from shop import prices as same\n"
        "from . import prices\n"
        "from .deep.rates import RATE\n"
        "assert shop.prices is same is prices\n\n"
        "def change(column):\n"
        "    from shop.deep import rates\n"
        "    return prices.times(column, RATE + rates.RATE)\n" + REGISTER
    ),
    "shop/prices.py": (
        "import pyarrow.compute as pc\n\ndef times(column, n):\n    return pc.multiply(column, n)\n"
    ),
    "shop/deep/rates.py": (
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n\n"
        "@dataclass\n"
        "class Rate:\n"
        "    value: int = 3\n\n"
        "RATE = Rate().value\n"
    ),
}


@pytest.fixture
def connection() -> Iterator[runnel.Connection]:
    with runnel.connect() as made:
        made.execute(f"CREATE MAPPING m {MAP}")
        yield made


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def archive(path: Path, files: dict[str, str]) -> Path:
    with ZipFile(path, "w") as target:
        for name, text in files.items():
            target.writestr(name, text)
    return path


def run(connection: runnel.Connection, name: str, modules: object, offset: int = 0) -> list[Any]:
    """The values that a job with these modules writes for 1, 2, 3."""
    connection.execute(
        f"CREATE JOB {name} OPTIONS ('modules'='{modules}') AS SINK INTO m "
        f"SELECT v + {offset}, change(v) FROM TABLE(GENERATE_SERIES(1, 3)) AS t(v)"
    )
    connection.job(name).join(PATIENCE)
    found = connection.execute(
        f"SELECT this FROM m WHERE __key > {offset} AND __key < {offset + 4} ORDER BY __key"
    )
    return [value for (value,) in found]


def test_a_package(connection: runnel.Connection, tmp_path: Path) -> None:
    folder = written(tmp_path, HELPERS)
    assert run(connection, "j", folder / "shop") == [6, 12, 18]


@pytest.mark.parametrize("suffix", [".zip", ".whl"])
def test_an_archive(connection: runnel.Connection, tmp_path: Path, suffix: str) -> None:
    files = {**HELPERS, "shop-1.dist-info/METADATA": "Name: shop", "readme.txt": "-"}
    path = archive(tmp_path / f"shop{suffix}", files)
    assert run(connection, "j", path) == [6, 12, 18]
    assert not [name for name in sys.modules if name == "shop"]


def test_a_module_and_the_module_that_it_imports(
    connection: runnel.Connection, tmp_path: Path
) -> None:
    main = "import other\n\ndef change(column):\n    return other.same(column)\n" + REGISTER
    written(tmp_path, {"main.py": main, "other.py": "def same(column):\n    return column\n"})
    assert run(connection, "j", f"{tmp_path}/main.py, {tmp_path}/other.py") == [1, 2, 3]


def test_modules_of_the_same_name_in_two_jobs(
    connection: runnel.Connection, tmp_path: Path
) -> None:
    text = (
        "import pyarrow.compute as pc\n\ndef change(column):\n    return pc.multiply(column, {})\n"
    )
    one = written(tmp_path / "one", {"rates.py": text.format(2) + REGISTER}) / "rates.py"
    two = written(tmp_path / "two", {"rates.py": text.format(5) + REGISTER}) / "rates.py"
    connection.create_function("change", lambda column: column, ["BIGINT"], "BIGINT")
    assert run(connection, "one", one) == [2, 4, 6]
    assert run(connection, "two", two, 10) == [5, 10, 15]
    assert connection.execute("SELECT change(7)").fetchall() == [(7,)]


def test_another_query_of_the_job_has_its_functions(
    connection: runnel.Connection, tmp_path: Path
) -> None:
    text = "def change(column):\n    return column\n" + REGISTER
    path = written(tmp_path, {"same.py": text}) / "same.py"
    create = (
        f"CREATE JOB j OPTIONS ('modules'='{path}') AS SINK INTO m "
        "SELECT v, change(v) FROM TABLE(GENERATE_STREAM(50))"
    )
    assert connection.execute(f"EXPLAIN {create}").fetchall()
    connection.execute(create)
    path.unlink()
    another = "ALTER JOB j AS SINK INTO m SELECT v, change(v + 1) FROM TABLE(GENERATE_STREAM(50))"
    assert connection.execute(f"EXPLAIN {another}").fetchall()
    connection.execute(another, timeout=PATIENCE)
    assert connection.job("j").status is JobStatus.RUNNING


def test_a_dag_with_the_code_of_its_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, {"own_steps.py": "from tests.jobs.hand_built.steps import Adder as Mine\n"})
    text = "from tests.jobs.hand_built.steps import Adder\n\n\nclass Mine(Adder):\n    pass\n"
    path = written(tmp_path, {"own_steps.py": text}) / "own_steps.py"
    monkeypatch.syspath_prepend(str(tmp_path))
    import own_steps  # type: ignore[import-not-found]

    steps.WORLDS["w"] = world = World()
    dag = steps.sums("w", partial(own_steps.Mine, 0))
    with runnel.connect(tmp_path / "db") as connection:
        connection.submit(dag, name="j", guarantee="exactlyOnce", options={"modules": str(path)})
        world.give(4)
    path.unlink()
    monkeypatch.delitem(sys.modules, "own_steps")
    with runnel.connect(tmp_path / "db") as connection:
        world.give(5, ends=True)
        connection.job("j").join(PATIENCE)
    assert world.rows == [0, 1, 3, 6, 10]


SUM = """
from dataclasses import dataclass

import pyarrow.compute as pc

from runnel.processors.library import AggregateOperation


@dataclass
class Sum:
    total: int = 0


def added(known, rows):
    return Sum(known.total + pc.sum(rows.column("x")).as_py())


def merged(one, other):
    return Sum(one.total + other.total)


def exported(known):
    return known.total


SUMS = AggregateOperation(create=Sum, accumulate=added, combine=merged, export=exported)
"""


def test_accumulators_of_a_class_of_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, {"own_sums.py": SUM}) / "own_sums.py"
    monkeypatch.syspath_prepend(str(tmp_path))
    import own_sums  # type: ignore[import-not-found]

    steps.WORLDS["w"] = world = World()
    dag = steps.groups("w", own_sums.SUMS, 2)
    with runnel.connect(tmp_path / "db") as connection:
        job = connection.submit(
            dag, name="j", guarantee="exactlyOnce", options={"modules": str(path)}
        )
        world.give(4)
        assert eventually(lambda: job.rows_in == 4)
        job.suspend()
        assert job.error is None
    path.unlink()
    monkeypatch.delitem(sys.modules, "own_sums")
    with runnel.connect(tmp_path / "db") as connection:
        connection.job("j").resume()
        world.give(5, ends=True)
        connection.job("j").join(PATIENCE)
    assert world.rows == [4, 6]


def test_accumulators_between_stages_keep_the_classes_of_the_code() -> None:
    code = JobCode({"own_sums": SUM})
    operation = code.import_name("own_sums:SUMS")
    codec, accumulator = AccumulatorCodec([counting(), operation]), [operation.create(), {"n": 1}]
    assert codec.unpacked(codec.packed(accumulator)) == accumulator
    assert codec.restored(codec.stored("v")(accumulator)) == accumulator
    other = JobCode({"own_sums": SUM}).import_name("own_sums:SUMS")
    with pytest.raises(pickle.PicklingError):
        codec.packed(other.create())


def test_modules_end_with_the_code() -> None:
    code = JobCode({"rates": "class Rate: pass", "p.__init__": "", "p.q": "from . import r"})
    kind = ref(code.import_name("rates:Rate"))
    assert kind() is not None
    assert not [name for name in sys.modules if name.startswith("runnel_job_")]
    with pytest.raises(runnel.ProgrammingError, match=r'module "p\.q" can\'t be loaded') as caught:
        code.import_name("p.q:x")
    assert "ImportError" in str(caught.value.detail)
    with pytest.raises(runnel.ProgrammingError, match=r'module "rates\.more" can\'t be loaded'):
        code.import_name("rates.more:x")
    del code, caught
    gc.collect()
    assert kind() is None


@pytest.mark.parametrize(
    ("name", "files", "message"),
    [
        ("plain", {"a.py": ""}, "is not a Python package"),
        ("p.zip", {"readme.txt": ""}, "has no Python module"),
        ("p.zip", {"p/__init__.py": "", "p/fast.so": ""}, "has compiled code"),
        ("p.zip", {"a-b.py": ""}, "can't be imported"),
        ("p.zip", {"a.py": "x" * (9 << 20)}, "can't be read"),
        ("bad.zip", {}, "can't be read"),
        ("q.py", {"q.py": "# -*- coding: nothing -*-"}, "can't be read"),
    ],
)
def test_what_is_no_code(tmp_path: Path, name: str, files: dict[str, str], message: str) -> None:
    path = tmp_path / name
    if name == "bad.zip":
        path.write_bytes(b"no archive")
    elif path.suffix == ".zip":
        archive(path, files)
    elif path.suffix == ".py":
        written(tmp_path, files)
    else:
        written(path, files)
    with pytest.raises(runnel.Error, match=message):
        read_sources([str(path)], None)


def test_archives_whose_paths_are_not_normal(tmp_path: Path) -> None:
    made = archive(tmp_path / "p.zip", {"./p//__init__.py": "", "p/./a.py": "x = 1"})
    assert read_sources([str(made)], None) == {"p.__init__": "", "p.a": "x = 1"}


def test_damaged_archive(tmp_path: Path) -> None:
    path = tmp_path / "p.zip"
    with ZipFile(path, "w", ZIP_DEFLATED) as target:
        target.writestr("a.py", "x = 1\n" * 50)
    data = path.read_bytes()
    at = data.index(b"a.py") + len(b"a.py")
    path.write_bytes(data[:at] + b"\xff\xff\xff" + data[at + 3 :])
    with pytest.raises(runnel.OperationalError, match="can't be read") as caught:
        read_sources([str(path)], None)
    assert caught.value.hint is not None


def test_a_file_with_a_dotted_name(tmp_path: Path) -> None:
    path = written(tmp_path, {"a.b.py": ""}) / "a.b.py"
    with pytest.raises(runnel.ProgrammingError, match=r'"a\.b\.py" in ".*" can\'t be imported'):
        read_sources([str(path)], None)


def test_annotations_are_those_of_the_module() -> None:
    code = JobCode({"a": "class A:\n    x: int\n"})
    assert code.import_name("a:A").__annotations__ == {"x": int}


def test_a_star_import_of_submodules() -> None:
    package = {"p.__init__": "__all__ = ['x', 'Y']\nY = 2", "p.x": "X = 1"}
    code = JobCode({**package, "a": "from p import *\nvalue = x.X + Y"})
    assert code.import_name("a:value") == 3


def test_a_module_that_removes_itself() -> None:
    code = JobCode({"a": "import sys\nsys.modules.pop(__name__)\nvalue = 1"})
    assert code.import_name("a:value") == 1


@pytest.mark.parametrize(
    ("source", "detail"),
    [
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
        ("def register(connection):\n    raise SystemExit(3)", "SystemExit: 3"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("def __getattr__(name):\n    raise ValueError(name)", "ValueError: register"),
        ("class E(Exception):\n    def __str__(self):\n        return 1 / 0\nraise E", "E"),
        ("from .. import a", "ImportError: attempted relative import beyond top-level package"),
    ],
)
def test_code_that_fails_in_odd_ways(source: str, detail: str) -> None:
    with pytest.raises(runnel.ProgrammingError, match='module "p" can\'t be loaded') as caught:
        JobCode({"p.__init__": source}).functions()
    assert caught.value.detail == detail
    assert caught.value.hint is not None


def test_two_modules_of_the_same_name(tmp_path: Path) -> None:
    one = written(tmp_path / "one", {"a.py": ""}) / "a.py"
    two = written(tmp_path / "two", {"a/__init__.py": "", "a/b.py": ""}) / "a"
    with pytest.raises(runnel.ProgrammingError, match='two modules are called "a"'):
        read_sources([str(one), str(two)], None)
