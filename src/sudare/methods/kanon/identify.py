"""Which columns identify persons: how well columns and sets of them tell rows apart, and what their names hint at.

    distinction   distinct combinations over rows: 1 means that every row is alone
    separation    the share of pairs of rows that differ
    uniques       the share of rows whose combination no other row has

Computed from the true table: for the steward only. Names are hints; they say what laws name, not what a column holds.
Source: Motwani, Xu 2007 (distinction, separation)
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sudare.counts import Counts
from sudare.methods.kanon.population import UniquesEstimate, estimate_uniques
from sudare.methods.kanon.recode import number_classes
from sudare.methods.kanon.risk import Risk, measure_risk, measure_table_risk
from sudare.report.shapes import Listing
from sudare.schema import Schema
from sudare.text import Text, Words, join_items, text

KEY_UNIQUES = 0.05  # a set of columns is a key if so many of the rows are unique by it
MAX_KEY_COLUMNS = 3
MAX_KEYS = 12
MAX_SETS = 2000  # sets of columns that are looked at

# names that HIPAA's safe harbour lists (45 CFR 164.514), and that the Japanese act on personal information names
# compared with names in small letters, words parted by _, full-width letters and half-width kana made plain
HIPAA = (
    (
        "name",
        r"(^|_)(first|last|full|family|given|patient|person|customer|client|user|mothers?|maiden)_?(name|nm)(_|$)",
    ),
    ("name", r"^name$|(^|_)surname|(^|_)(fname|lname)(_|$)"),
    (
        "address",
        r"(^|_)(home_?)?addr(ess|_|$)|(^|_)street|(^|_)city|(^|_)county(_|$)|(^|_)zip|postal|post_?code|geocode",
    ),
    ("date", r"birth|(^|_)dob(_|$)|admission|admit|discharge|death|(^|_)date|(^|_)(day|dt)(_|$)"),
    (
        "contact",
        r"(^|_)(tele?)?phone|(^|_)tel(?![a-z])|mobile|(^|_)fax|(^|_)e_?mail|(^|_)url|(^|_)ip(v4|v6)?(_|$)|website",
    ),
    ("number", r"(^|_)ssn(_|$)|social_?security|(^|_)mrn(_|$)|medical_?record|(^|_)acc(oun)?t(_|$)|licen[sc]e"),
    (
        "number",
        r"certificate|(^|_)plate|serial|(^|_)device|(^|_)vin(_|$)|health_?plan|beneficiary|insurance_?(no|num|id)",
    ),
    ("body", r"biometric|finger|(^|_)voice|(^|_)face|photo|retina"),
    ("age", r"(^|_)ages?(_|$)"),
)
APPI = (
    ("氏名", r"氏名|名前|姓名|^姓|姓$|^名$|フリガナ|ふりがな|カナ|なまえ|しめい|世帯主"),
    ("住所", r"住所|番地|郵便|町丁|所在地|居住地|じゅうしょ|市区町村"),
    ("生年月日", r"生年|誕生|生まれ|年齢|年令|満年|たんじょう"),
    ("連絡先", r"電話|携帯|けいたい|メール|めーる|fax|連絡先|(^|_)tel(_|$)"),
    (
        "個人識別符号",
        r"個人番号|マイナンバー|my_?number|旅券|パスポート|免許|基礎年金|年金番号|被保険者|保険証|住民票コード",
    ),
    ("個人識別符号", r"在留カード|指紋|顔|虹彩|声紋|静脈|dna|塩基"),
    (
        "要配慮個人情報",
        r"病歴|病名|傷病|診断|診療|疾患|疾病|障害|障がい|健診|健康診断|検査結果|調剤|人種|民族|信条|宗教",
    ),
    ("要配慮個人情報", r"犯罪|前科|犯歴|逮捕|被害|社会的身分|本籍"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnSet:
    """How well some columns tell rows apart."""

    names: tuple[str, ...]
    distinction: float
    separation: float
    uniques: float


@dataclass(frozen=True, kw_only=True)
class IdentityReport:
    """What identifies persons in a table, and how easily. Not for publication."""

    columns: tuple[ColumnSet, ...]
    keys: tuple[ColumnSet, ...]
    hints: tuple[tuple[str, Text], ...]
    quasi: tuple[str, ...]
    risk: Risk
    population: tuple[UniquesEstimate, ...] = field(default=())
    has_register: bool = False

    def lines(self) -> list[Words | Listing]:
        """Say it to the steward."""
        lines: list[Words | Listing] = [
            text("for the steward only, not for publication:"),
            Listing(
                title="",
                head=(text("column"), text("distinction"), text("separation"), text("unique rows")),
                rows=[_to_row(each) for each in self.columns],
            ),
        ]
        if self.keys:
            names = join_items(f"{' + '.join(key.names)} ({key.uniques:.0%})" for key in self.keys)
            lines.append(
                text(
                    "smallest sets of columns by which at least {share} of the rows are unique: {names}",
                    share=f"{KEY_UNIQUES:.0%}",
                    names=names,
                )
            )
        lines += [hint for _, hint in self.hints]
        return [*lines, *self._describe_risk()]

    def _describe_risk(self) -> Iterator[Text]:
        risk = self.risk
        yield text(
            "by {names}: an attacker who knows that a person is in the table (prosecutor) is right with a chance of up"
            " to {chance}",
            names=", ".join(self.quasi),
            chance=f"{risk.prosecutor:.3g}",
        )
        if self.has_register:
            yield text(
                "an attacker who only knows the register (journalist) is right with a chance of up to {chance}: at"
                " least {k} persons of the register look like every row (k-map)",
                chance=f"{risk.journalist:.3g}",
                k=round(1 / risk.journalist) if risk.journalist else 0,
            )
        yield text(
            "an attacker who links every row (marketer) is right for {share} of them", share=f"{risk.marketer:.1%}"
        )
        for estimate in self.population:
            yield estimate.describe()

    def to_dict(self) -> dict[str, Any]:
        """Give plain values for the steward's program."""

        def write(each: ColumnSet) -> dict[str, Any]:
            return {
                "columns": list(each.names),
                "distinction": each.distinction,
                "separation": each.separation,
                "uniques": each.uniques,
            }

        return {
            "stamp": "not for publication",
            "columns": [write(each) for each in self.columns],
            "keys": [write(each) for each in self.keys],
            "hints": {name: hint.render("en") for name, hint in self.hints},
            "quasi": list(self.quasi),
            "risk": self.risk.to_dict(),
            "population": [
                {"model": each.model, "uniques": each.uniques, "share": each.share} for each in self.population
            ],
        }


