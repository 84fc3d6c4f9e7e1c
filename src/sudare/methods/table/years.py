"""A release that continues an earlier one: the same people are counted again, and the change gets its margin.

Whoever was counted in both releases is protected by both promises together, so the second is charged in full: noise on
the change alone would have to be as large, for a person who moves, as noise on the new table, and its error would come
on top of that of the earlier release. What is gained by linking two releases is that they are about the same cells, and
that the change of any figure has a margin of its own. Proof: proofs/areas.md
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sudare.errors import ParameterError, SudareError
from sudare.methods.table.area_frames import label_groups
from sudare.methods.table.estimates import TableFigures
from sudare.methods.table.linked import find_groups
from sudare.methods.table.margins import DECIMALS, MARGIN, UNBIASED, Margins, find_margin
from sudare.releases import Frame, Release
from sudare.releases.release import MEASUREMENTS
from sudare.schema import Areas, Schema

DIGEST = "sha256:"
BEFORE, AFTER, CHANGE = "before", "after", "change"


def link_years(written: str, schema: Schema) -> str:
    """Name the earlier release by its certificate and promise, after a look that it is about the same cells."""
    if written.startswith(DIGEST):
        return written  # as a certificate holds it
    earlier = _load(written)
    certificate = earlier.certificate
    check_same_cells(Schema.from_dict(certificate.schema), schema)
    digest = hashlib.sha256(certificate.to_json().encode()).hexdigest()
    amounts = [f"{name}={certificate.guarantee[name]}" for name in ("epsilon", "rho") if name in certificate.guarantee]
    return " ".join([DIGEST + digest, *amounts, f"neighbours={certificate.neighbours}"])


def _load(path: str | Path) -> Release:
    try:
        earlier = Release.load(path)
    except SudareError as error:
        raise ParameterError("continues ({path}): {reason}", path=path, reason=error) from None
    if earlier.certificate.method != "table" or MEASUREMENTS not in earlier.frames:
        raise ParameterError("continues ({path}) must be a table with noisy sums (algorithm squares)", path=path)
    return earlier


def check_same_cells(before: Schema, after: Schema) -> None:
    """Refuse two tables of other attributes, or for another unit."""
    first, second = ((schema.attributes, schema.unit, schema.impossible) for schema in (before, after))
    if first != second:
        raise ParameterError(
            "the earlier release has other attributes, values or another unit; publish the same cells, or leave"
            " continues out"
        )


def compare_years(
    before: Release | TableFigures | str | Path,
    after: Release | TableFigures | str | Path,
    *,
    level: str | None = None,
    by: Sequence[str] = (),
    areas: Areas | None = None,
) -> Frame:
    """Tell how far figures have changed between two releases over the same cells, with the margin of the change.

    `level` is a level of the areas of the second release, or of `areas`; `by` names attributes. The columns `before`
    and `after` are unbiased figures, `change` their difference; the true change lies within `margin` of it in 95 of
    100 cases. Where the numbers of records are public nobody can be gone but those of the first release, and nobody be
    new but those of the second: no margin reaches further.

    Guarantee: none is spent; a function of what was published.
    """
    first, second = (one if isinstance(one, TableFigures) else TableFigures.load(one) for one in (before, after))
    check_same_cells(first.schema, second.schema)
    schema = second.schema if areas is None else second.schema.without_areas.with_areas(areas)
    names = (*([] if level is None else [level]), *by)
    if not names:
        raise ParameterError("name a level of areas or attributes by which the change is told")
    columns: dict[str, Any] = {}
    figures = []
    for one in (first, second):
        groups = find_groups(schema, one.measured.layout, names)
        columns = label_groups(groups)
        figures.append(one.measured.squares.answer_groups(groups.leaves, groups.groups, groups.weights))
    (old, old_error), (new, new_error) = figures
    factor = max(one.measured.factor_of(1) for one in (first, second))
    told = Margins.within(
        second.measured.public_total,
        unbiased=new - old,
        margin=find_margin(factor, np.hypot(old_error, new_error)),
        least=-first.measured.public_total,
    )
    return Frame(
        {
            **columns,
            BEFORE: np.round(old, DECIMALS) + 0.0,
            AFTER: np.round(new, DECIMALS) + 0.0,
            CHANGE: told.columns[UNBIASED],
            MARGIN: told.columns[MARGIN],
        }
    )
