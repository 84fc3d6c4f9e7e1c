"""A real Spark cluster on loopback for tests: a master and workers from pyspark's own jars, ended by their ids."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

# Small and quick to start, on a machine with two cores that does other things too.
_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss4m -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
SETTINGS: Mapping[str, str] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "700m",
    "spark.driver.maxResultSize": "1m",
    "spark.driver.extraJavaOptions": _JVM,
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": _JVM,
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.files.openCostInBytes": "64m",  # every file is a task of its own
}

# What Spark's own start script hands to Java, so that no second Java must be started to ask for it.
_OPENED = ("java.lang", "java.lang.invoke", "java.io", "java.net", "java.nio", "java.util", "java.util.concurrent",
           "sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar")  # fmt: skip
_MODULES = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]


class SparkDaemon:
    """One process of the cluster, known by its id, with the file that it writes its log to."""

    def __init__(self, name: str, arguments: list[str], folder: Path) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        kind, *options = arguments
        scala = next(home.glob("jars/spark-core_*.jar")).name.split("_")[1].split("-")[0]
        java = ["java", "-cp", f"{home}/jars/*", "-Xmx128m", *_JVM.split(), *_MODULES]
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [*java, f"org.apache.spark.deploy.{kind}", *options],
                stdout=log, stderr=log, cwd=folder,
                env={
                    **os.environ,
                    "SPARK_HOME": str(home),
                    "SPARK_SCALA_VERSION": scala,
                    "SPARK_LOCAL_IP": "127.0.0.1",
                },
            )  # fmt: skip

    def wait_for(self, pattern: str) -> str:
        """Wait until the log holds a line; give what its group matched."""
        while not (match := re.search(pattern, self.log.read_text(errors="replace"))):
            if self._process.poll() is not None:
                raise RuntimeError(f"a process of the cluster ended: {self.log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)
        return match.group(1)

    def kill(self) -> None:
        """End the process and those it started at once, as a power cut would."""
        threads = Path(f"/proc/{self._process.pid}/task").glob("*/children")
        started = [process for children in threads for process in children.read_text().split()]
        for process in (self._process.pid, *map(int, started)):
            os.kill(process, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """End the process."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()


class SparkCluster:
    """A master and its workers. `url` is what a steward writes; `folder` is storage that all of them share."""

    def __init__(self, folder: Path, worker_memory: str) -> None:
        self.folder = folder
        self._worker_memory = worker_memory
        self._count = 0
        self.master = SparkDaemon(
            "master", ["master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"], folder
        )
        self.url = self.master.wait_for(r"Starting Spark master at (spark://\S+)")
        self.workers: list[SparkDaemon] = []

    def add_worker(self) -> SparkDaemon:
        """Start one more worker, of one core, and wait until the master knows it."""
        self._count += 1
        name = f"worker{self._count}"
        (self.folder / name).mkdir()
        options = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", "--cores", "1"]
        options += ["--memory", self._worker_memory]
        command = ["worker.Worker", *options, "--work-dir", str(self.folder / name), self.url]
        worker = SparkDaemon(name, command, self.folder)
        worker.wait_for("(Successfully registered) with master")
        self.workers.append(worker)
        return worker

    def stop(self) -> None:
        """End every process."""
        for process in (*self.workers, self.master):
            process.stop()


@contextmanager
def running_cluster(
    folder: Path, *, workers: int = 2, worker_memory: str = "600m", settings: Mapping[str, str] = SETTINGS
) -> Iterator[SparkCluster]:
    """Start a cluster, put Spark's settings into folder/conf, and end it at last.

    Skips where pyspark or Java cannot be had.
    """
    reason = missing_spark()
    if reason:
        pytest.skip(reason)
    (folder / "conf").mkdir()
    lines = "".join(f"{key} {value}\n" for key, value in settings.items())
    (folder / "conf" / "spark-defaults.conf").write_text(lines)
    cluster = SparkCluster(folder, worker_memory)
    try:
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        cluster.stop()


def missing_spark() -> str:
    """Say what of Spark is missing here; nothing if it is all there."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        return "no pyspark; install it with: pip install 'sudare[spark]'"
    try:
        found = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    except OSError:
        return "no Java; install it, on Debian with: apt install openjdk-17-jre-headless"
    version = re.search(r'version "(\d+)', found)
    return "" if version and int(version.group(1)) >= 17 else "Java is older than 17"
