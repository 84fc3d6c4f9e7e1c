"""Three made-up tables as analysts ask about: stays in a hospital, orders of a shop, staff of a company."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sudare.counts import Counts
from sudare.methods.view import OpenedView, View, open_view
from sudare.noise import SeededRng
from sudare.schema import Attribute, DateBins, NumberBins, Schema, Values
from sudare.testing import Tabled

WARDS = ("general surgery", "heart surgery", "maternity", "children", "internal", "eyes")
PREFECTURES = ("Hokkaido", "Miyagi", "Tokyo", "Aichi", "Osaka", "Fukuoka", "Okinawa")
DEPARTMENTS = ("Sales", "Production", "Research", "IT support", "IT development", "Administration")


def _numbers(*edges: int) -> NumberBins:
    return NumberBins(tuple(map(Fraction, edges)))


STAYS = Schema(
    name="stays",
    attributes=(
        Attribute(name="ward", domain=Values(WARDS)),
        Attribute(name="sex", domain=Values(("F", "M"))),
        Attribute(name="age", domain=NumberBins.of_width(0, 100, 5)),
        Attribute(name="admitted", domain=DateBins.of_width("2024-01-01", "2025-12-31", "1 month")),
        Attribute(name="days", domain=_numbers(0, 1, 2, 3, 5, 7, 14, 30, 90, 365)),
        Attribute(name="cost", domain=_numbers(0, 50, 100, 200, 500, 1000, 2000, 5000, 10000)),
        Attribute(name="emergency", domain=Values(("no", "yes"))),
        Attribute(name="outcome", domain=Values(("home", "moved", "died"))),
    ),
)
ORDERS = Schema(
    name="orders",
    attributes=(
        Attribute(name="ordered", domain=DateBins.of_width("2025-01-01", "2025-12-31", "1 month")),
        Attribute(name="prefecture", domain=Values(PREFECTURES)),
        Attribute(name="category", domain=Values(("books", "clothes", "food", "toys", "tools"))),
        Attribute(name="price", domain=_numbers(0, 500, 1000, 2000, 3000, 5000, 7000, 10000, 20000, 50000)),
        Attribute(name="quantity", domain=NumberBins.of_width(1, 10, 1)),
        Attribute(name="payment", domain=Values(("card", "cash", "invoice"))),
        Attribute(name="returned", domain=Values(("no", "yes"))),
    ),
)
STAFF = Schema(
    name="staff",
    attributes=(
        Attribute(name="department", domain=Values(DEPARTMENTS)),
        Attribute(name="gender", domain=Values(("woman", "man"))),
        Attribute(name="grade", domain=NumberBins.of_width(1, 7, 1)),
        Attribute(name="hired", domain=DateBins.of_width("2005-01-01", "2025-12-31", "1 year")),
        Attribute(name="salary", domain=_numbers(150000, 200000, 250000, 300000, 400000, 500000, 700000, 1000000)),
        Attribute(name="overtime", domain=_numbers(0, 1, 5, 10, 20, 30, 45, 60, 100)),
        Attribute(name="has_left", domain=Values(("no", "yes"))),
    ),
)


def make_view(schema: Schema, *, rows: int = 8000, seed: int = 3) -> OpenedView:
    """A view of records whose attributes all depend on a hidden one, unevenly as real ones do."""
    draw = np.random.default_rng(seed)
    hidden = draw.normal(size=rows)
    columns = []
    for attribute in schema.attributes:
        mixed = 0.5 * hidden + draw.normal(size=rows)
        ranks = mixed.argsort().argsort() / rows
        columns.append(np.minimum((ranks**1.5 * attribute.size).astype(np.int64), attribute.size - 1))
    counts = Counts.from_columns(schema, np.column_stack(columns))
    return open_view(View(epsilon=2).publish(Tabled(counts), rng=SeededRng(seed)))
