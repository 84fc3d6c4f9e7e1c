"""What several releases of one table tell together: joint k.

Whoever knows a person's values knows the person's class in every release. Where rows of the releases can be matched (a
column left unchanged in all of them, the same order, an identifier), the person is among the rows of the intersection
of these classes; "not in this release" is a class too. Joint k is the smallest intersection. It is exact for that
attacker, and a floor for every weaker one: if it reaches k, the releases side by side are k-anonymous.

The classes of earlier releases are kept beside the history. They are as private as the table: the steward keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence
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

FORMAT = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleasedClasses:
    """The class of every combination of a release; SUPPRESSED where its rows were left out.

    `is_divided`: rows of equal values were dealt out to several classes at random, so that a combination does not tell
    the class of a row, and nothing can be said of the release together with others.
    """

    schema: str
    rows: int
    names: tuple[str, ...]
    codes: Codes
    class_of: Codes
    is_divided: bool = False

    @classmethod
    def of(cls, schema: str, recoded: RecodedTable) -> ReleasedClasses:
        """Read the classes of a recoding, by combination of its quasi-identifiers."""
        pieces = recoded.pieces
        both = np.unique(np.column_stack([pieces.codes[:, : pieces.quasi], recoded.class_of]), axis=0)
        codes = both[:, :-1]
        is_divided = len(np.unique(codes, axis=0)) < len(codes)
        names = pieces.names[: pieces.quasi]
        return cls(
            schema=schema, rows=pieces.rows, names=names, codes=codes, class_of=both[:, -1], is_divided=is_divided
        )

    def find(self, names: Sequence[str], codes: Codes) -> Codes:
        """Find the class of combinations over (at least) the names of the release; SUPPRESSED if it has none."""
        own = codes[:, [list(names).index(name) for name in self.names]]
        ids = number_classes(np.concatenate([self.codes, own]))
        class_of_id = np.full(int(ids.max(initial=-1)) + 1, SUPPRESSED, dtype=np.int64)
        class_of_id[ids[: len(self.codes)]] = self.class_of
        return np.asarray(class_of_id[ids[len(self.codes) :]], dtype=np.int64)


@dataclass(frozen=True, kw_only=True, slots=True)
class JointSize:
    """How few rows all releases together leave alike, and how many releases there are; None where it is not known."""

    k: int | None
    releases: int

    def describe(self) -> Text:
        """Say it to the steward."""
        if self.k is None:
            return text(
                "this release divides rows of equal values at random, or an earlier one did; what the {count} releases"
                " of this table tell together is not computed",
                count=self.releases,
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
    if any(release.is_divided for release in classes):
        return JointSize(k=None, releases=len(classes))
    pieces, names = recoded.pieces, tuple(dict.fromkeys(name for release in classes for name in release.names))
    if not set(names) <= set(pieces.names):
        pieces = Pieces.of(source.count(names), names)
    together = np.column_stack([release.find(pieces.names, pieces.codes) for release in classes])
    is_seen = (together != SUPPRESSED).any(axis=1)  # rows that no release shows are not found by anybody
    sizes = np.bincount(number_classes(together[is_seen] + 1), weights=pieces.weights[is_seen])
    return JointSize(k=int(sizes.min(initial=pieces.rows)), releases=len(classes))


def check_joint(joint: JointSize, least: int) -> None:
    """Refuse a release that would leave fewer rows alike than the steward asks for, with what to do.

    Error: Infeasible.
    """
    if joint.k is None:
        raise Infeasible("{problem}; publish without --mondrian relaxed", problem=joint.describe())
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

    Error: Infeasible if one of them divided rows of equal values at random.
    """
    if any(release.is_divided for release in earlier):
        check_joint(JointSize(k=None, releases=len(earlier)), 1)
    names = tuple(dict.fromkeys([*quasi, *sensitive, *(name for release in earlier for name in release.names)]))
    counts = source.count_with_persons(names) if is_by_person else source.count(names)
    codes = counts.columns()
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
            return [_from_arrays(arrays, number) for number in range(len(arrays.files) // 3)]
    except FileNotFoundError:
        return []
    except UNREADABLE:
        raise SourceError(
            "the classes of earlier releases in {file} cannot be read; restore the file from a copy", file=path
        ) from None


def _from_arrays(arrays: np.lib.npyio.NpzFile, number: int) -> ReleasedClasses:
    version, schema, rows, is_divided, *names = arrays[f"{number}/head"].tolist()
    if version != str(FORMAT):
        raise ValueError
    return ReleasedClasses(
        schema=schema,
        rows=int(rows),
        names=tuple(names),
        codes=arrays[f"{number}/codes"],
        class_of=arrays[f"{number}/class_of"],
        is_divided=is_divided == "True",
    )


def add_classes(path: str | Path, release: ReleasedClasses) -> None:
    """Add the classes of a release; the file is replaced as a whole, and only its owner may read it."""
    arrays: dict[str, Any] = {}
    for number, known in enumerate([*read_classes(path), release]):
        head = [str(FORMAT), known.schema, str(known.rows), str(known.is_divided), *known.names]
        arrays |= {
            f"{number}/head": np.array(head),
            f"{number}/codes": known.codes,
            f"{number}/class_of": known.class_of,
        }
    with replaced_file(Path(path), error=SourceError) as place:
        with place.open("wb") as stream:
            np.savez_compressed(stream, **arrays)
        place.chmod(0o600)
