"""Nothing of Spark is started in a process that has no work for it, even where Spark's tables are
mapped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
from pathlib import Path
import runnel

folder = Path(sys.argv[1])
(folder / "in.csv").write_text("id,v\\n1,10\\n2,20\\n")
for _ in range(2):  # the second time it is opened with its mappings and its job
    with runnel.connect(folder / "db", spark="local[1]") as connection:
        connection.execute(f'''CREATE MAPPING IF NOT EXISTS far (id BIGINT, v BIGINT) TYPE Spark
            OPTIONS ('format' = 'parquet', 'path' = '{folder}/far')''')
        connection.execute(f'''CREATE MAPPING IF NOT EXISTS near (id BIGINT, v BIGINT) TYPE File
            OPTIONS ('format' = 'csv', 'path' = '{folder}', 'glob' = '*.csv')''')
        connection.execute('''CREATE MAPPING IF NOT EXISTS kept TYPE IMap
            OPTIONS ('keyFormat' = 'bigint', 'valueFormat' = 'bigint')''')
        print(connection.execute("SELECT SUM(v) FROM near").fetchall())
        connection.execute("EXPLAIN SELECT COUNT(*) FROM far JOIN near USING (id)").fetchall()
        explain = "EXPLAIN CREATE JOB k AS SINK INTO kept SELECT id, v FROM far"
        lines = connection.execute(explain).fetchall()
        print([row[0] for row in lines if "on spark" in row[0]])
        connection.execute('''CREATE JOB IF NOT EXISTS j OPTIONS ('runtime' = 'auto') AS
            SINK INTO kept SELECT id, v FROM near''')
        connection.job("j").join(60)
        print(connection.execute("SELECT SUM(this) FROM kept").fetchall())
        connection.execute("SHOW JOBS FULL").fetchall()
        children = [item.read_text() for item in Path("/proc/self/task").glob("*/children")]
        print("".join(children), "pyspark" in sys.modules, "py4j" in sys.modules)
"""


def test_nothing_of_spark_is_started_before_it_is_needed(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", SCRIPT, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
    why = (
        "Job k: exactlyOnce, on spark, as the number of rows that it reads is unknown before spark "
        "runs; CREATE JOB asks for it"
    )
    once = ["[(30,)]", f"[{why!r}]", "[(30,)]", " False False"]
    assert (done.stdout.split("\n"), done.stderr) == ([*once, *once, ""], "")
