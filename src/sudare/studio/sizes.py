"""The sizes of answers, to be seen beside the error: from an earlier release, which is paid for, or an even spread.

The table itself is never asked: whoever chose epsilon by looking at it would tell something about it by the choice.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sudare.asking.answers import Estimate
from sudare.errors import SudareError
from sudare.methods.view.questions import open_asked
from sudare.releases import Release
from sudare.report.frames import show_label
from sudare.schema import Attribute, Schema
from sudare.studio.ask_page import find_asked_name, quote_name
from sudare.studio.project import Project, StoredRelease, StudioTable

MOST_SIZES = 12
EVEN = "even"  # the choice that takes no release


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerSize:
    """One answer that a reader would ask for: what is counted, how many there are, and how far it may be off."""

    label: str
    size: float
    error: float
    scale: float

    @property
    def width(self) -> float:
        """The length of its bar, of 100."""
        return round(100 * max(self.size, 0.0) / self.scale, 2)

    @property
    def reach(self) -> tuple[float, float]:
        """Where the range begins and ends, of 100."""
        ends = (max(self.size - self.error, 0.0), self.size + self.error)
        return (round(100 * ends[0] / self.scale, 2), round(100 * ends[1] / self.scale, 2))


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerSizes:
    """The sizes of the values of a usual attribute, and where they come from ("" for an even spread)."""

    attribute: str
    release: str
    sizes: Sequence[AnswerSize]
    error: float
    more: int


def list_askable(project: Project, table: StudioTable) -> list[StoredRelease]:
    """The releases of a table that can be asked for sizes, the newest first."""
    found = [
        release
        for release in project.releases()
        if release.directory.parent == table.folder and find_asked_name(release.certificate.method)
    ]
    return sorted(found, key=lambda release: release.certificate.created, reverse=True)


def find_sizes(
    schema: Schema, releases: Sequence[StoredRelease], *, wish: str, rows: int, share: float
) -> AnswerSizes | None:
    """Put sizes beside the error of a usual answer, which is `share` of an even one; None where nothing is known."""
    attribute = _find_usual(schema)
    if attribute is None:
        return None
    error = share * rows / attribute.size
    chosen = next((release for release in releases if release.id == wish), None)
    if chosen is None and wish != EVEN and releases:
        chosen = releases[0]
    counted = None if chosen is None else _ask_sizes(chosen, attribute)
    if counted is None:
        chosen = None
        labels = [str(show_label(label)) for label in attribute.labels(np.arange(min(attribute.size, MOST_SIZES)))]
        counted = [(label, rows / attribute.size) for label in labels]
    scale = max((size + error for _, size in counted), default=1.0) or 1.0
    return AnswerSizes(
        attribute=attribute.name,
        release="" if chosen is None else chosen.directory.name,
        sizes=[AnswerSize(label=label, size=size, error=error, scale=scale) for label, size in counted[:MOST_SIZES]],
        error=error,
        more=max(attribute.size - MOST_SIZES, 0),
    )


def _find_usual(schema: Schema) -> Attribute | None:
    """The attribute of the middle size: one value of it is what methods call a usual answer."""
    if not schema.attributes:
        return None
    middle = statistics.median_low(attribute.size for attribute in schema.attributes)
    return next(attribute for attribute in schema.attributes if attribute.size == middle)


def _ask_sizes(release: StoredRelease, attribute: Attribute) -> list[tuple[str, float]] | None:
    """Ask an earlier release how many records each value has; None where it does not know the attribute."""
    name = quote_name(attribute.name)
    asked_as = find_asked_name(release.certificate.method)
    try:
        opened = open_asked(Release.load(release.directory))
        answer = opened.sql(f"SELECT {name}, COUNT(*) FROM {asked_as} GROUP BY {name}")
    except SudareError:
        return None
    return [(str(label), cell.value) for label, cell in answer.rows if isinstance(cell, Estimate)]
