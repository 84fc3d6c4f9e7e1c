"""One table through four doors: a file, a workbook, a PostgreSQL server and a Spark cluster."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from tests.servers import PostgresServer

ROWS = 900
_TYPES = {
    str: (pyarrow.string(), "text"),
    int: (pyarrow.int64(), "bigint"),
    float: (pyarrow.float64(), "double precision"),
    bool: (pyarrow.bool_(), "boolean"),
    date: (pyarrow.date32(), "date"),
    datetime: (pyarrow.timestamp("us"), "timestamp"),
}


def make_patients(rows: int = ROWS) -> dict[str, list[Any]]:
    """Make up patients: every type that all four doors know, missing values, and texts as offices write them."""
    rng = random.Random(15)

    def column(make: Any, *, missing: int = 0) -> list[Any]:
        return [None if missing and row % missing == 0 else make(row) for row in range(rows)]

    return {
        "patient_id": column(lambda row: f"K{row:05d}"),
        "age": column(lambda row: rng.randrange(18, 90), missing=50),
        "sex": column(lambda row: rng.choice("男女")),
        "zip": column(lambda row: f"1{rng.randrange(4)}0{rng.randrange(5):04d}"),
        "visits": column(lambda row: rng.randrange(1, 5)),
        "weight": column(lambda row: rng.randrange(400, 1000) / 10, missing=70),
        "smoker": column(lambda row: rng.random() < 0.3),
        "admitted": column(lambda row: date(2024, 1, 1) + timedelta(days=rng.randrange(366)), missing=90),
        "seen": column(lambda row: datetime(2024, 1, 1) + timedelta(minutes=rng.randrange(500_000))),
        "fee": column(lambda row: f"{rng.randrange(100, 99_999):,}円"),
        "registered": column(lambda row: f"R{rng.randrange(2, 7)}.{rng.randrange(1, 13)}.{rng.randrange(1, 29)}"),
        "illness": column(lambda row: rng.choice(["flu", "asthma", "骨折", "-"])),
    }


def write_file(path: Path, columns: dict[str, list[Any]]) -> Path:
    """Write the table to a Parquet file."""
    arrays = {name: pyarrow.array(values, _find_types(values)[0]) for name, values in columns.items()}
    pyarrow.parquet.write_table(pyarrow.table(arrays), path)
    return path


def write_workbook(path: Path, columns: dict[str, list[Any]]) -> Path:
    """Write the table to the first sheet of a workbook."""
    import xlsxwriter

    book = xlsxwriter.Workbook(str(path))
    sheet = book.add_worksheet()
    formats = {date: book.add_format({"num_format": "yyyy-mm-dd"})}
    formats[datetime] = book.add_format({"num_format": "yyyy-mm-dd hh:mm"})
    for at, (name, values) in enumerate(columns.items()):
        sheet.write_string(0, at, name)
        for row, value in enumerate(values, start=1):
            if isinstance(value, date):
                sheet.write_datetime(row, at, value, formats[type(value)])
            elif isinstance(value, str):
                sheet.write_string(row, at, value)
            elif value is not None:
                sheet.write(row, at, value)
    book.close()
    return path


def write_server(server: PostgresServer, name: str, columns: dict[str, list[Any]]) -> str:
    """Put the table on the server; give its address."""
    import psycopg

    described = ", ".join(f'"{column}" {_find_types(values)[1]}' for column, values in columns.items())
    with psycopg.connect(server.address(), autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {name} ({described})")
        with connection.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN") as copy:
            for row in zip(*columns.values(), strict=True):
                copy.write_row(row)
    return server.address(table=name)


def _find_types(values: list[Any]) -> tuple[pyarrow.DataType, str]:
    return _TYPES[next(type(value) for value in values if value is not None)]
