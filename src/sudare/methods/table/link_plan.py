"""What is decided about further tables before the data: which are published, their shares, totals that are exact.

A release with areas measures the first level of every division with a share of its own, unless the workload asks for
other things; `tables` says it outright. Exact totals come from others, as a file, or from the table itself, which only
an explicit flag allows and which the promise names.
"""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np

from sudare.errors import ParameterError
from sudare.methods.budget import CountBudget
from sudare.methods.table.levels import LeafLayout
from sudare.methods.table.linked import (
    AREAS_SHARE,
    NOT_GIVEN,
    TableSpec,
    find_column,
    find_groups,
    find_partition,
    measured_specs,
    read_tables,
)
from sudare.methods.table.squares import SquareLayout
from sudare.methods.table.workload import MIX, list_questions, read_items
from sudare.noise import CountNoise
from sudare.postprocess.least_squares import LeastSquares
from sudare.postprocess.linked_squares import MOST_FACTORED, LinkedSquares
from sudare.schema import Schema
from sudare.schema.arrays import Codes, Integers, Reals
from sudare.text import Text, text

AREAS = "areas"  # an item of a workload: the figures of all levels of areas
TOTAL = "total"
TRIED_SHARES = tuple(Fraction(part, 20) for part in (1, 2, 3, 4, 5, 6, 8, 10, 12, 14))
OVER_MAP_SHARE = Fraction(
    1, 20
)  # of the promise, for other attributes over all places: cells are off by a twentieth more
MOST_ASKED = 200  # areas of a level that are looked at to choose a share
MOST_FILE = 100_000  # lines of a file of tables or totals


# --- which tables -----------------------------------------------------------------------------------------------------


def choose_specs(
    tables: Sequence[str] | None, workload: str, exact: Sequence[str], schema: Schema, layout: LeafLayout
) -> tuple[TableSpec, ...]:
    """Decide the further tables of a release; those of areas where the steward named none."""
    level = _find_exact_level(exact, schema)
    if tables is not None:
        specs = read_tables(_read_file(tables), schema)
    else:
        specs = _default_specs(workload, schema, layout, without=level)
    if level is None:
        return specs
    if any(spec.names == (level,) and spec.share for spec in specs):
        raise ParameterError("{level} is exact, so that no share is spent for it; take the share out", level=level)
    rest = tuple(spec for spec in specs if spec.names != (level,))
    return (TableSpec(names=(level,), is_exact=True), *rest)


def _find_exact_level(exact: Sequence[str], schema: Schema) -> str | None:
    names = [name for name in exact if name != TOTAL]
    if len(names) > 1:
        raise ParameterError(
            "exact ({names}) may name one level of areas, and total; what it implies is exact too",
            names=", ".join(exact),
        )
    if not names:
        return None
    column = find_column(schema, names[0])
    if column.division is None:
        raise ParameterError("exact ({name}) must be total, or a level of declared areas", name=names[0])
    return names[0]


def _default_specs(workload: str, schema: Schema, layout: LeafLayout, *, without: str | None) -> tuple[TableSpec, ...]:
    firsts = [division.levels[0] for division in schema.areas]
    asked = {item.strip() for item in workload.split(",")}
    levels = {level for division in schema.areas for level in division.levels}
    measured = [name for name in firsts if name != without and _has_several(schema, layout, name)]
    if asked & (levels | {AREAS}):
        wanted = [name for name in measured if AREAS in asked or name in asked]
        wanted += [name for name in levels & asked if name not in (*measured, without)]
        share = choose_area_share(workload, schema, layout, tuple(sorted(wanted)))
    else:
        wanted, share = (measured, AREAS_SHARE) if asked == {MIX} else ([], Fraction(0))
    found = tuple(TableSpec(names=(name,), share=share / len(wanted)) for name in wanted)
    return (*found, *(_sum_over_map(schema, layout) if asked == {MIX} else ()))


def _sum_over_map(schema: Schema, layout: LeafLayout) -> tuple[TableSpec, ...]:
    """The table of the other attributes over all places of a map.

    Levels of a map come before other attributes, so ages of a whole map would be sums of all of its cells.
    """
    if not isinstance(layout, SquareLayout) or layout.combinations == 1:
        return ()
    names = tuple(schema.names[position] for position in layout.others if schema.attributes[position].size > 1)
    return (TableSpec(names=names, share=OVER_MAP_SHARE),)


def _has_several(schema: Schema, layout: LeafLayout, name: str) -> bool:
    return len(find_partition(schema, layout, (name,)).keys) > 1


def plain_workload(workload: str, schema: Schema) -> str:
    """Give a workload without what is asked about areas; those of the levels follow from the rest."""
    levels = {level for division in schema.areas for level in division.levels}
    kept = [item.strip() for item in workload.split(",") if item.strip() not in (levels | {AREAS})]
    return ",".join(kept) or MIX


def join_shares(levels: tuple[Fraction, ...], specs: Sequence[TableSpec]) -> tuple[Fraction, ...]:
    """Give the shares of the further tables, then those of the levels, which divide the rest."""
    own = tuple(spec.share for spec in specs if spec.share)
    rest = 1 - sum(own)
    return (*own, *(share * rest for share in levels))


