"""What several releases of one table tell together: joint k.

Whoever knows a person's values knows the person's class in every release. Where rows of the releases can be matched (a
column left unchanged in all of them, the same order, an identifier), the person is among the rows of the intersection
of these classes; "not in this release" is a class too. Joint k is the smallest intersection. It is exact for that
attacker, and a floor for every weaker one: if it reaches k, the releases side by side are k-anonymous.

The classes of earlier releases are kept beside the history. They are as private as the table: the steward keeps them.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sudare.atomic import replaced_file
from sudare.counts import Countable, Counts
from sudare.counts.relabelling import ROWS_OF_PERSON, SUPPRESSED, Recodable
from sudare.errors import Infeasible, SourceError
from sudare.methods.kanon.criteria import count_values
from sudare.methods.kanon.history import UNREADABLE, open_arrays
from sudare.methods.kanon.recode import Pieces, RecodedTable, number_classes
from sudare.methods.kanon.relabel import suppress_pieces
from sudare.methods.kanon.tuples import Classes
from sudare.schema import Attribute, Schema, Values
from sudare.schema.arrays import Booleans, Codes
from sudare.text import Text, text

FORMAT = 2
MAX_INTERSECTIONS = 1 << 18  # that are bounded one by one; with more the bound is 1

ROWS_GONE = text(
    "rows were changed or taken away since an earlier release, or it did not keep how many there were, so that nothing"
    " can be said; publish from the rows of the earlier releases"
)
OTHER_VALUES = text(
    "an earlier release has columns or values that the schema has no more, so that nothing can be said; publish with"
    " the schema of the earlier release, or, if it is of another table, keep a history of its own for each table"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleasedClasses:
    """The class of every combination of a release, with its rows; SUPPRESSED where they were left out.

    A combination whose rows of equal values were dealt out to several classes at random stands there once for each.
    `rows_of` is empty in files of the first format, which kept the number of all rows alone. `domains` seals the values
    of every attribute, so that codes can be compared after the schema was edited.
    """

    schema: str
    rows: int
    names: tuple[str, ...]
    codes: Codes
    class_of: Codes
    rows_of: Codes
    table: str = ""
    domains: tuple[str, ...] = ()

    @classmethod
    def of(cls, schema: Schema | str, recoded: RecodedTable) -> ReleasedClasses:
        """Read the classes of a recoding, by combination of its quasi-identifiers."""
        pieces = recoded.pieces
        quasi = pieces.attributes[: pieces.quasi]
        both, place = np.unique(
            np.column_stack([pieces.codes[:, : pieces.quasi], recoded.class_of]), axis=0, return_inverse=True
        )
        return cls(
            schema=schema if isinstance(schema, str) else schema.fingerprint,
            rows=pieces.rows,
            names=pieces.names[: pieces.quasi],
            codes=both[:, :-1],
            class_of=both[:, -1],
            rows_of=np.bincount(place.reshape(-1), weights=pieces.weights, minlength=len(both)).astype(np.int64),
            table="" if isinstance(schema, str) else schema.name,
            domains=tuple(_seal_domain(attribute) for attribute in quasi),
        )

    def is_of(self, schema: Schema) -> bool:
        """Tell whether it is a release of the table of a schema, which may have been edited since."""
        return self.schema == schema.fingerprint or (self.table == schema.name and bool(self.domains))

    def is_comparable(self, attributes: Mapping[str, Attribute]) -> bool:
        """Tell whether its codes mean what those of these attributes mean."""
        return all(
            name in attributes and (not self.domains or self.domains[at] == _seal_domain(attributes[name]))
            for at, name in enumerate(self.names)
        )

    def find(self, names: Sequence[str], codes: Codes) -> Codes:
        """Find the class of combinations over (at least) the names of the release; SUPPRESSED if it has none."""
        own = codes[:, [list(names).index(name) for name in self.names]]
        ids = number_classes(np.concatenate([self.codes, own]))
        class_of_id = np.full(int(ids.max(initial=-1)) + 1, SUPPRESSED, dtype=np.int64)
        class_of_id[ids[: len(self.codes)]] = self.class_of
        return np.asarray(class_of_id[ids[len(self.codes) :]], dtype=np.int64)


def _seal_domain(attribute: Attribute) -> str:
    """Hash what the codes of an attribute mean; role and hierarchy do not change it."""
    plain = replace(attribute, role="plain", hierarchy=None, from_data=False)
    facts = Schema(name="", attributes=(plain,)).to_dict()["attributes"]
    return hashlib.sha256(json.dumps(facts, ensure_ascii=False, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class JointSize:
    """How few rows all releases together leave alike, and how many releases there are.

    `k` is exact where every row has its class in every release for certain, else a lower bound (`is_exact` False);
    None where nothing can be bounded, for the reason `problem`.
    """

    k: int | None
    releases: int
    is_exact: bool = True
    problem: Text | None = None

    def describe(self) -> Text:
        """Say it to the steward."""
        if self.problem is not None:
            return text(
                "all {count} releases of this table together: {problem}", count=self.releases, problem=self.problem
            )
        if not self.is_exact:
            return text(
                "all {count} releases of this table together: whoever can match their rows still finds at least {k}"
                " rows alike, if rows were only added since the earlier releases; it may be more, since which rows are"
                " new, or how equal rows were divided, is not known",
                count=self.releases,
                k=self.k,
            )
        return text(
            "all {count} releases of this table together: whoever can match their rows still finds at least {k} rows"
            " alike",
            count=self.releases,
            k=self.k,
        )


def measure_joint(source: Countable, recoded: RecodedTable, earlier: Sequence[ReleasedClasses]) -> JointSize:
    """Intersect the classes of a new release with those of all earlier ones, and count the smallest."""
    classes = [ReleasedClasses.of("", recoded), *earlier]
    attributes = {attribute.name: attribute for attribute in source.schema.attributes}
    if not all(release.is_comparable(attributes) for release in classes):
        return JointSize(k=None, releases=len(classes), problem=OTHER_VALUES)
    pieces, names = recoded.pieces, tuple(dict.fromkeys(name for release in classes for name in release.names))
    if not set(names) <= set(pieces.names):
        pieces = Pieces.of(source.count(names), names)
    return bound_joint(pieces, classes)


def bound_joint(pieces: Pieces, classes: Sequence[ReleasedClasses]) -> JointSize:
    """Count the smallest intersection of classes of releases of a table; a lower bound where it is not determined.

    A combination has its class for certain if one class has all rows that the table has of it. Else (rows were added
    since, or equal rows were dealt out) only bounds are known: of n rows that share all such combinations, at least
    sum_i a_i - (j - 1) n and at most min_i b_i are in j classes at once, which hold between a_i and b_i of them
    (Frechet). An intersection that may hold somebody has at least max(1, lower bound) rows. Proof: proofs/kanon.md
    """
    located = [_locate(pieces, release) for release in classes]
    if any(release is None for release in located):
        return JointSize(k=None, releases=len(classes), problem=ROWS_GONE)
    known = [release for release in located if release is not None]
    together = np.column_stack([release.key for release in known])
    group_of = number_classes(together - int(together.min(initial=0)))  # it numbers codes from 0
    groups, first = np.unique(group_of, return_index=True)
    rows = np.bincount(group_of, weights=pieces.weights).astype(np.int64)
    keys = together[first]
    is_certain = (keys >= SUPPRESSED).all(axis=1)
    cells = _Cells(keys[is_certain], rows[groups[is_certain]])
    is_whole = all(
        cells.add_bounds(known, key, int(rows[group]))
        for key, group in zip(keys[~is_certain].tolist(), groups[~is_certain].tolist(), strict=True)
    )
    k = cells.smallest(pieces.rows) if is_whole else 1
    return JointSize(k=k, releases=len(classes), is_exact=bool(is_certain.all()))


@dataclass(frozen=True, kw_only=True, eq=False)
class _LocatedRelease:
    """The classes of one release beside the table: `key` of every piece is its class, or below SUPPRESSED a number.

    `shares` tells for each such number the classes of its rows (SUPPRESSED: not in the release) and how many each has.
    """

    key: Codes
    shares: Mapping[int, tuple[tuple[int, int], ...]]
    rows: Mapping[int, int]


def _locate(pieces: Pieces, release: ReleasedClasses) -> _LocatedRelease | None:
    """Find the class of every piece in a release; None if the table has lost rows of it since."""
    own = pieces.codes[:, [pieces.names.index(name) for name in release.names]]
    ids = number_classes(np.concatenate([release.codes, own]))
    then, now = ids[: len(release.codes)], ids[len(release.codes) :]
    count = int(ids.max(initial=-1)) + 1
    rows_now = np.bincount(now, weights=pieces.weights, minlength=count).astype(np.int64)
    is_old = bool(release.codes.size) and not release.rows_of.size
    if is_old:
        if release.rows != pieces.rows or len(np.unique(then)) < len(then):
            return None
        rows_then = np.where(np.bincount(then, minlength=count) > 0, rows_now, 0)
    else:
        rows_then = np.bincount(then, weights=release.rows_of, minlength=count).astype(np.int64)
    if (rows_then > rows_now).any():
        return None
    classes_then = np.bincount(then, minlength=count)
    key_of = np.full(count, SUPPRESSED, dtype=np.int64)
    key_of[then] = release.class_of
    unsure = np.flatnonzero((classes_then > 1) | ((classes_then == 1) & (rows_then < rows_now)))
    key_of[unsure] = SUPPRESSED - 1 - np.arange(len(unsure))
    shares: dict[int, dict[int, int]] = {int(key_of[at]): {} for at in unsure.tolist()}
    for at, number, part in zip(
        then.tolist(), release.class_of.tolist(), _parts(release, rows_then, then), strict=True
    ):
        if (key := int(key_of[at])) < SUPPRESSED:
            shares[key][number] = shares[key].get(number, 0) + part
    for at in unsure.tolist():
        absent, share = int(rows_now[at] - rows_then[at]), shares[int(key_of[at])]
        if absent:
            share[SUPPRESSED] = share.get(SUPPRESSED, 0) + absent
    return _LocatedRelease(
        key=key_of[now],
        shares={key: tuple(share.items()) for key, share in shares.items()},
        rows={int(key_of[at]): int(rows_now[at]) for at in unsure.tolist()},
    )


def _parts(release: ReleasedClasses, rows_then: Codes, then: Codes) -> list[int]:
    parts: list[int] = release.rows_of.tolist() if release.rows_of.size else rows_then[then].tolist()
    return parts


class _Cells:
    """The rows of every intersection of classes: at least and at most."""

    def __init__(self, keys: Codes, rows: Codes) -> None:
        self.bounds: dict[tuple[int, ...], list[int]] = {}
        for key, count in zip(map(tuple, keys.tolist()), rows.tolist(), strict=True):
            self._add(key, int(count), int(count))

    def _add(self, key: tuple[int, ...], least: int, most: int) -> None:
        if most and any(number != SUPPRESSED for number in key):  # rows that no release shows are found by nobody
            bounds = self.bounds.setdefault(key, [0, 0])
            bounds[0] += least
            bounds[1] += most

    def add_bounds(self, releases: Sequence[_LocatedRelease], key: Sequence[int], rows: int) -> bool:
        """Add rows whose classes are not certain in some releases; False if the intersections are too many."""
        choices: list[list[tuple[int, int, int]]] = []
        for release, number in zip(releases, key, strict=True):
            if number >= SUPPRESSED:
                choices.append([(number, rows, rows)])
            else:
                others = release.rows[number]  # of which so many may be elsewhere
                choices.append(
                    [(name, max(0, rows - (others - part)), min(rows, part)) for name, part in release.shares[number]]
                )
        if len(self.bounds) + math.prod(map(len, choices)) > MAX_INTERSECTIONS:
            return False
        for chosen in itertools.product(*choices):
            least = sum(low for _, low, _ in chosen) - (len(chosen) - 1) * rows
            self._add(tuple(name for name, _, _ in chosen), max(0, least), min(high for _, _, high in chosen))
        return True

    def smallest(self, rows: int) -> int:
        """Give the rows that every intersection has at least, if it has any."""
        return min((max(1, least) for least, _ in self.bounds.values()), default=rows)


def check_joint(joint: JointSize, least: int) -> None:
    """Refuse a release that would leave fewer rows alike than the steward asks for, with what to do.

    Error: Infeasible.
    """
    if joint.k is None:
        raise Infeasible(
            "joint k of {least} cannot be promised for {count} releases: {problem}",
            least=least,
            count=joint.releases,
            problem=joint.problem or "",
        )
    if joint.k < least and not joint.is_exact:
        raise Infeasible(
            "together with the {count} earlier releases it is not certain that {least} rows stay alike: rows were added"
            " since, or equal rows were divided at random; publish from the rows of the earlier releases and without"
            " --mondrian relaxed, or use coarser groups",
            count=joint.releases - 1,
            least=least,
        )
    if joint.k < least:
        raise Infeasible(
            "together with the {count} earlier releases fewer than {least} rows would stay alike; use the levels or"
            " groups of an earlier release, coarser ones, or fewer attributes",
            count=joint.releases - 1,
            least=least,
        )


# --- a recoding that keeps joint k: how an earlier release classed a row is one more thing that a class is asked about

EARLIER = "(earlier releases)"  # the name under which it is counted; no attribute of a schema has brackets
IN_NO_RELEASE = "-"  # how rows are classed that every earlier release left out


@dataclass(frozen=True, kw_only=True, slots=True)
class EarlierClasses:
    """Every class of an earlier release that meets a new class has at least `least` rows there.

    The union of two such classes is one: what meets it met one of them. So it is union-closed, and every recoding that
    divides classes keeps it. Rows added to a class may bring a row of another earlier class, so it is not monotone.
    """

    least: int

    is_union_closed = property(lambda self: True)
    is_monotone = property(lambda self: False)
    is_suppressible = property(lambda self: True)
    sensitive = property(lambda self: (EARLIER,))
    implied = property(lambda self: ())

    def satisfied(self, classes: Classes) -> Booleans:
        """Tell which classes cut no earlier one too small."""
        counts = count_values(classes, EARLIER)
        fewest = np.full(classes.count, np.inf)
        np.minimum.at(fewest, counts.classes, counts.rows)
        return np.asarray(fewest >= self.least, dtype=bool)

    def describe(self) -> Text:
        """Write it in a few words."""
        return text("together with earlier releases at least {least} rows alike", least=self.least)


def add_earlier(
    source: Recodable,
    quasi: Sequence[str],
    sensitive: Sequence[str],
    earlier: Sequence[ReleasedClasses],
    *,
    is_by_person: bool = False,
) -> Counts:
    """Count a table with one attribute more: how the earlier releases together class a row.

    Error: Infeasible if the class of some row in them is not certain.
    """
    attributes = {attribute.name: attribute for attribute in source.schema.attributes}
    if not all(release.is_comparable(attributes) for release in earlier):
        check_joint(JointSize(k=None, releases=len(earlier) + 1, problem=OTHER_VALUES), 1)
    names = tuple(dict.fromkeys([*quasi, *sensitive, *(name for release in earlier for name in release.names)]))
    counts = source.count_with_persons(names) if is_by_person else source.count(names)
    codes = counts.columns()
    _require_certain(Pieces.of(counts, names), earlier)
    classes = np.column_stack([release.find(names, codes) for release in earlier])
    together, is_absent = number_classes(classes + 1), (classes == SUPPRESSED).all(axis=1)
    in_none = {int(together[at]) for at in np.flatnonzero(is_absent).tolist()}
    count = int(together.max(initial=0)) + 1
    values = Values(tuple(IN_NO_RELEASE if number in in_none else str(number) for number in range(count)))
    kept = [names.index(name) for name in (*quasi, *sensitive)] + ([len(names)] if is_by_person else [])
    schema = Schema(
        name=counts.schema.name,
        attributes=(
            *(counts.schema.attributes[axis] for axis in kept),
            Attribute(name=EARLIER, domain=values, role="sensitive"),
        ),
    )
    return Counts.from_columns(schema, np.column_stack([codes[:, kept], together]), counts.values)


def _require_certain(pieces: Pieces, earlier: Sequence[ReleasedClasses]) -> None:
    """Refuse to nest in releases in which the class of a row is not certain."""
    for release in earlier:
        located = _locate(pieces, release)
        if located is None or located.shares:
            raise Infeasible(
                "rows were added, changed or taken away since an earlier release, or it divided equal rows at random,"
                " so that its classes are not those of the rows; publish from the rows of the earlier release to nest"
                " in it"
            )


def leave_out_enough(recoded: RecodedTable, least: int, max_suppressed_rows: int) -> RecodedTable | None:
    """Leave out more classes, until the rows left out of every earlier class are none or at least `least`.

    Whoever matches rows sees who is missing: a few rows of an earlier class that the new release leaves out are alone.
    A class that is left out has at least `least` rows of every earlier class that it meets (EarlierClasses), so one
    more for each earlier class is enough, and breaks no other. Rows that no release shows are found by nobody. None if
    the limit does not allow it.
    """
    pieces = recoded.pieces
    axis = pieces.names.index(EARLIER)
    earlier, weights = pieces.codes[:, axis], pieces.weights
    names = pieces.attributes[axis].labels(np.arange(pieces.attributes[axis].size)).tolist()
    is_shown = np.array([name != IN_NO_RELEASE for name in names])
    sizes, class_of = recoded.class_sizes, recoded.class_of.copy()
    while True:
        lost = np.bincount(earlier, weights=np.where(class_of == SUPPRESSED, weights, 0), minlength=len(names))
        too_few = np.flatnonzero((lost > 0) & (lost < least) & is_shown)
        if not too_few.size:
            break
        meeting = np.unique(class_of[(earlier == too_few[0]) & (class_of != SUPPRESSED)])
        if not meeting.size:
            return None  # the earlier class itself has fewer rows
        class_of[class_of == meeting[np.argmin(sizes[meeting])]] = SUPPRESSED
    if int(weights[class_of == SUPPRESSED].sum()) > max_suppressed_rows or not (class_of != SUPPRESSED).any():
        return None
    return suppress_pieces(recoded, class_of == SUPPRESSED)


def forget_earlier(recoded: RecodedTable) -> RecodedTable:
    """Take what was counted besides out again once classes are decided: it is nobody's business."""
    return replace(recoded, pieces=recoded.pieces.forget(EARLIER).forget(ROWS_OF_PERSON))


