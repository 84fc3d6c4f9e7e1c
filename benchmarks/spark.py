"""Counting on a Spark cluster beside DuckDB, in one run on the same files: CPU time and memory of every process.

A master and two workers of one core each run on this machine, so nothing is gained by having two of them: the benchmark
tells what a row costs in a cluster, how many bytes it sends around, and how even the work of the tasks is. From these
docs/explanations/spark-planning.md plans larger tables. Each engine counts a quarter of the rows to warm up, counts it
again, and then counts all: the difference is what more rows cost, without what every query costs.

    python -m benchmarks.spark [--rows N] [--task count] [--json FILE]
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

from benchmarks.counting import INCOMES, PREFECTURES, items_of

ITEMS = 20
ROWS_PER_FILE = 500_000
MAX_ROWS = 5
HEAVY_PERSONS = 100  # to whom a hundredth of the rows belongs: a skew such as real logs have


def make(folder: Path, rows: int) -> None:
    """Write Parquet files of six columns: a person, two texts, two integers and a day."""
    import duckdb

    persons = max(1, rows // 4)
    with duckdb.connect() as connection:
        for index, start in enumerate(range(0, rows, ROWS_PER_FILE)):
            stop = min(rows, start + ROWS_PER_FILE)
            connection.execute(f"""
                COPY (SELECT
                    CASE WHEN hash(i * 7 + 6) % 100 = 0 THEN hash(i * 7 + 8) % {HEAVY_PERSONS}
                         ELSE hash(i * 7 + 7) % {persons} END::BIGINT AS who,
                    list_extract({PREFECTURES}, 1 + (hash(i * 5 + 1) % 47)::INT) AS prefecture,
                    list_extract({items_of(ITEMS)}, 1 + (hash(i * 5 + 2) % {ITEMS})::INT) AS item,
                    (hash(i * 5 + 3) % 100)::INT AS age,
                    ((hash(i * 5 + 4) % 1000) * (hash(i * 5 + 9) % 1000))::BIGINT AS income,
                    DATE '2024-01-01' + (hash(i * 5 + 5) % 366)::INT AS visit
                FROM range({start}, {stop}) AS t(i)) TO '{folder}/{index:05d}.parquet' (FORMAT parquet)
            """)


def make_schema(*, by_person: bool):
    import sudare as sd
    from sudare.schema import DateBins, NumberBins, Unit, Values

    domains = {
        "prefecture": Values(tuple(PREFECTURES)),
        "item": Values(tuple(items_of(ITEMS))),
        "age": NumberBins.of_width(0, 100, 5),
        "income": NumberBins(tuple(INCOMES)),
        "visit": DateBins.of_width(date(2024, 1, 1), date(2024, 12, 31), "1 month"),
    }
    unit = Unit(kind="person", column="who", max_rows=MAX_ROWS) if by_person else Unit()
    attributes = tuple(sd.Attribute(name=name, domain=domain) for name, domain in domains.items())
    return sd.Schema(name="visits", attributes=attributes, unit=unit)


def count(data: str, *, by_person: bool) -> tuple[int, int]:
    import sudare as sd

    with sd.open(data, make_schema(by_person=by_person)) as source:
        counts = source.count()
    return counts.total, counts.nonzero


TASKS = {"count": False, "count by person": True}


# --- processes --------------------------------------------------------------------------------------------------------


def read_processes() -> dict[str, tuple[float, float]]:
    """CPU seconds and peak memory in GB of this process and of those it started, by their part in the cluster."""
    found = {"python": _read_process("self")}
    kinds = {
        "Master": "master",
        "Worker": "worker",
        "SparkSubmit": "driver",
        "CoarseGrainedExecutorBackend": "executor",
    }
    for process in sorted(path.name for path in Path("/proc").iterdir() if path.name.isdigit()):
        try:
            command = Path(f"/proc/{process}/cmdline").read_text().split("\0")
            kind = next((kinds[word.rpartition(".")[2]] for word in command if word.startswith("org.apache.spark")), "")
            if kind and _is_own(process):
                number = sum(name.startswith(kind) for name in found) + 1
                found[f"{kind} {number}"] = _read_process(process)
        except (OSError, KeyError):
            continue
    return found


def _is_own(process: str) -> bool:
    """Tell whether this process started it, or one that this process started: another cluster may run beside."""
    while process not in ("0", str(os.getpid())):
        process = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1]
    return process != "0"


def _read_process(process: str) -> tuple[float, float]:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), int(peak[1]) / 2**20 if peak else 0.0


def read_stages(session, first: int) -> dict[str, float]:
    """Bytes sent between stages and the evenness of tasks, of the stages from number `first` on."""
    store = session.sparkContext._jsc.sc().statusStore()
    sent, records, longest, stage = 0, 0, {}, first
    while True:
        try:
            data = store.lastStageAttempt(stage)
        except Exception:  # no such stage: all were read
            break
        sent, records = sent + data.shuffleWriteBytes(), records + data.shuffleWriteRecords()
        tasks = store.taskList(stage, data.attemptId(), 10_000)
        times = sorted(
            tasks.apply(index).taskMetrics().get().executorRunTime()
            for index in range(tasks.size())
            if tasks.apply(index).taskMetrics().isDefined()
        )
        if len(times) > 1 and sum(times) > longest.get("total", 0):
            longest = {"total": sum(times), "tasks": len(times), "skew": times[-1] / max(1, times[len(times) // 2])}
        stage += 1
    figures = {"shuffle_bytes": sent, "shuffle_records": records, "tasks": longest.get("tasks", 1)}
    return {"next": stage, "skew": longest.get("skew", 1.0), **figures}


# --- side by side -----------------------------------------------------------------------------------------------------


def measure_duckdb(task: str, data: str) -> dict:
    command = [sys.executable, "-m", "benchmarks.spark", "--measure", task, data]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure_here(task: str, data: str) -> dict:
    """Measure DuckDB in this process; imports are not counted."""
    before, begun = _read_process("self")[0], time.perf_counter()
    total, cells = count(data, by_person=TASKS[task])
    cpu, peak = _read_process("self")
    return {
        "total": total,
        "cells": cells,
        "cpu": cpu - before,
        "seconds": time.perf_counter() - begun,
        "peak_gb": peak,
    }


def measure_spark(task: str, data: str, session) -> dict:
    first = read_stages(session, 0)["next"]
    before, begun = read_processes(), time.perf_counter()
    total, cells = count(data, by_person=TASKS[task])
    seconds, after = time.perf_counter() - begun, read_processes()
    stages = read_stages(session, first)
    cpu = {name: after[name][0] - before.get(name, (0.0, 0.0))[0] for name in after}
    peaks = {name: peak for name, (_, peak) in after.items()}
    return {"total": total, "cells": cells, "cpu": sum(cpu.values()), "seconds": seconds, "cpu_of": cpu,
            "peak_gb_of": peaks, **stages}  # fmt: skip


def compare(task: str, url: str, folders: dict[int, Path], session) -> dict:
    """Count by both engines, on a quarter of the rows and on all."""
    count(f"{url}{next(iter(folders.values()))}", by_person=TASKS[task])
    sizes = {}
    for size, folder in folders.items():
        beside = measure_duckdb(task, f"{folder}/*.parquet")
        found = measure_spark(task, f"{url}{folder}", session)
        if found["total"] != beside["total"] or (task == "count" and found["cells"] != beside["cells"]):
            raise SystemExit("Spark and DuckDB counted differently")
        sizes[size] = {"spark": found, "duckdb": beside}
    small, large = folders
    more = {engine: sizes[large][engine]["cpu"] - sizes[small][engine]["cpu"] for engine in ("spark", "duckdb")}
    each = {engine: 1e6 * cpu / (large - small) for engine, cpu in more.items()}
    return {**sizes[large], "quarter": sizes[small], "us_per_row": each, "ratio": more["spark"] / more["duckdb"]}


def settings() -> dict[str, str]:
    """A cluster as one would set it up: Java's own compiler and collector, a gigabyte for each executor."""
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "1g",
        "spark.executor.cores": "1",
        "spark.sql.shuffle.partitions": "8",
    }


