"""A Spark Connect server on the loopback interface, as a program of its own: it prints its port,
and ends with its input.

python connect_server.py TOKEN [NAME=VALUE …]
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from importlib.util import find_spec
from pathlib import Path

QUICK_JAVA = (
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions "
    "-XX:-BytecodeVerificationRemote"
)
"""It compiles little, and takes classes as they are."""
if sys.platform == "linux":
    # Hadoop runs `chmod` for each file that it makes
    QUICK_JAVA += " -Djdk.lang.Process.launchMechanism=VFORK"
UNUSED_JARS = (
    *(
        "JLargeArrays",
        "JTransforms",
        "algebra",
        "arpack",
        "blas",
        "breeze",
        "cats",
        "curator",
        "datanucleus",
        "derby",
    ),
    *(
        "hive-beeline",
        "hive-cli",
        "hive-exec",
        "hive-jdbc",
        "hive-metastore",
        "hive-serde",
        "hive-service",
        "hive-shims",
    ),
    *(
        "javax.jdo",
        "jdo-api",
        "jline",
        "kubernetes",
        "lapack",
        "netty-tcnative",
        "scala-compiler",
        "spark-hive",
    ),
    *(
        "spark-kubernetes",
        "spark-repl",
        "spark-yarn",
        "spire",
        "super-csv",
        "vertx",
        "volcano",
        "zookeeper",
    ),
)
"""What their names begin with."""
HADOOP_DEFAULTS = ("core", "hdfs", "mapred", "yarn")
HADOOP_SETTINGS = {
    "fs.defaultFS": "file:///",
    "fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.LocalFs",
    "fs.s3a.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
}


def quick_home(*, has_zip: bool = False) -> str:
    """A home of Spark's in which it has less to do than in its own. Hadoop has none of its 1,400
    defaults there, as they are copied for each query, and written into its tasks; there are fewer
    jars, as all are looked through for a class that isn't there; and no zip that its workers would
    import pyspark from, which takes twice as long as from files: unless it `has_zip`, for workers
    that find pyspark nowhere else."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = Path(tempfile.mkdtemp(prefix="runnel-spark-home-"))
    package = Path(spec.origin).parent
    for item in package.iterdir():
        if item.name not in ("jars", "conf") and (has_zip or item.name != "python"):
            (home / item.name).symlink_to(item)
    (home / "jars").mkdir()
    for item in (package / "jars").iterdir():
        if not item.name.startswith(UNUSED_JARS):
            (home / "jars" / item.name).symlink_to(item)
    (home / "conf").mkdir()
    for name in HADOOP_DEFAULTS:
        settings = HADOOP_SETTINGS.items() if name == "core" else ()
        properties = "".join(
            f"<property><name>{key}</name><value>{value}</value></property>"
            for key, value in settings
        )
        (home / "conf" / f"{name}-default.xml").write_text(
            f"<configuration>{properties}</configuration>"
        )
    return str(home)


def main(token: str, *settings: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_HOME"] = home = quick_home()
    os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = token
    warnings.simplefilter("ignore")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("connect tests")
    for name, value in (
        ("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin"),
        ("spark.connect.grpc.binding.address", "127.0.0.1"),
        ("spark.connect.grpc.binding.port", "0"),
        ("spark.driver.memory", "1g"),
        ("spark.driver.host", "127.0.0.1"),
        ("spark.driver.bindAddress", "127.0.0.1"),
        ("spark.driver.extraJavaOptions", QUICK_JAVA),
        ("spark.log.level", "OFF"),
        ("spark.ui.enabled", "false"),
        ("spark.ui.showConsoleProgress", "false"),
        ("spark.sql.shuffle.partitions", "2"),
        # A client's session has other settings than ours: they must not matter to what we ask.
        ("spark.sql.ansi.enabled", "false"),
        ("spark.sql.session.timeZone", "Asia/Tokyo"),
        *(item.split("=", 1) for item in settings),
    ):
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    service = getattr(
        session.sparkContext._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$"
    )
    print(getattr(service, "MODULE$").localPort(), flush=True)
    sys.stdin.read()
    session.stop()
    shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