# --- the file beside the history --------------------------------------------------------------------------------------


def read_classes(path: str | Path) -> list[ReleasedClasses]:
    """Read the classes of all earlier releases; a file that is not there has none.

    Error: SourceError for a file that is none: without it a release cannot be compared with the earlier ones.
    """
    try:
        with open_arrays(path) as arrays:
            heads = sum(name.endswith("/head") for name in arrays.files)
            return [_from_arrays(arrays, number) for number in range(heads)]
    except FileNotFoundError:
        return []
    except UNREADABLE:
        raise SourceError(
            "the classes of earlier releases in {file} cannot be read; restore the file from a copy", file=path
        ) from None


def _from_arrays(arrays: np.lib.npyio.NpzFile, number: int) -> ReleasedClasses:
    head = arrays[f"{number}/head"].tolist()
    version, schema, rows = head[:3]
    if version not in ("1", str(FORMAT)):
        raise ValueError
    is_old = version == "1"  # there followed whether rows were divided, which the codes tell, and the names
    names = head[4:] if is_old else head[4 : 4 + (len(head) - 4) // 2]
    return ReleasedClasses(
        schema=schema,
        rows=int(rows),
        names=tuple(names),
        codes=arrays[f"{number}/codes"],
        class_of=arrays[f"{number}/class_of"],
        rows_of=np.zeros(0, dtype=np.int64) if is_old else arrays[f"{number}/rows_of"],
        table="" if is_old else head[3],
        domains=() if is_old else tuple(head[4 + len(names) :]),
    )


def add_classes(path: str | Path, release: ReleasedClasses) -> None:
    """Add the classes of a release; the file is replaced as a whole, and only its owner may read it."""
    arrays: dict[str, Any] = {}
    for number, known in enumerate([*read_classes(path), release]):
        is_old = bool(known.codes.size) and not known.rows_of.size
        head = [str(known.rows), "" if is_old else known.table, *known.names, *known.domains]
        arrays |= {
            f"{number}/head": np.array(["1" if is_old else str(FORMAT), known.schema, *head]),
            f"{number}/codes": known.codes,
            f"{number}/class_of": known.class_of,
            **({} if is_old else {f"{number}/rows_of": known.rows_of}),
        }
    with replaced_file(Path(path), error=SourceError) as place:
        with place.open("wb") as stream:
            np.savez_compressed(stream, **arrays)
        place.chmod(0o600)
