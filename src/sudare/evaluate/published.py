"""A release as a table of counts, to hold it against the truth."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.counts import Counts
from sudare.errors import ReleaseError
from sudare.releases import Release
from sudare.releases.frame import Coded
from sudare.schema import Attribute, Schema


def counts_of(release: Release, *, frame: str = "records") -> Counts:
    """Count the published records over the schema that the certificate carries."""
    schema = Schema.from_dict(release.certificate.schema)
    if frame not in release.frames:
        raise ReleaseError("the release has no table {frame}; it has {known}", frame=frame, known=_names(release))
    columns = release.frames[frame].columns
    codes = [_codes(attribute, columns[attribute.name]) for attribute in schema.attributes]
    return Counts.from_columns(schema, np.column_stack(codes))


def _codes(attribute: Attribute, column: Coded | NDArray[Any]) -> NDArray[np.int64]:
    """Codes of the attribute, each label looked up once."""
    if isinstance(column, Coded):
        return _look_up(attribute, column.labels.tolist())[column.codes]
    labels = list(dict.fromkeys(column.tolist()))
    place = {label: position for position, label in enumerate(labels)}
    return _look_up(attribute, labels)[np.array([place[label] for label in column.tolist()], dtype=np.int64)]


def _look_up(attribute: Attribute, labels: list[str | None]) -> NDArray[np.int64]:
    return np.array([attribute.code(label) for label in labels], dtype=np.int64)


def _names(release: Release) -> str:
    return ", ".join(release.frames)
