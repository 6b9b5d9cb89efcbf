"""A Spark Connect server on the loopback interface, as a program of its own: it prints its port, and ends with its input.

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


def quick_home() -> str:
    """A home of Spark's without the zip that its workers would import pyspark from: that takes twice as long as from files."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = Path(tempfile.mkdtemp(prefix="runnel-spark-home-"))
    for item in Path(spec.origin).parent.iterdir():
        if item.name != "python":
            (home / item.name).symlink_to(item)
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
        ("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"),
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
    service = getattr(session.sparkContext._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    print(getattr(service, "MODULE$").localPort(), flush=True)
    sys.stdin.read()
    session.stop()
    shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
