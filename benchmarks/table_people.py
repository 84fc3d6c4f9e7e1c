"""1e8 people by 1.5 million meshes of 500 m, 20 ages and 2 sexes: from Parquet to a saved release, on this machine.

python -m benchmarks.table_people [--rows N] [--memory-limit 4GB]
python -m benchmarks.table_people --counted     the same people already counted: a row for every filled cell
"""

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np

import sudare as sd
from sudare.demo.data import mesh_census
from sudare.schema import MeshCells, NumberBins, Values

AREA = tuple(str(first) for first in (*range(5232, 5240), *range(5331, 5342), *range(5435, 5444), *range(5536, 5542),
                                      *range(5636, 5642), *range(5738, 5743), *range(5838, 5842), *range(5939, 5943),
                                      *range(6039, 6042), *range(6139, 6142)))  # fmt: skip


def make(path: Path, rows: int) -> MeshCells:
    """Write made-up people: meshes drawn by a made-up census, ages and sexes at random."""
    census = mesh_census(level=4, area=AREA, seed=1)
    cells = census.schema.attributes[0].domain
    ends = np.cumsum(census.values)
    with duckdb.connect() as engine:
        engine.execute("CREATE TABLE people (mesh VARCHAR, age UTINYINT, sex VARCHAR)")
        random = np.random.default_rng(1)
        for start in range(0, rows, 10**7):
            size = min(10**7, rows - start)
            where = np.searchsorted(ends, random.integers(0, ends[-1], size), side="right")
            kept, places = np.unique(census.codes[where, 0], return_inverse=True)
            part = {
                "place": places,
                "age": random.integers(0, 100, size).astype(np.uint8),
                "sex": random.integers(0, 2, size),
            }
            engine.register("part", part)
            labels = cells.labels(kept).tolist()
            engine.execute("INSERT INTO people SELECT list_extract($1::VARCHAR[], place + 1), age, "
                           "CASE sex WHEN 0 THEN 'F' ELSE 'M' END FROM part", [labels])  # fmt: skip
            engine.unregister("part")
        engine.execute(f"COPY people TO '{path}' (FORMAT parquet)")
    return cells


def make_counted(path: Path, people: int) -> None:
    """Write made-up counts: Poisson around the people of a made-up census, the same for every age and sex."""
    census = mesh_census(level=4, area=AREA, seed=1)
    cells, random = census.schema.attributes[0].domain, np.random.default_rng(1)
    mean = census.values * (people / census.values.sum() / 40)
    with duckdb.connect() as engine:
        engine.execute("CREATE TABLE people (mesh VARCHAR, age UTINYINT, sex VARCHAR, people INTEGER)")
        for start in range(0, len(mean), 10**5):
            drawn = random.poisson(np.repeat(mean[start : start + 10**5], 40))
            kept = np.flatnonzero(drawn)
            part = {
                "mesh": cells.labels(census.codes[start : start + 10**5, 0])[kept // 40],
                "age": (kept % 40 // 2 * 5).astype(np.uint8),
                "sex": kept % 2,
                "people": drawn[kept],
            }
            engine.register("part", part)
            engine.execute(
                "INSERT INTO people SELECT mesh, age, CASE sex WHEN 0 THEN 'F' ELSE 'M' END, people FROM part"
            )
            engine.unregister("part")
        engine.execute(f"COPY people TO '{path}' (FORMAT parquet)")


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10**8)
    parser.add_argument("--memory-limit", default="4GB")
    parser.add_argument("--counted", action="store_true")
    parser.add_argument("--work", nargs=2)
    given = parser.parse_args(argv)
    if given.work:
        _publish(Path(given.work[0]), Path(given.work[1]), given.memory_limit, "people" if given.counted else None)
        return
    import subprocess

    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "people.parquet"
        (make_counted if given.counted else make)(file, given.rows)
        print(f"{given.rows:,} people in {file.stat().st_size / 2**20:,.0f} MB of Parquet", flush=True)
        command = [sys.executable, "-m", "benchmarks.table_people", "--memory-limit", given.memory_limit]
        command += ["--counted"] if given.counted else []
        subprocess.run([*command, "--work", str(file), str(Path(place) / "out")], check=True)


def _publish(file: Path, out: Path, memory_limit: str, count_column: str | None) -> None:
    """In a process of its own, so that its memory can be told."""
    domains = {
        "mesh": MeshCells(level=4, area=AREA),
        "age": NumberBins.of_width(0, 100, 5),
        "sex": Values(("F", "M")),
    }
    attributes = tuple(sd.Attribute(name=name, domain=domain) for name, domain in domains.items())
    schema = sd.Schema(name="people", attributes=attributes)
    begun, worked = time.perf_counter(), time.process_time()
    with sd.open(file, schema, memory_limit=memory_limit, count_column=count_column) as source:
        release = sd.Table(epsilon=1).publish(source)
        release.save(out)
    seconds, work = time.perf_counter() - begun, time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{domains['mesh'].size:,} meshes x 20 ages x 2 sexes = {schema.size:,} cells; "
          f"{release.frames['cells'].rows:,} published in {seconds:.0f} s ({work:.0f} CPU s), "
          f"peak {peak:.2f} GB")  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
