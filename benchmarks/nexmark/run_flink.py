"""Runs one NEXMark query on Flink SQL in this process; prints its figures as JSON. Needs PyFlink:
`make flink`.

    python run_flink.py TEXT SOURCE EVENTS PARALLELISM [FOLDER]

TEXT is the query in Flink's SQL. SOURCE is "json" (FOLDER/<table>.jsonl) or "datagen": a counter,
from which a bid's columns are computed, the nearest that Flink has to rows in memory. The result
goes to Flink's "blackhole". The time is the job's own net run time, so that starting the JVM and
planning don't count.
"""

import json
import resource
import sys
import time

from pyflink.table import EnvironmentSettings, TableDescriptor, TableEnvironment
from pyflink.table.schema import Schema

COLUMNS = {
    "bid": (
        "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time "
        "TIMESTAMP(3), extra STRING"
    ),
    "auction": (
        "id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, "
        "date_time TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING"
    ),
    "person": (
        "id BIGINT, name STRING, email_address STRING, credit_card STRING, city STRING, state "
        "STRING, date_time TIMESTAMP(3), extra STRING"
    ),
}
DATAGEN = """
    CREATE TABLE bid (
        n BIGINT,
        auction AS 1000 + MOD(n * 7919, 50000), bidder AS 1000 + MOD(n * 104729, 20000),
        price AS 100 + MOD(n * 15485863, 10000000),
        channel AS CONCAT('channel-', CAST(MOD(n, 10000) AS STRING)),
        url AS CONCAT('https://www.nexmark.com/abo/foo/item.htm?query=1&channel_id=',
        CAST(MOD(n, 10000) AS STRING)),
        extra AS 'abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz',
        date_time AS CAST(TO_TIMESTAMP_LTZ(n / 10, 3) AS TIMESTAMP(3)),
        WATERMARK FOR date_time AS date_time
    ) WITH (
        'connector' = 'datagen', 'fields.n.kind' = 'sequence', 'fields.n.start' = '0',
        'fields.n.end' = '{last}',
        'rows-per-second' = '100000000'
    )
"""


def main(text, source, events, parallelism, folder=""):
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.get_config().set("parallelism.default", parallelism)
    if source == "datagen":
        tables.execute_sql(DATAGEN.format(last=int(events) * 46 // 50 - 1))
    else:
        for name, columns in COLUMNS.items():
            tables.execute_sql(
                f"CREATE TABLE {name} ({columns}, WATERMARK FOR date_time AS date_time) WITH "
                f"('connector' = 'filesystem', 'path' = '{folder}/{name}.jsonl', "
                "'format' = 'json', "
                "'json.timestamp-format.standard' = 'ISO-8601')"
            )
    query = tables.sql_query(text)
    schema = Schema.new_builder().from_resolved_schema(query.get_resolved_schema()).build()
    sink = TableDescriptor.for_connector("blackhole").schema(schema).build()
    start = time.perf_counter()
    client = query.execute_insert(sink).get_job_client()
    result = client.get_job_execution_result().result()
    seconds = result.get_net_runtime() / 1000
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        json.dumps(
            {
                "seconds": seconds,
                "wall": time.perf_counter() - start,
                "peak": usage.ru_maxrss * 1024,
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