def _read_file(written: Sequence[str]) -> list[str]:
    """Read the tables of a CSV (columns table and share), if one is named in place of a list."""
    if len(written) != 1 or not written[0].lower().endswith(".csv"):
        return list(written)
    rows = _read_rows(Path(written[0]), "tables", ("table", "share"))
    return [f"{row['table']}={row['share']}" if row["share"].strip() not in ("", "0") else row["table"] for row in rows]


def _read_rows(path: Path, name: str, columns: tuple[str, ...]) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = [row for row, _ in zip(csv.DictReader(stream), range(MOST_FILE), strict=False)]
    except (OSError, UnicodeDecodeError, csv.Error):
        raise ParameterError("{name} ({path}) cannot be read; give a CSV file in UTF-8", name=name, path=path) from None
    if not rows or any(row.get(column) is None for row in rows for column in columns):
        raise ParameterError(
            "{name} ({path}) must have the columns {columns}", name=name, path=path, columns=", ".join(columns)
        )
    return rows


# --- totals that are exact --------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkedBudget(CountBudget):
    """A budget with totals that others published: by area of the exact level, or the one total."""

    given: tuple[int, ...] | None = None
    is_total_exact: bool = False

    @property
    def given_total(self) -> int | None:
        """The number of records, where others have published all of it."""
        return None if self.given is None or NOT_GIVEN in self.given else sum(self.given)


def read_totals(
    written: Sequence[str] | None, exact: Sequence[str], schema: Schema, layout: LeafLayout
) -> tuple[int, ...] | None:
    """Read totals that others published: a CSV (level, area, count), or the numbers in the order of the areas."""
    if written is None:
        return None
    level = _find_exact_level(exact, schema)
    if level is None:
        return _read_numbers(written if not _is_file(written) else _list_total(written), 1)
    names = find_column(schema, level).labels.tolist()
    keys = find_partition(schema, layout, (level,)).keys[:, 0]
    if not _is_file(written):
        return _read_numbers(written, len(keys))
    rows = [row for row in _read_rows(Path(written[0]), "totals", ("level", "area", "count")) if row["level"] == level]
    listed = {row["area"]: row["count"] for row in rows}
    strange = [area for area in listed if area not in names]
    if strange or len(listed) < len(rows) or not listed:
        raise ParameterError("totals ({path}) must list areas of {level}, each once", path=written[0], level=level)
    return _read_numbers([listed.get(names[key], str(NOT_GIVEN)) for key in keys], len(keys))


def _is_file(written: Sequence[str]) -> bool:
    return len(written) == 1 and written[0].lower().endswith(".csv")


def _list_total(written: Sequence[str]) -> list[str]:
    rows = _read_rows(Path(written[0]), "totals", ("level", "area", "count"))
    return [row["count"] for row in rows if row["level"] == TOTAL]


def _read_numbers(written: Sequence[str], size: int) -> tuple[int, ...]:
    texts = [number.strip() for number in written]
    is_whole = all(
        number == str(NOT_GIVEN) or (number.isascii() and number.isdigit() and len(number) < 16) for number in texts
    )
    if not is_whole or len(texts) != size:
        raise ParameterError("totals must be {size} whole numbers from 0 on, one for each exact number", size=size)
    return tuple(map(int, texts))


def take_exact(budget: CountBudget, *, given: tuple[int, ...] | None, is_total_exact: bool) -> LinkedBudget:
    """Give the share of a total that is exact to the cells: nothing is measured where it is known."""
    plain = {field.name: getattr(budget, field.name) for field in dataclasses.fields(CountBudget)}
    if is_total_exact and budget.total_part is not None:
        plain |= {"cells_part": budget.cells_part + budget.total_part, "total_part": None}
    return LinkedBudget(**plain, given=given, is_total_exact=is_total_exact)


# --- expected errors --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TableError:
    """The error to expect of the figures of a further table: the root mean square of their standard deviations."""

    spec: TableSpec
    groups: int
    deviation: float

    def describe(self) -> Text:
        """Tell it in a line."""
        names = " x ".join(self.spec.names)
        if self.spec.is_exact:
            return text("{names}: {figures} figures, exact", names=names, figures=self.groups)
        if not self.spec.share and len(self.spec.names) > 1:
            return text(
                "{names}: {figures} figures, standard deviation {deviation}, added up from cells; to measure them, give"
                " a share of the promise, such as {table}=1/10",
                names=names,
                figures=self.groups,
                deviation=f"{self.deviation:.1f}",
                table=str(self.spec),
            )
        return text(
            "{names}: {figures} figures, standard deviation {deviation}",
            names=names,
            figures=self.groups,
            deviation=f"{self.deviation:.1f}",
        )

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return {
            "table": "*".join(self.spec.names),
            "share": str(self.spec.share),
            "exact": self.spec.is_exact,
            "figures": self.groups,
            "standard_deviation": round(self.deviation, 3),
        }


