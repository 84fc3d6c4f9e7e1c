"""Administrative areas over a published table: municipalities, prefectures, school districts, each with its margin.

All sums are sums of the same published table, so that they agree with the cells and with each other; unbiased figures
and margins come from the same noisy sums. Nothing is measured and nothing is spent here: it works on what was
published. Areas that are declared before a release are measured too (`linked.py`), which makes them more accurate.
"""

from __future__ import annotations

from collections.abc import Sequence

from sudare.errors import ParameterError
from sudare.methods.table.area_frames import figure_groups, label_groups
from sudare.methods.table.estimates import TableFigures
from sudare.methods.table.linked import find_groups
from sudare.releases import Frame
from sudare.schema import Areas


def sum_areas(figures: TableFigures, areas: Areas, *, level: str, by: Sequence[str] = ()) -> Frame:
    """Sum a published table by the areas of a level, and by further attributes: count, unbiased figure, margin.

    Sums of areas add up to the total, at every level, and agree with the cells: they are sums of one table. Where a
    division splits cells, counts have decimals.

    Guarantee: none is spent; a function of what was published.
    Error: the true number lies within `margin` of `unbiased` in 95 of 100 cases.
    """
    schema = figures.schema
    areas.check_level(level)
    for name in by:
        if name not in schema.names or name in areas.attributes:
            raise ParameterError("there is no other attribute {name} to sum by", name=name)
    declared = schema if areas in schema.areas else schema.without_areas.with_areas(areas)
    groups = find_groups(declared, figures.measured.layout, (level, *by))
    return Frame({**label_groups(groups), **figure_groups(figures.measured, figures.published, groups)})
