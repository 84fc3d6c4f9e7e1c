"""From raw values to attribute codes in SQL, one file for each kind of attribute.

The meaning of a value is `Attribute.encode`. SQL decides where it is sure to agree and asks that very function for the
rest, so a column has one meaning whatever the engine, its version or its habits of casting.
"""

from __future__ import annotations

from sudare.schema import DateBins, MeshCells, NumberBins, Values
from sudare.sources.coding.cells import code_cells
from sudare.sources.coding.days import code_days
from sudare.sources.coding.numbers import code_numbers
from sudare.sources.coding.site import Coding, Join, Site
from sudare.sources.coding.values import code_values
from sudare.sources.sql import choose, is_null, literal

__all__ = ["Coding", "Join", "Site", "code"]


def code(site: Site) -> Coding:
    """Write the code of an attribute over its column as SQL.

    >>> from sudare.schema import Attribute
    >>> from sudare.sources.engine import Column
    >>> age = Attribute(name="age", domain=NumberBins.of_width(0, 100, 5))
    >>> site = Site(attribute=age, column=Column(name="age", place="c0", family="integer", type="BIGINT"), prefix="c0")
    >>> code(site).code.sql("duckdb")
    'CASE WHEN r.c0 BETWEEN 0 AND 100 THEN LEAST(CAST(r.c0 AS BIGINT) // 5, 19) END'
    """
    if site.column.family == "boolean":
        return _booleans(site)
    match site.attribute.domain:
        case Values() as values:
            return code_values(site, values)
        case NumberBins() as bins:
            return code_numbers(site, bins)
        case DateBins() as bins:
            return code_days(site, bins)
        case MeshCells() as cells:
            return code_cells(site, cells)
        case _:
            return site.asked()


def _booleans(site: Site) -> Coding:
    """Two values and their absence: whatever the kind, their meaning can be asked beforehand."""
    missing = is_null(site.value()), literal(site.encoded(None))
    true = site.value(), literal(site.encoded(True))
    return Coding(inner=choose([missing, true], literal(site.encoded(False))))
