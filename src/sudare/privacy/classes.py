"""The promise of k-anonymity: about the classes of one release, and about nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sudare.messages import say
from sudare.schema.unit import Unit


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassGuarantee:
    """Every combination of quasi-identifiers that is published is shared by at least k units.

    `criteria` are those beyond k, as they describe themselves. The promise compares no tables, so it has no
    neighbours; it does not compose. Proof: proofs/kanon.md

    >>> ClassGuarantee(k=5, quasi=("age", "sex"), unit=Unit()).words(lang="en")[:58]
    'k-anonymity with k = 5: every published combination of age'
    """

    k: int
    quasi: tuple[str, ...]
    unit: Unit
    criteria: tuple[str, ...] = ()
    max_suppressed: Fraction = Fraction(0)

    @property
    def neighbours(self) -> str:
        """None: the promise is about one table."""
        return ""

    @property
    def rows(self) -> int:
        """Tell how many rows a class holds at least: a person may bring several."""
        return self.k * (self.unit.max_rows if self.unit.kind == "person" else 1)

    def words(self, *, lang: str | None = None) -> str:
        """State the promise in the reader's language: k, criteria, suppression, and what is not promised."""
        quasi = ", ".join(self.quasi) if self.quasi else say("the quasi-identifiers", lang=lang)
        parts = [self._sizes(quasi, lang)]
        if self.criteria:
            told = "; ".join(self.criteria)
            parts.append(say("Every such class also keeps: {criteria}.", lang=lang, criteria=told))
        if self.max_suppressed:
            share = f"{float(self.max_suppressed):.4g}"
            parts.append(say("Up to {share} of the rows may have been left out.", lang=lang, share=share))
        parts.append(
            say(
                "This is no differential privacy: it does not compose (a second release of the same table can undo it),"
                " and it does not hide what the rows of a class have in common.",
                lang=lang,
            )
        )
        return ("" if lang == "ja" else " ").join(parts)

    def _sizes(self, quasi: str, lang: str | None) -> str:
        if self.unit.kind == "person":
            return say(
                "k-anonymity with k = {k}: every published combination of {quasi} is shared by at least {rows} rows,"
                " which are those of at least {k} persons.",
                lang=lang,
                k=self.k,
                quasi=quasi,
                rows=self.rows,
            )
        return say(
            "k-anonymity with k = {k}: every published combination of {quasi} is shared by at least {k} rows.",
            lang=lang,
            k=self.k,
            quasi=quasi,
        )

    def to_dict(self) -> dict[str, Any]:
        """Give the promise as JSON-able facts, and in words.

        >>> facts = ClassGuarantee(k=5, quasi=("age",), unit=Unit()).to_dict()
        >>> facts["k"], facts["composes"], sorted(facts["statement"])
        (5, False, ['en', 'ja'])
        """
        return {
            "k": self.k,
            "quasi": list(self.quasi),
            "criteria": list(self.criteria),
            "max_suppressed": str(self.max_suppressed),
            "composes": False,
            "unit": self.unit.to_dict(),
            "statement": {lang: self.words(lang=lang) for lang in ("en", "ja")},
        }
