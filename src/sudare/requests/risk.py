"""Which columns of a table identify persons: the use case that command line and web page share."""

from __future__ import annotations

import contextlib
from pathlib import Path

from sudare.errors import ParameterError
from sudare.methods.kanon.identify import IdentityReport, identify
from sudare.schema import Schema
from sudare.sources import open as open_source


def measure_identity(
    data: str | Path,
    schema: Schema,
    *,
    quasi: tuple[str, ...] | None = None,
    register_file: Path | None = None,
    fraction: float | None = None,
) -> IdentityReport:
    """Count a table over all its columns and find what identifies persons. For the steward.

    Error: ParameterError if no quasi-identifier is known, or a register and a fraction are both given.
    """
    if register_file is not None and fraction is not None:
        raise ParameterError("give a register of the population or a sample fraction, not both")
    names = quasi or tuple(attribute.name for attribute in schema.attributes if attribute.role == "quasi")
    if not names:
        raise ParameterError('no column is a quasi-identifier; name some with --quasi, or set role = "quasi"')
    chosen = schema.select([schema.attribute(name).name for name in names]).names
    register = None
    if register_file is not None:
        plain = Schema(name=schema.name, attributes=schema.select(chosen).attributes)
        with contextlib.closing(open_source(register_file, plain)) as people:
            register = people.count(chosen)
    with contextlib.closing(open_source(data, schema, same_rows=True)) as source:
        return identify(source.count(schema.names), chosen, register=register, fraction=fraction)
