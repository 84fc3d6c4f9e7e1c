"""What counts of pairs and triples of attributes say of a grouping, without opening the table.

The steward keeps, beside the history, how many rows have each pair of values of every two attributes, and of three
where these are few enough. A class of a grouping lies inside one cell of every such table, so that they settle much for
certain; foresee_classes.py predicts the rest.

Pair counts are as private as the table: they stay with the steward, like the history.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sudare.atomic import replaced_file
from sudare.errors import SourceError
from sudare.methods.kanon.history import UNREADABLE, open_arrays
from sudare.methods.kanon.recode import Pieces
from sudare.methods.kanon.request import Grouping, RequestOption
from sudare.schema.arrays import Codes, Reals

FORMAT = 1
MAX_TRIPLE_ENTRIES = 400_000  # combinations of three values that are kept, of all triples together: a few megabytes
MAX_TRIPLE_WORK = 30_000_000  # rows that are read to count triples, each triple for itself: some CPU seconds
MAX_CLASSES = 60_000  # classes of a grouping that are fitted; of more nothing is predicted


@dataclass(frozen=True, kw_only=True, eq=False)
class PairCounts:
    """Rows by value and by pair of values: `codes` (m, 2) that occur, and the rows of each."""

    schema: str
    rows: int
    singles: Mapping[str, Codes]  # rows of every value
    pairs: Mapping[tuple[str, ...], tuple[Codes, Codes]] = field(repr=False)
    triples: Mapping[tuple[str, ...], tuple[Codes, Codes]] = field(repr=False, default_factory=dict)

    @classmethod
    def of(cls, schema: str, pieces: Pieces) -> PairCounts:
        """Count the pairs of all attributes of a table, the sensitive ones too, and triples while they are few."""
        names, weights = pieces.names, pieces.weights
        sizes = [attribute.size for attribute in pieces.attributes]
        singles = {
            name: np.bincount(pieces.codes[:, axis], weights=weights, minlength=sizes[axis]).astype(np.int64)
            for axis, name in enumerate(names)
        }
        columns = [np.unique(pieces.codes[:, axis], return_inverse=True) for axis in range(len(names))]
        pairs: dict[tuple[str, ...], tuple[Codes, Codes]] = {
            (names[one], names[other]): _count_combinations([columns[one], columns[other]], weights)
            for one, other in itertools.combinations(range(len(names)), 2)
        }
        triples = _count_triples(names, columns, weights)
        return cls(schema=schema, rows=pieces.rows, singles=singles, pairs=pairs, triples=triples)

    def covers(self, option: RequestOption) -> bool:
        """Tell whether all attributes of an option were counted."""
        return all(name in self.singles for name in option)

    def has_triples(self, names: Sequence[str]) -> bool:
        """Tell whether all triples of some attributes were counted."""
        return all(
            any(order in self.triples for order in itertools.permutations(triple))
            for triple in itertools.combinations(names, 3)
        )

    def group_single(self, option: RequestOption, name: str) -> Reals:
        """Count the rows of every group of one attribute."""
        grouping = option[name]
        return _sum_by(grouping.group_of, self.singles[name], grouping.size)

    def group_table(self, option: RequestOption, names: Sequence[str]) -> Reals | None:
        """Count the rows of all groups of one, two or three attributes together; None if they were not counted.

        One axis for every attribute, in the order of `names`.
        """
        if len(names) == 1:
            return self.group_single(option, names[0])
        tables = self.pairs if len(names) == 2 else self.triples
        kept = next((order for order in itertools.permutations(names) if order in tables), None)
        if kept is None:
            return None
        values, rows = tables[kept]
        shape = [option[name].size for name in names]
        key = np.zeros(len(rows), dtype=np.int64)
        for name, size in zip(names, shape, strict=True):
            key = key * size + option[name].group_of[values[:, kept.index(name)]]
        return _sum_by(key, rows, math.prod(shape)).reshape(shape)

    def group_tables(self, option: RequestOption) -> dict[tuple[int, ...], Reals]:
        """Count the groups of all single attributes, pairs and triples of an option, by the places of its attributes.

        Of triples only those whose table is no larger than what is fitted.
        """
        names, tables = tuple(option), {}
        for width in (1, 2, 3):
            for places in itertools.combinations(range(len(names)), width):
                if width == 3 and math.prod(option[names[place]].size for place in places) > MAX_CLASSES:
                    continue
                table = self.group_table(option, [names[place] for place in places])
                if table is not None:
                    tables[places] = table
        return tables

    def measure_loss(self, grouping: Grouping) -> float:
        """Measure the loss of one attribute, exactly: the other values of its group, as a share, over all rows."""
        sizes = np.bincount(grouping.group_of, minlength=grouping.size)[grouping.group_of]
        lost = (sizes - 1) / max(1, grouping.attribute.size - 1)
        return float((lost * self.singles[grouping.attribute.name]).sum() / max(1, self.rows))

    def write(self, path: str | Path) -> None:
        """Write the counts beside a history, readable by their owner alone."""
        arrays = {f"single/{name}": rows for name, rows in self.singles.items()}
        for names, (values, rows) in self.pairs.items():
            arrays["pair/" + "\n".join(names)] = np.column_stack([values, rows])
        for names, (values, rows) in self.triples.items():
            arrays["triple/" + "\n".join(names)] = np.column_stack([values, rows])
        head = np.array([str(FORMAT), self.schema, str(self.rows)])
        with replaced_file(Path(path), error=SourceError) as place:
            with place.open("wb") as stream:
                np.savez_compressed(stream, head=head, **arrays)  # type: ignore[arg-type]  # its stub knows no names
            place.chmod(0o600)

    @classmethod
    def read(cls, path: str | Path) -> PairCounts | None:
        """Read counts; None if there are none.

        Error: SourceError for a file that is none, or of a newer format.
        """
        try:
            with open_arrays(path) as arrays:
                return cls._from_arrays(dict(arrays))
        except FileNotFoundError:
            return None
        except UNREADABLE:
            raise SourceError(
                "the pair counts {file} cannot be read; remove the file, and the next release with --history makes it"
                " anew",
                file=path,
            ) from None

    @classmethod
    def _from_arrays(cls, arrays: dict[str, Codes]) -> PairCounts:
        version, schema, rows = arrays.pop("head").tolist()
        if version != str(FORMAT):
            raise ValueError
        singles = {key.removeprefix("single/"): rows for key, rows in arrays.items() if key.startswith("single/")}
        return cls(
            schema=schema,
            rows=int(rows),
            singles=singles,
            pairs=_read_tables(arrays, "pair/", 2, singles),
            triples=_read_tables(arrays, "triple/", 3, singles),
        )


def _read_tables(
    arrays: dict[str, Codes], kind: str, width: int, singles: dict[str, Codes]
) -> dict[tuple[str, ...], tuple[Codes, Codes]]:
    """Read the tables of so many attributes; ValueError unless each sums up to the counts of its attributes."""
    tables = {}
    for key, table in arrays.items():
        if key.startswith(kind):
            names = tuple(key.removeprefix(kind).split("\n"))
            if len(names) != width or table.shape[1] != width + 1 or int(table.min(initial=0)) < 0:
                raise ValueError
            for place, name in enumerate(names):
                if int(table[:, place].max(initial=0)) >= max(1, len(singles[name])):
                    raise ValueError
                summed = np.bincount(table[:, place], weights=table[:, width], minlength=len(singles[name]))
                if not np.array_equal(summed, singles[name]):
                    raise ValueError
            tables[names] = table[:, :width], table[:, width]
    return tables


_Column = tuple[Codes, Codes]
"""The codes of an attribute that occur, and for every piece the place of its code among them."""


def _count_combinations(columns: Sequence[_Column], weights: Codes) -> tuple[Codes, Codes]:
    """Count the rows of all combinations of a few columns that occur."""
    key = np.zeros(len(weights), dtype=np.int64)
    for values, place in columns:
        key = key * len(values) + place
    occurring, number = np.unique(key, return_inverse=True)
    rows = np.bincount(number.reshape(-1), weights=weights, minlength=len(occurring)).astype(np.int64)
    codes = []
    for values, _ in reversed(columns):
        occurring, place = np.divmod(occurring, max(1, len(values)))
        codes.append(values[place])
    return np.column_stack(codes[::-1]), rows


def _count_triples(
    names: Sequence[str], columns: Sequence[_Column], weights: Codes
) -> dict[tuple[str, ...], tuple[Codes, Codes]]:
    """Count triples, those of fewest possible combinations first, while they are few and quick to count."""
    possible = {
        axes: math.prod(len(columns[axis][0]) for axis in axes) for axes in itertools.combinations(range(len(names)), 3)
    }
    triples: dict[tuple[str, ...], tuple[Codes, Codes]] = {}
    left, most = MAX_TRIPLE_ENTRIES, MAX_TRIPLE_WORK // max(1, len(weights))
    for axes in sorted(possible, key=lambda axes: (possible[axes], axes))[:most]:
        if possible[axes] >= 1 << 62:
            break
        table = _count_combinations([columns[axis] for axis in axes], weights)
        left -= len(table[1])
        if left < 0:
            break
        triples[tuple(names[axis] for axis in axes)] = table
    return triples


def _sum_by(key: Codes, rows: Codes, count: int) -> Reals:
    return np.asarray(np.bincount(key, weights=rows, minlength=count), dtype=np.float64)
