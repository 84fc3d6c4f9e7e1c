"""The public rule of a table: what every tailor-made release of it keeps. It is the steward's, never the asker's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sudare.errors import ParameterError
from sudare.methods.kanon import KAnonymity
from sudare.methods.kanon.criteria import Criterion, MinimumSize, Presence, read_criteria
from sudare.methods.kanon.kanonymity_parameters import read_request_criteria
from sudare.privacy.exact import write_exact
from sudare.privacy.promise import ClassGuarantee
from sudare.schema import Schema
from sudare.text import Text, join_clauses, join_sentences, text


@dataclass(frozen=True, kw_only=True)
class TablePolicy:
    """What every release of a table keeps: k, criteria, the share of rows that may be left out, and joint k.

    With k in the request, eight questions give the exact size of the smallest class of a grouping. So k is decided
    once, for the table, and published.

    >>> policy = TablePolicy(k=5, max_suppressed=Fraction(1, 20))
    >>> TablePolicy.from_value(policy.to_value()) == policy, policy.is_monotone, policy.is_k_alone
    (True, True, True)
    """

    k: int
    max_suppressed: Fraction = Fraction(0)
    criteria: tuple[str, ...] = ()
    joint_k: int | None = None

    def __post_init__(self) -> None:
        method = self.method  # checks what it is given
        if any(isinstance(criterion, Presence) for criterion in method.criteria):
            raise ParameterError("a policy cannot ask for presence, which needs a register; leave it out")
        if self.joint_k is not None and self.joint_k < 1:
            raise ParameterError("joint_k ({joint_k}) must be at least 1", joint_k=self.joint_k)

    @property
    def method(self) -> KAnonymity:
        """Give the method that publishes under this policy."""
        return KAnonymity(k=self.k, max_suppressed=self.max_suppressed, criteria=self.criteria, joint_k=self.joint_k)

    @property
    def is_k_alone(self) -> bool:
        """Tell whether k is the only criterion."""
        return not self.criteria

    def unchanged(self, schema: Schema, options: Iterable[Iterable[str]]) -> tuple[str, ...]:
        """Name the columns that come as they are with every one of some options."""
        left_out = {name for option in options for name in (*self.method.leave_out(schema, option), *option)}
        return tuple(name for name in schema.names if name not in left_out)

    @property
    def is_monotone(self) -> bool:
        """Tell whether what is coarser than a grouping that keeps the policy keeps it too.

        Without suppression it is enough that unions of good classes are good. With it, rows of bad classes join good
        ones, which must stay good with any rows added. Proof: proofs/kanon.md
        """
        criteria = read_criteria(self.criteria)
        if self.max_suppressed == 0:
            return all(criterion.is_union_closed for criterion in criteria)
        return all(criterion.is_monotone for criterion in criteria)

    def all_criteria(self, schema: Schema) -> tuple[Criterion, ...]:
        """Put k, in rows of the unit, before the other criteria."""
        return MinimumSize(k=self.rows(schema)), *read_request_criteria(self.criteria, schema.unit)

    def rows(self, schema: Schema) -> int:
        """Tell how many rows a class holds at least."""
        return ClassGuarantee(k=self.k, quasi=(), unit=schema.unit).rows

    def describe(self) -> Text:
        """Say the rule as everybody may read it."""
        parts = [text("Every published combination is shared by at least {k} people.", k=self.k)]
        if self.criteria:
            words = join_clauses(criterion.describe() for criterion in read_criteria(self.criteria))
            parts.append(text("Every such group also keeps: {criteria}.", criteria=words))
        if self.max_suppressed:
            share = f"{float(self.max_suppressed):.4g}"
            parts.append(text("Up to {share} of the records may be left out for it.", share=share))
        if self.joint_k is not None:
            parts.append(
                text(
                    "All releases of the table together leave at least {k} people alike; this is checked when a request"
                    " is granted.",
                    k=self.joint_k,
                )
            )
        return join_sentences(parts)

    def to_value(self) -> dict[str, Any]:
        """Give it as JSON-able facts."""
        return {
            "k": self.k,
            "max_suppressed": write_exact(self.max_suppressed),
            "criteria": list(self.criteria),
            "joint_k": self.joint_k,
        }

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> TablePolicy:
        """Read what `to_value` gave."""
        return cls(
            k=int(value["k"]),
            max_suppressed=Fraction(value["max_suppressed"]),
            criteria=tuple(value["criteria"]),
            joint_k=value["joint_k"],
        )
