"""Real executor processes (local-cluster), and processes of Spark that end in the middle. Each
Spark here is of a program of its own, since a process has but one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.effort import takes_long
from tests.spark_process import missing

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

BEGINNING = """
import json, os, signal, sys, time
from pathlib import Path
import runnel
home = Path(sys.argv[1])
told = {}

def tell(name, value):
    told[name] = value

def refused(statement):
    try:
        connection.execute(statement).fetchall()
    except runnel.Error as error:
        return [type(error).__name__, error.message]

def wait_for(condition):
    until = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)

settings = {"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"}
"""


def run(program: str, home: Path) -> dict[str, Any]:
    """What a program tells in the end."""
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-c",
            BEGINNING + program + "\nprint(json.dumps(told, default=str))",
            str(home),
        ],
        env={name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


CLUSTER = """
spark = {"spark.master": "local-cluster[1,1,1024]", **settings}
connection = runnel.connect(home / "db", spark=spark)
connection.execute(
    "CREATE MAPPING source (id BIGINT) TYPE Spark "
    f"OPTIONS ('format' = 'parquet', 'path' = '{home}/in')"
)
place = f"OPTIONS ('format' = 'parquet', 'path' = '{home}/out')"
connection.execute(f"CREATE MAPPING sink (id BIGINT, n BIGINT) TYPE Spark {place}")
(home / "out").mkdir()

def where(number, home=str(home)):
    # In a worker of Python, which an executor has started: pyspark's daemon is between them.
    import os
    def parent(pid):
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rsplit(")", 1)[1].split()[1])
    return parent(os.getppid())

def held(number, home=str(home)):
    import os, time
    from pathlib import Path
    gate, begun = Path(home, "gate"), Path(home, "begun")
    if number == 3999 and not gate.exists():
        with open(f"/proc/{os.getppid()}/stat") as file:
            begun.with_suffix(".new").write_text(file.read().rsplit(")", 1)[1].split()[1])
        begun.with_suffix(".new").rename(begun)
        while not gate.exists():
            time.sleep(0.01)
    return number

def fails(number):
    raise ValueError("no such number")

for function in (where, held, fails):
    connection.create_function(function.__name__, function, ["BIGINT"], "BIGINT", scalar=True)

rows = connection.execute("SELECT DISTINCT \\"where\\"(id) FROM source").fetchall()
executors = {row[0] for row in rows}
from pyspark import SparkContext
java = SparkContext._gateway.proc.pid
tell("executors", [len(executors), not executors & {os.getpid(), java}])
tell("raised", refused("SELECT SUM(fails(id)) FROM source"))
tell("overflow", refused("SELECT SUM(9223372036854775807 / (id - id)) FROM source"))
tell("sum", connection.execute("SELECT COUNT(*), SUM(id) FROM source").fetchall())

def kill_and_open():
    wait_for((home / "begun").exists)
    os.kill(int((home / "begun").read_text()), signal.SIGKILL)
    (home / "gate").touch()

query = "INSERT INTO sink SELECT held(id) % 10, COUNT(*) FROM source GROUP BY 1"
connection.execute(f"CREATE JOB j OPTIONS ('runtime' = 'spark') AS {query}")
kill_and_open()
job = connection.job("j")
job.join(200)
tell("job", [job.status, connection.execute("SELECT COUNT(*), SUM(n) FROM sink").fetchall()])
tell("left", [name for name in os.listdir(home / "out") if name.startswith("_runnel")])

(home / "gate").unlink()
(home / "begun").unlink()
cursor = connection.execute("SELECT SUM(held(id)) FROM source")
kill_and_open()
tell("query", cursor.fetchall())
connection.close()
"""


@takes_long
def test_executors_are_processes_and_may_be_killed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(4):
        ids = list(range(number * 1000, number * 1000 + 1000))
        pq.write_table(
            pa.table({"id": pa.array(ids, pa.int64())}), tmp_path / "in" / f"{number}.parquet"
        )
    told = run(CLUSTER, tmp_path)
    assert told["executors"] == [1, True]
    assert told["raised"][0] == "DataError"
    assert "function fails failed" in told["raised"][1]
    assert "no such number" in told["raised"][1]
    assert told["overflow"] == ["DivisionByZero", "division by zero"]
    assert told["sum"] == [[4000, 7998000]]
    assert told["job"] == ["COMPLETED", [[10, 4000]]]
    assert told["left"] == []
    assert told["query"] == [[7998000]]


DEAD = """
from pyspark import SparkContext

connection = runnel.connect(home / "db", spark={"spark.master": "local[1]", **settings})
place = f"OPTIONS ('format' = 'parquet', 'path' = '{home}/in', 'follow' = 'true')"
connection.execute(f"CREATE MAPPING source (id BIGINT) TYPE Spark {place}")
connection.execute(
    "CREATE MAPPING m TYPE IMap OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'bigint')"
)
options = "OPTIONS ('runtime' = 'spark', 'snapshotIntervalMillis' = '50')"
connection.execute(f"CREATE JOB j {options} AS INSERT INTO m SELECT id, id FROM source")
count = lambda: connection.execute("SELECT COUNT(*) FROM m").fetchone()[0]
wait_for(lambda: count() == 1000)
connection.execute(
    "CREATE MAPPING numbers TYPE Spark OPTIONS ('query' = 'SELECT id FROM range(3)')"
)

first = SparkContext._gateway.proc
first.kill()
first.wait()
tell("rows", connection.execute("SELECT SUM(id) FROM numbers").fetchall())
tell("anew", SparkContext._gateway.proc.pid != first.pid)
os.rename(home / "more.parquet", home / "in" / "more.parquet")
wait_for(lambda: count() == 1500)
job = connection.job("j")
tell("job", [job.status, job.error is not None and "is gone" in str(job.error)])
connection.close()

from pyspark.sql import SparkSession

os.environ["PYSPARK_PYTHON"] = sys.executable
session = (
    SparkSession.builder.master("local[1]")
    .config(map={"spark.ui.enabled": "false", **settings})
    .getOrCreate()
)
connection = runnel.connect(spark=session)
connection.register("frame", session.range(5))
tell("given", connection.execute("SELECT COUNT(*) FROM frame").fetchall())
SparkContext._gateway.proc.kill()
SparkContext._gateway.proc.wait()
tell("gone", refused("SELECT COUNT(*) FROM frame"))
tell("usable", connection.execute("SELECT 1").fetchall())
connection.close()
"""


@takes_long
def test_a_java_process_that_ends(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(
        pa.table({"id": pa.array(range(1000), pa.int64())}), tmp_path / "in" / "a.parquet"
    )
    pq.write_table(
        pa.table({"id": pa.array(range(1000, 1500), pa.int64())}), tmp_path / "more.parquet"
    )
    told = run(DEAD, tmp_path)
    assert told["rows"] == [[3]]
    assert told["anew"] is True
    assert told["job"] == ["RUNNING", True]
    assert told["given"] == [[5]]
    assert told["gone"] == [
        "OperationalError",
        "the Spark session of this connection is gone: its Java process has ended",
    ]
    assert told["usable"] == [[1]]