def run(rows: int, tasks: list[str]) -> dict:
    from tests.engines.cluster import running_cluster

    results: dict = {"rows": rows, "tasks": {}}
    with tempfile.TemporaryDirectory() as place:
        folders = {size: Path(place, f"visits-{size}") for size in (rows // 4, rows)}
        for size, folder in folders.items():
            folder.mkdir()
            make(folder, size)
        results["parquet_bytes"] = sum(path.stat().st_size for path in folders[rows].iterdir())
        conf = settings()
        cluster_folder = Path(place, "cluster")
        cluster_folder.mkdir()
        with running_cluster(cluster_folder, worker_memory="1500m", settings=conf) as cluster:
            os.environ["SPARK_CONF_DIR"] = str(cluster_folder / "conf")
            from sudare.sources import spark
            from sudare.sources.spark_jobs import SparkJobs

            session = SparkJobs("the benchmark", None).run(lambda: spark.connect(cluster.url))
            try:
                for task in tasks:
                    results["tasks"][task] = compare(task, cluster.url, folders, session)
                    show(task, results)
            finally:
                spark.disconnect()
    return results


def show(task: str, results: dict) -> None:
    measured = results["tasks"][task]
    spark, duckdb = measured["spark"], measured["duckdb"]
    print(f"{task}: {spark['total']:,} rows counted in {spark['cells']:,} cells, the same by both")
    each = measured["us_per_row"]
    print(
        f"  DuckDB {duckdb['cpu']:8.1f} CPU s   {each['duckdb']:.3f} us a further row   peak {duckdb['peak_gb']:.2f} GB"
    )
    print(f"  Spark  {spark['cpu']:8.1f} CPU s   {each['spark']:.3f} us a further row: {measured['ratio']:.0f} times")
    for name, cpu in spark["cpu_of"].items():
        print(f"    {name:12} {cpu:8.1f} CPU s   peak {spark['peak_gb_of'][name]:.2f} GB")
    print(f"    sent between stages: {spark['shuffle_bytes']:,} bytes in {spark['shuffle_records']:,} records")
    print(f"    {spark['tasks']} tasks; the slowest took {spark['skew']:.1f} x the median", flush=True)


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--task", choices=TASKS, action="append", help="both unless one is named")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args(argv)
    if chosen.measure:
        print(json.dumps(measure_here(*chosen.measure)))
        return
    load = os.getloadavg()[0]
    print(f"{chosen.rows:,} rows x 6 columns from Parquet; {os.cpu_count()} cores, load {load:.1f} at the start")
    results = run(chosen.rows, chosen.task or list(TASKS))
    if chosen.json:
        chosen.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