@lru_cache(maxsize=16)
def foresee_tables(
    layout: LeafLayout,
    schema: Schema,
    specs: tuple[TableSpec, ...],
    noises: tuple[CountNoise, ...],
    table_noises: tuple[CountNoise, ...],
    total_variance: float,
) -> tuple[TableError, ...]:
    """Work out the errors of further tables from public facts: those of the noise do not depend on the table."""
    variances = [noise.variance for noise in noises]
    own = iter([noise.variance for noise in table_noises])
    measured = [(spec, 0.0 if spec.is_exact else next(own)) for spec in measured_specs(specs)]
    squares = link_nothing(layout, schema, variances, measured, total_variance)
    listed = [*specs, *(TableSpec(names=(level,)) for one in schema.areas for level in one.levels)]
    unique = {spec.names: spec for spec in reversed(listed)}
    found = []
    for spec in reversed(unique.values()):
        groups = find_groups(schema, layout, spec.names)
        errors = squares.answer_groups(groups.leaves, groups.groups, groups.weights)[1]
        deviation = float(np.sqrt(np.mean(errors**2)))
        found.append(TableError(spec=spec, groups=len(groups.keys), deviation=deviation))
    return tuple(found)


def link_nothing(
    layout: LeafLayout,
    schema: Schema,
    variances: Sequence[float],
    measured: Sequence[tuple[TableSpec, float]],
    total_variance: float,
) -> LinkedSquares | LeastSquares:
    """Least squares with noise of these variances, around a table of nobody: errors are those of any table."""
    held = layout.possible_cells
    tree = LeastSquares(
        parents=layout.parents,
        noisy=[np.zeros(size) for size in layout.sizes],
        variances=[np.where(cells > 0, one, 0.0) for cells, one in zip(held, variances, strict=True)],
        total=0.0,
        total_variance=total_variance,
    )
    rows: list[Codes] = []
    leaves: list[Codes] = []
    noise: list[Reals] = []
    first = 0
    for spec, variance in measured:
        groups = find_partition(schema, layout, spec.names)
        size = len(groups.keys) - (variance == 0 and total_variance == 0)
        inside = groups.groups < size
        rows.append(groups.groups[inside] + first)
        leaves.append(groups.leaves[inside])
        noise.append(np.full(size, variance))
        first += size
    if not first:
        return tree
    joined = np.concatenate(noise)
    return LinkedSquares(
        tree=tree,
        rows=np.concatenate(rows),
        leaves=np.concatenate(leaves),
        noisy=np.zeros(first),
        variances=joined,
    )


# --- the share of areas -----------------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def choose_area_share(workload: str, schema: Schema, layout: LeafLayout, names: tuple[str, ...]) -> Fraction:
    """Choose the share of areas that makes the geometric mean of the errors of a workload least."""
    if not names:
        return Fraction(0)
    sizes = [len(find_partition(schema, layout, (name,)).keys) for name in names]
    if sum(sizes) > MOST_FACTORED:
        return AREAS_SHARE
    parts = _list_parts(workload, schema, layout)
    costs = {share: _weigh(share, schema, layout, names, parts) for share in TRIED_SHARES}
    return min(costs, key=lambda share: costs[share])


def _list_parts(workload: str, schema: Schema, layout: LeafLayout) -> list[tuple[Codes, Codes, Reals | None]]:
    """The questions of a workload: its plain parts, and the areas of every level that it asks for."""
    asked = [item.strip() for item in workload.split(",")]
    levels = [level for division in schema.areas for level in division.levels]
    areas = [level for level in levels if AREAS in asked or level in asked]
    plain = [item for item in asked if item not in (*levels, AREAS)]
    parts: list[tuple[Codes, Codes, Reals | None]] = []
    for item in read_items(",".join(plain), layout) if plain else ():
        parts += [(one.leaves, one.numbers, None) for one in list_questions(item, layout)]
    for level in areas:
        groups = find_groups(schema, layout, (level,))
        chosen = groups.groups % max(1, len(groups.keys) // MOST_ASKED) == 0
        weights = None if groups.weights is None else groups.weights[chosen]
        parts.append((groups.leaves[chosen], groups.groups[chosen], weights))
    return parts


def _weigh(
    share: Fraction,
    schema: Schema,
    layout: LeafLayout,
    names: tuple[str, ...],
    parts: list[tuple[Codes, Codes, Reals | None]],
) -> float:
    rest = 1 - float(share)
    variances = [1 / (rest * float(one)) ** 2 for one in layout.weights]
    own = 1 / (float(share) / len(names)) ** 2
    squares = link_nothing(layout, schema, variances, [(TableSpec(names=(name,)), own) for name in names], 0.0)
    errors = [squares.answer_groups(leaves, groups, weights)[1] for leaves, groups, weights in parts]
    means = [float(np.mean(one[one > 0] ** 2)) for one in errors if bool((one > 0).any())]
    return float(np.mean(np.log(means))) if means else 0.0


def read_given(given: tuple[int, ...] | None) -> Integers | None:
    """Totals of others as an array."""
    return None if given is None else np.array(given, dtype=np.int64)
