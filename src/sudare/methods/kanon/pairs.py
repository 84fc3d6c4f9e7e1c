"""What counts of pairs of attributes say of a grouping, without opening the table.

The steward keeps, beside the history, how many rows have each pair of values of every two attributes. A class of a
grouping lies inside one cell of every pair, so that the pairs settle much for certain. For the rest, the table of
largest entropy with all these pair tables (iterative proportional fitting) gives the expected rows m of every class; a
class is smaller than k, and not empty, with the chance P(1 <= X < k), X Poisson of mean m.

Pair counts are as private as the table: they stay with the steward, like the history.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from sudare.atomic import replaced_file
from sudare.errors import SourceError
from sudare.methods.kanon.history import UNREADABLE, open_arrays
from sudare.methods.kanon.recode import Pieces
from sudare.methods.kanon.request import Grouping, RequestOption
from sudare.schema.arrays import Codes, Reals

FORMAT = 1
MAX_CLASSES = 60_000  # classes of a grouping that are fitted; of more nothing is predicted
FIT_ROUNDS = 12
# Chance of holding at the upper end, of failing at the lower: nine in ten lie between. Chosen so that it does on the
# tables of predict.py, where an answer at several k counts for each of them; by table it is .64 to 1.
INTERVAL_END = 0.18
FIT_TOLERANCE = 0.05  # rows by which a fitted pair table may miss its count

# logit P(every class holds k) = BASE + BREAKING ln E + CLASSES ln C + SIZE ln k, E the expected number of classes that
# break k, C that of classes at all. Fitted on ten tables of the package pydataset (DoctorContacts, Computers, SLID,
# diamonds, OFP, MedExp, CPSch3, Wages, PSID, LaborSupply), on phoneme, electricity, jm1 and metro, and on eight made-up
# tables, each with the same weight; benchmarks/kanon_predict.py measures others.
LOGIT_BASE, LOGIT_BREAKING, LOGIT_CLASSES, LOGIT_SIZE = 2.03, -1.425, -0.577, -0.419
LEAST_BREAKING = 1e-4
LEAST_EXPECTED = 0.01  # rows of a class that is counted among the classes


@dataclass(frozen=True, kw_only=True, eq=False)
class PairCounts:
    """Rows by value and by pair of values: `codes` (m, 2) that occur, and the rows of each."""

    schema: str
    rows: int
    singles: Mapping[str, Codes]  # rows of every value
    pairs: Mapping[tuple[str, str], tuple[Codes, Codes]] = field(repr=False)

    @classmethod
    def of(cls, schema: str, pieces: Pieces) -> PairCounts:
        """Count the pairs of all attributes of a table, the sensitive ones too."""
        names, codes, weights = pieces.names, pieces.codes, pieces.weights
        sizes = [attribute.size for attribute in pieces.attributes]
        singles = {
            name: np.bincount(codes[:, axis], weights=weights, minlength=sizes[axis]).astype(np.int64)
            for axis, name in enumerate(names)
        }
        pairs = {}
        for one, other in itertools.combinations(range(len(names)), 2):
            values, place = np.unique(codes[:, [one, other]], axis=0, return_inverse=True)
            rows = np.bincount(place.reshape(-1), weights=weights).astype(np.int64)
            pairs[names[one], names[other]] = values, rows
        return cls(schema=schema, rows=pieces.rows, singles=singles, pairs=pairs)

    def covers(self, option: RequestOption) -> bool:
        """Tell whether all attributes of an option were counted."""
        return all(name in self.singles for name in option)

    def group_single(self, option: RequestOption, name: str) -> Reals:
        """Count the rows of every group of one attribute."""
        grouping = option[name]
        return _sum_by(grouping.group_of, self.singles[name], grouping.size)

    def group_pair(self, option: RequestOption, one: str, other: str) -> Reals:
        """Count the rows of every two groups (groups of one, groups of the other)."""
        is_kept_so = (one, other) in self.pairs
        values, rows = self.pairs[(one, other) if is_kept_so else (other, one)]
        first, second = (values[:, 0], values[:, 1]) if is_kept_so else (values[:, 1], values[:, 0])
        wide, narrow = option[one].size, option[other].size
        key = option[one].group_of[first] * narrow + option[other].group_of[second]
        return _sum_by(key, rows, wide * narrow).reshape(wide, narrow)

    def measure_loss(self, grouping: Grouping) -> float:
        """Measure the loss of one attribute, exactly: the other values of its group, as a share, over all rows."""
        sizes = np.bincount(grouping.group_of, minlength=grouping.size)[grouping.group_of]
        lost = (sizes - 1) / max(1, grouping.attribute.size - 1)
        return float((lost * self.singles[grouping.attribute.name]).sum() / max(1, self.rows))

    def write(self, path: str | Path) -> None:
        """Write the counts beside a history, readable by their owner alone."""
        arrays = {f"single/{name}": rows for name, rows in self.singles.items()}
        for (one, other), (values, rows) in self.pairs.items():
            arrays[f"pair/{one}\n{other}"] = np.column_stack([values, rows])
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
        pairs = {}
        for key, table in arrays.items():
            if key.startswith("pair/"):
                one, other = key.removeprefix("pair/").split("\n")
                pairs[one, other] = table[:, :2], table[:, 2]
        return cls(schema=schema, rows=int(rows), singles=singles, pairs=pairs)


def _sum_by(key: Codes, rows: Codes, count: int) -> Reals:
    return np.asarray(np.bincount(key, weights=rows, minlength=count), dtype=np.float64)


# --- what they say of one grouping ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class ForeseenClasses:
    """The classes of an option as far as pair counts tell.

    `tables` are the counts of single attributes and pairs, all of them unions of classes. `sizes` are the rows of the
    classes themselves, known for one or two attributes. `expected` are those that the fit expects (None: unknown).
    Where there are too many classes, they are those of some of the attributes (`is_partial`), which are unions of
    classes: if these are likely to break the promise, so are the classes.
    """

    tables: tuple[Reals, ...]
    sizes: Reals | None
    expected: Reals | None
    is_partial: bool = False

    @classmethod
    def of(cls, counts: PairCounts, option: RequestOption) -> ForeseenClasses:
        """Foresee the classes of an option whose attributes were all counted."""
        names = tuple(option)
        singles = [counts.group_single(option, name) for name in names]
        pairs = {pair: counts.group_pair(option, *pair) for pair in itertools.combinations(names, 2)}
        tables = (*singles, *(table.reshape(-1) for table in pairs.values()))
        if len(names) <= 2:
            sizes = tables[-1] if tables else np.array([float(counts.rows)])
            return cls(tables=tables, sizes=sizes[sizes > 0], expected=None)
        fitted = names if math.prod(map(len, singles)) <= MAX_CLASSES else _choose_fitted(option)
        expected = fit_groups(counts, {name: option[name] for name in fitted})
        return cls(tables=tables, sizes=None, expected=expected, is_partial=len(fitted) < len(names))

    @property
    def largest_k(self) -> int:
        """Give the largest k that the smallest class can have; its very size for one or two attributes."""
        known = self.tables if self.sizes is None else (self.sizes,)
        return int(min((table[table > 0].min(initial=math.inf) for table in known), default=0))

    @property
    def largest_k_of_any(self) -> int:
        """Give the most rows that any class can have: beyond, nothing is left to publish."""
        known = self.tables if self.sizes is None else (self.sizes,)
        return int(min((table.max(initial=0.0) for table in known), default=0))

    def fewest_suppressed(self, k: int) -> int:
        """Count rows that are in classes below k for certain; all of them for one or two attributes."""
        known = self.tables if self.sizes is None else (self.sizes,)
        return int(max((table[table < k].sum() for table in known), default=0))

    def chance(self, k: int) -> float | None:
        """Give the chance that every class holds k; None if nothing is predicted."""
        return None if self.expected is None else self.chance_of_none(self.expect_breaking(k), k)

    @cached_property
    def class_count(self) -> int:
        """Count the classes that are known or expected."""
        if self.expected is None:
            return 0 if self.sizes is None else len(self.sizes)
        return int((self.expected > LEAST_EXPECTED).sum())

    def chance_of_none(self, breaking: float, k: int) -> float:
        """Give the chance that no class breaks a promise where so many are expected to."""
        odds = LOGIT_BASE + LOGIT_BREAKING * math.log(max(LEAST_BREAKING, breaking))
        odds += LOGIT_CLASSES * math.log(max(1, self.class_count)) + LOGIT_SIZE * math.log(k)
        return 1 / (1 + math.exp(-min(30.0, max(-30.0, odds))))

    def expect_breaking(self, k: int) -> float:
        """Count the classes below k that are expected; those that are known, for one or two attributes."""
        if self.expected is None:
            return 0.0 if self.sizes is None else float((self.sizes < k).sum())
        from scipy.special import pdtr

        return float((pdtr(k - 1, self.expected) - np.exp(-self.expected)).sum())

    def expect_left_out(self, k: int) -> float:
        """Count the rows in classes below k that are expected; those that are known, for one or two attributes."""
        return float(self.fewest_suppressed(k)) if self.sizes is not None else (self.expect_suppressed(k) or 0.0)

    def expect_suppressed(self, k: int) -> float | None:
        """Count the rows in classes below k that are expected: the sum of E[X; X < k]."""
        if self.expected is None:
            return None
        from scipy.special import pdtr

        return float((self.expected * pdtr(k - 2, self.expected)).sum()) if k >= 2 else 0.0

    def grow(self, factor: float) -> ForeseenClasses:
        """Foresee the classes when the table has so many times the rows: all of them larger, and some new ones.

        As many classes appear as a table of this size has classes of one row (Good and Turing), for each doubling; they
        are small. Nothing is certain then.
        """
        expected = self.expected if self.expected is not None else self.sizes
        if expected is None:
            return ForeseenClasses(tables=(), sizes=None, expected=None)
        singles = (
            float((expected == 1).sum()) if self.sizes is not None else float((expected * np.exp(-expected)).sum())
        )
        new = math.ceil(max(0.0, factor - 1) * singles) if singles >= LEAST_BREAKING else 0
        grown = np.concatenate([expected * factor, np.ones(min(new, MAX_CLASSES))])
        return ForeseenClasses(tables=(), sizes=None, expected=grown, is_partial=self.is_partial)

    def interval(self, least_chance: float = INTERVAL_END) -> tuple[float, float, float] | None:
        """Give the k that holds with an even chance, and the interval of nine in ten; None if nothing is predicted."""
        if self.expected is None:
            return None
        highest = self.largest_k if self.tables else int(max(1.0, self.expected.max(initial=1.0)))

        def largest_with(chance: float) -> int:
            low, high = 1, highest  # the chance falls with k; at 1 every class holds it
            while low < high:
                middle = (low + high + 1) // 2
                if (self.chance(middle) or 0.0) >= chance:
                    low = middle
                else:
                    high = middle - 1
            return low

        return largest_with(0.5), largest_with(1 - least_chance), largest_with(least_chance)


def _choose_fitted(option: RequestOption) -> tuple[str, ...]:
    """Choose attributes whose classes are few enough to fit: as many groups as possible, the middle-sized first."""
    chosen: list[str] = []
    classes = 1
    for name in sorted(option, key=lambda name: (option[name].size == 1, option[name].size)):
        if classes * option[name].size <= MAX_CLASSES:
            chosen.append(name)
            classes *= option[name].size
    return tuple(name for name in option if name in chosen)


def fit_groups(counts: PairCounts, option: RequestOption) -> Reals | None:
    """Fit the expected rows of all classes of an option, in the order of its attributes; None if they are too many."""
    names = tuple(option)
    singles = [counts.group_single(option, name) for name in names]
    pairs = {pair: counts.group_pair(option, *pair) for pair in itertools.combinations(names, 2)}
    return _fit(names, singles, pairs, counts.rows)


def _fit(
    names: tuple[str, ...], singles: list[Reals], pairs: Mapping[tuple[str, str], Reals], rows: int
) -> Reals | None:
    """Fit the expected rows of all classes to the pair tables; None if there are too many classes."""
    shape = [len(single) for single in singles]
    if math.prod(shape) > MAX_CLASSES:
        return None
    classes = np.full(shape, float(rows))
    for axis, single in enumerate(singles):
        classes *= (single / max(1, rows)).reshape([-1 if place == axis else 1 for place in range(len(shape))])
    for _ in range(FIT_ROUNDS):
        worst = 0.0
        for (one, other), target in pairs.items():
            axes = (names.index(one), names.index(other))
            fitted = classes.sum(axis=tuple(place for place in range(len(shape)) if place not in axes))
            worst = max(worst, float(np.abs(fitted - target).max()))
            ratio = np.divide(target, fitted, out=np.zeros_like(fitted), where=fitted > 0)
            classes *= ratio.reshape([shape[place] if place in axes else 1 for place in range(len(shape))])
        if worst < FIT_TOLERANCE:
            break
    return classes.reshape(-1)
