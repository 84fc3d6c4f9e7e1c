"""Measuring groupings on the table: the one step of requests that opens it. Run by the steward."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sudare.counts.relabelling import ROWS_OF_PERSON, Recodable
from sudare.methods.kanon.approve import count_pieces, find_groups
from sudare.methods.kanon.history import MAX_SPREAD_NODES, Measurement, spread_levels
from sudare.methods.kanon.nearby import is_finer_option, list_partial, write_key
from sudare.methods.kanon.pairs import PairCounts
from sudare.methods.kanon.recode import Pieces, make_class_checker, number_classes
from sudare.methods.kanon.request import Grouping, Request, RequestOption
from sudare.requests.policy import TablePolicy
from sudare.requests.verdicts import MeasuredBit, RoundedLaw, VerdictFile
from sudare.schema import Attribute, Schema

MAX_MEASURED_ALL = 256  # groupings by levels that are all measured
MAX_PROPOSED = 5  # measurements that are proposed
MAX_PARTIAL_MEASURED = 8  # beside an option that was asked for: as many bits more, counted with the others


@dataclass(frozen=True, kw_only=True)
class MeasuredOption:
    """What the table says of one grouping. For the steward."""

    option: RequestOption
    k: int
    rows: int
    suppressed_rows: int
    is_kept: bool

    def to_measurement(self, schema: Schema) -> Measurement:
        """Give it as a line of a history."""
        return Measurement(
            schema=schema.fingerprint,
            groupings={name: grouping.to_value() for name, grouping in self.option.items()},
            cells=math.prod(grouping.size for grouping in self.option.values()),
            k=self.k,
            rows=self.rows,
        )


class CountedTable:
    """A table counted once over all attributes that requests may name, from which any grouping is measured."""

    def __init__(self, source: Recodable, policy: TablePolicy, names: Iterable[str]) -> None:
        self.schema, self.policy = source.schema, policy
        wanted = [name for name in self.schema.names if name in set(names)]
        sensitive = [name for name in policy.method.sensitive(self.schema, tuple(wanted)) if name not in wanted]
        self.pieces = count_pieces(source, wanted, tuple(sensitive), policy.all_criteria(self.schema))

    def measure(self, option: RequestOption) -> MeasuredOption:
        """Measure one grouping: the smallest class, and whether the policy is kept as `publish` would see it."""
        pieces = self._project(option)
        class_of = number_classes(find_groups(option, pieces.codes))
        sizes = np.bincount(class_of, weights=pieces.weights).astype(np.int64)
        check_classes = make_class_checker(self.policy.all_criteria(self.schema), pieces)
        is_kept = check_classes(pieces, class_of, int(class_of.max(initial=-1)) + 1)[class_of]
        suppressed, rows = int(pieces.weights[~is_kept].sum()), pieces.rows
        return MeasuredOption(
            option=option,
            k=int(sizes.min(initial=rows)),
            rows=rows,
            suppressed_rows=suppressed,
            is_kept=bool(is_kept.any()) and suppressed <= int(self.policy.max_suppressed * rows),
        )

    def _project(self, option: RequestOption) -> Pieces:
        names, pieces = tuple(option), self.pieces
        sensitive = tuple(name for name in pieces.names[pieces.quasi :] if name not in names)
        axes = [pieces.names.index(name) for name in (*names, *sensitive)]
        return Pieces(
            attributes=tuple(pieces.attributes[axis] for axis in axes),
            quasi=len(names),
            codes=pieces.codes[:, axes],
            weights=pieces.weights,
        )

    def count_pairs(self) -> PairCounts:
        """Count the pairs of all attributes, for the predictions of the steward."""
        return PairCounts.of(self.schema.fingerprint, self.pieces.forget(ROWS_OF_PERSON))


def list_public_options(schema: Schema, names: Sequence[str]) -> list[RequestOption]:
    """List the groupings that are measured for the verdict file: the same for every table of this schema.

    All levels of all attributes where these are few; else attributes alone at every level, and levels spread over pairs
    and over all of them.
    """
    variants = [_list_variants(schema.attribute(name)) for name in names]
    top = tuple(len(groupings) - 1 for groupings in variants)
    if math.prod(step + 1 for step in top) <= MAX_MEASURED_ALL:
        return _read_places(names, variants, itertools.product(*(range(step + 1) for step in top)))
    alone = [(*top[:axis], step, *top[axis + 1 :]) for axis in range(len(top)) for step in range(top[axis])]
    pairs, numbers = list(itertools.combinations(range(len(top)), 2)), range(MAX_SPREAD_NODES)
    in_pairs = [spread_levels(top, pairs[number % len(pairs)], number) for number in numbers] if pairs else []
    together = [spread_levels(top, tuple(range(len(top))), number) for number in numbers] if len(top) > 2 else []
    return _read_places(names, variants, dict.fromkeys([*alone[: 4 * MAX_SPREAD_NODES], *in_pairs, *together]))


def _read_places(
    names: Sequence[str], variants: list[list[Grouping]], places: Iterable[tuple[int, ...]]
) -> list[RequestOption]:
    """Read options from the place of each attribute in its list; the last place is left out."""
    options = [
        {
            name: groupings[step]
            for name, groupings, step in zip(names, variants, place, strict=True)
            if step < len(groupings) - 1
        }
        for place in places
    ]
    return list({write_key(option): option for option in options if option}.values())


def _list_variants(attribute: Attribute) -> list[Grouping]:
    """List the levels of different sizes, then left out."""
    levels = [Grouping(attribute, level) for level in range(attribute.height + 1)]
    by_size = {level.size: level for level in reversed(levels) if level.size > 1}  # the finest of equal levels
    return [*reversed(by_size.values()), Grouping(attribute, None)]


def make_verdicts(
    table: CountedTable, requests: Iterable[Request] = (), *, again: Iterable[RequestOption] = ()
) -> tuple[VerdictFile, list[MeasuredOption]]:
    """Measure the public groupings and the options of requests; the verdict file, and what the steward may keep.

    Groupings that an older file tells of are measured `again`.

    Beside an option, a few are measured that are coarser in a part of one attribute. Which groupings are measured does
    not depend on the table.
    """
    schema, pieces = table.schema, table.pieces
    quasi = list(pieces.names[: pieces.quasi])
    asked = [option for request in requests for option in request.options]
    wished = [each for option in asked for each in (option, *list_partial(option)[:MAX_PARTIAL_MEASURED])]
    options = {write_key(option): option for option in (*list_public_options(schema, quasi), *wished, *again)}
    measured = [table.measure(option) for key, option in options.items() if key]
    public = {write_key(option) for option in list_public_options(schema, quasi)}
    points = [
        (math.prod(grouping.size for grouping in entry.option.values()), float(entry.k))
        for entry in measured
        if write_key(entry.option) in public
    ]
    file = VerdictFile(
        schema=schema,
        policy=table.policy,
        law=RoundedLaw.fit(points),
        measured=tuple(MeasuredBit(option=entry.option, is_kept=entry.is_kept) for entry in measured),
    )
    return file, measured


def add_measured(file: VerdictFile, measured: Iterable[MeasuredOption]) -> VerdictFile:
    """Add the bits of more groupings to a file; what was measured now replaces what it said of the same grouping."""
    known = {write_key(bit.option): bit for bit in file.measured}
    for entry in measured:
        known[write_key(entry.option)] = MeasuredBit(option=entry.option, is_kept=entry.is_kept)
    return VerdictFile(schema=file.schema, policy=file.policy, law=file.law, measured=tuple(known.values()))


def propose_measurements(file: VerdictFile, requests: Iterable[Request]) -> list[tuple[RequestOption, int]]:
    """Propose what to measure next: the options whose bit would decide most open ones, and how many it decides.

    A bit decides its own option, all coarser ones if it is kept, and all finer ones if it is not; what it will be is
    not known, so the smaller of both counts.
    """
    wished = {write_key(option): option for request in requests for option in request.options}
    unknown = [option for option in wished.values() if file.judge(option) not in ("holds", "fails")]
    scored = []
    for option in unknown:
        coarser = sum(is_finer_option(option, other) for other in unknown) if file.policy.is_monotone else 1
        finer = sum(is_finer_option(other, option) for other in unknown) if file.policy.is_monotone else 1
        scored.append((min(coarser, finer), max(coarser, finer), option))
    order = sorted(range(len(scored)), key=lambda at: (-scored[at][0], -scored[at][1], at))
    return [(scored[at][2], scored[at][0]) for at in order[:MAX_PROPOSED]]