def _to_row(each: ColumnSet) -> tuple[Words, ...]:
    return each.names[0], f"{each.distinction:.4f}", f"{each.separation:.4f}", f"{each.uniques:.1%}"


def identify(
    counts: Counts, quasi: Sequence[str], *, register: Counts | None = None, fraction: float | None = None
) -> IdentityReport:
    """Find what identifies persons in a table of counts over all its columns.

    `register` counts the population, `fraction` is the share of it that the table is a sample of.
    """
    names, codes, weights = counts.schema.names, counts.columns(), counts.values.astype(np.int64)
    columns = tuple(_measure(names, codes, weights, (axis,)) for axis in range(len(names)))
    order = sorted(columns, key=lambda each: -each.uniques - each.distinction)
    sizes = counts.project(list(quasi)).values
    return IdentityReport(
        columns=tuple(order),
        keys=tuple(find_keys(counts)),
        hints=tuple(find_name_hints(counts.schema)),
        quasi=tuple(quasi),
        risk=measure_risk(sizes) if register is None else measure_table_risk(counts, quasi, register),
        population=() if fraction is None else estimate_uniques(sizes, fraction),
        has_register=register is not None,
    )


def _measure(names: Sequence[str], codes: Any, weights: Any, axes: tuple[int, ...]) -> ColumnSet:
    sizes = np.bincount(number_classes(codes[:, list(axes)]), weights=weights)
    rows = max(1.0, float(sizes.sum()))
    pairs = max(1.0, rows * (rows - 1))
    return ColumnSet(
        names=tuple(names[axis] for axis in axes),
        distinction=len(sizes) / rows,
        separation=1 - float((sizes * (sizes - 1)).sum()) / pairs,
        uniques=float((sizes == 1).sum()) / rows,
    )


def find_keys(counts: Counts) -> Iterator[ColumnSet]:
    """Find the smallest sets of columns by which many rows are unique; none of them holds another.

    >>> from sudare.schema import Attribute, Values
    >>> a, b = (Attribute(name=name, domain=Values(tuple("0123456789"))) for name in "ab")
    >>> table = Counts.from_columns(Schema(name="t", attributes=(a, b)), [[x, x % 2] for x in range(10)])
    >>> [key.names for key in find_keys(table)]
    [('a',)]
    """
    names, codes, weights = counts.schema.names, counts.columns(), counts.values.astype(np.int64)
    keys: list[tuple[int, ...]] = []
    sets = itertools.chain.from_iterable(
        itertools.combinations(range(len(names)), size) for size in range(1, min(MAX_KEY_COLUMNS, len(names)) + 1)
    )
    for axes in itertools.islice(sets, MAX_SETS):
        if any(set(key) <= set(axes) for key in keys):
            continue
        measured = _measure(names, codes, weights, axes)
        if measured.uniques >= KEY_UNIQUES:
            keys.append(axes)
            yield measured
        if len(keys) == MAX_KEYS:
            return


def _write_plainly(name: str) -> str:
    """Write a name in one way: letters of one width, in small ones, its words parted by _.

    >>> _write_plainly("PatientName"), _write_plainly("Ｚｉｐ－Code"), _write_plainly("ﾌﾘｶﾞﾅ 1")
    ('patient_name', 'zip_code', 'フリガナ_1')
    """
    plain = unicodedata.normalize("NFKC", name)
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", plain)
    return re.sub(r"[\s\-./:・ー−‐]+(?=[A-Za-z0-9])|[\s./:]+", "_", parted).lower()


def find_name_hints(schema: Schema) -> Iterator[tuple[str, Text]]:
    """Find columns whose names are those of identifiers that laws list; a hint, not a finding."""
    for attribute in schema.attributes:
        written = _write_plainly(attribute.name)
        for law, kinds in (("HIPAA", HIPAA), ("個人情報保護法", APPI)):
            kind = next((kind for kind, pattern in kinds if re.search(pattern, written)), None)
            if kind is not None and attribute.role == "plain":
                yield (
                    attribute.name,
                    text(
                        "the name of column {name} is among those that {law} lists ({kind}); check its role",
                        name=attribute.name,
                        law=law,
                        kind=kind,
                    ),
                )
                break
