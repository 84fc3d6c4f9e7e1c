"""What an outsider is told of a request: a pure function of a small file, whoever asks and however often.

The verdict file has one bit for every grouping that was measured (it keeps the policy of the table, or not), and the
power law k = a x^b + 1 with a rounded to a power of two and b to an eighth. Which groupings are measured is decided by
public facts (the schema, and requests that were asked), never by the table. So all verdicts together tell what the file
holds, and `bits` counts it. Groups of one's own are judged by how many they are and by nesting with measured groupings,
never by counts: a group built around one person gets a word that does not depend on that person.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sudare.atomic import replace_file
from sudare.errors import ParameterError, RequestError, SchemaError
from sudare.methods.kanon.nearby import find_nearest, is_finer_option, write_key
from sudare.methods.kanon.power_law import fit_power_law
from sudare.methods.kanon.predict import FEASIBLE, Verdict
from sudare.methods.kanon.request import Grouping, RequestOption
from sudare.requests.policy import TablePolicy
from sudare.schema import Schema
from sudare.text import Text, text

FORMAT = 1
LAW_EXPONENTS, LAW_EIGHTHS = 64, 32  # values that the rounded law can take: a = 2^0 ... 2^63, b = 0 ... -31/8
MIN_LAW_POINTS = 4  # measured groupings with k above 1
# What the law must predict, as a multiple of k, for "likely", and at most for "unlikely". Chosen on made-up tables;
# the first was raised from 30 after a look at the tables of benchmarks/kanon_predict.py, which measures both.
LIKELY_MULTIPLE, UNLIKELY_MULTIPLE = 200.0, 0.8


@dataclass(frozen=True, kw_only=True)
class MeasuredBit:
    """One grouping that was measured, and whether it keeps the policy."""

    option: RequestOption
    is_kept: bool


@dataclass(frozen=True, kw_only=True)
class RoundedLaw:
    """k = 2^exponent x^(-eighths / 8) + 1, all that is told of the power law."""

    exponent: int
    eighths: int

    def __post_init__(self) -> None:
        if type(self.exponent) is not int or not 0 <= self.exponent < LAW_EXPONENTS:
            raise ValueError
        if type(self.eighths) is not int or not 0 <= self.eighths < LAW_EIGHTHS:
            raise ValueError

    def k_at(self, cells: float) -> float:
        """Predict k for a number of cells."""
        return float(2.0 ** (self.exponent - self.eighths / 8 * math.log2(max(1.0, cells)))) + 1

    @classmethod
    def fit(cls, points: Iterable[tuple[int, float]]) -> RoundedLaw | None:
        """Fit the law to points (cells, k), and round it; None if too few points determine it.

        >>> RoundedLaw.fit([(2, 513), (4, 257), (8, 129), (16, 65)])
        RoundedLaw(exponent=10, eighths=8)
        """
        used = [(cells, k) for cells, k in points if k > 1]
        law = fit_power_law(used) if len(used) >= MIN_LAW_POINTS else None
        if law is None:
            return None
        exponent = min(max(round(math.log2(max(law.a, 1.0))), 0), LAW_EXPONENTS - 1)
        return cls(exponent=exponent, eighths=min(max(round(-8 * law.b), 0), LAW_EIGHTHS - 1))


@dataclass(frozen=True, kw_only=True)
class VerdictFile:
    """All that verdicts for outsiders may depend on, besides the public schema and policy.

    Guarantee: equal files give equal answers to every request; a file tells at most `bits` bits of the table.
    """

    schema: Schema
    policy: TablePolicy
    measured: tuple[MeasuredBit, ...] = ()
    law: RoundedLaw | None = None

    def judge(self, option: RequestOption) -> Verdict:
        """Give the verdict on one option."""
        return self.settle(option) or self._judge_by_law(option)

    def settle(self, option: RequestOption) -> Verdict | None:
        """Give the verdict that measured groupings make certain; None if none does."""
        if self.policy.is_monotone:
            if any(bit.is_kept and is_finer_option(bit.option, option) for bit in self.measured):
                return "holds"
            if any(not bit.is_kept and is_finer_option(option, bit.option) for bit in self.measured):
                return "fails"
        elif (known := self._by_key.get(write_key(option))) is not None:
            return "holds" if known else "fails"
        return None

    @cached_property
    def _by_key(self) -> dict[Any, bool]:
        return {write_key(bit.option): bit.is_kept for bit in self.measured}

    def _judge_by_law(self, option: RequestOption) -> Verdict:
        """Judge by the law: it knows k alone, and nothing of rows left out."""
        if self.law is None:
            return "unknown"
        predicted = self.law.k_at(math.prod(grouping.size for grouping in option.values()))
        rows = self.policy.rows(self.schema)
        if predicted >= LIKELY_MULTIPLE * rows and self.policy.is_k_alone:
            return "likely"
        return "unlikely" if predicted <= UNLIKELY_MULTIPLE * rows and not self.policy.max_suppressed else "unknown"

    def find_alternatives(self, option: RequestOption) -> list[RequestOption]:
        """Find the options nearest to one that hold or are likely to, by the same file."""
        return find_nearest(option, lambda tried: self.judge(tried) in FEASIBLE)

    @cached_property
    def bits(self) -> float:
        """Count what the file can tell of the table, at most, in bits.

        Along a chain of groupings, each coarser than the one before, a policy that is monotone is kept from some point
        on: n of them tell log2(n + 1) bits. The measured groupings are covered by chains.
        """
        law = math.log2(LAW_EXPONENTS * LAW_EIGHTHS + 1) if self.measured or self.law else 0.0
        if not self.policy.is_monotone:
            return law + len(self.measured)
        return law + sum(math.log2(length + 1) for length in self._cover_by_chains())

    def _cover_by_chains(self) -> list[int]:
        """Cover the measured groupings by chains, greedily: any cover gives a bound. The lengths."""
        order = sorted(self.measured, key=lambda bit: -math.prod(float(group.size) for group in bit.option.values()))
        chains: list[list[MeasuredBit]] = []
        for bit in order:
            chain = next((chain for chain in chains if is_finer_option(chain[-1].option, bit.option)), None)
            if chain is None:
                chains.append([bit])
            else:
                chain.append(bit)
        return [len(chain) for chain in chains]

    def describe_bits(self) -> Text:
        """Say to the steward what the file tells."""
        return text(
            "verdicts for data users come from {count} measured groupings and a rounded law; however many ask, all"
            " verdicts together tell at most {bits} bits about the table",
            count=len(self.measured),
            bits=math.ceil(self.bits),
        )

    def to_json(self) -> str:
        """Write the file."""
        facts = {
            "format": FORMAT,
            "schema": self.schema.fingerprint,
            "policy": self.policy.to_value(),
            "law": None if self.law is None else {"exponent": self.law.exponent, "eighths": self.law.eighths},
            "measured": [
                {
                    "groupings": {name: grouping.to_value() for name, grouping in sorted(bit.option.items())},
                    "kept": bit.is_kept,
                }
                for bit in self.measured
            ],
        }
        return json.dumps(facts, ensure_ascii=False, indent=1) + "\n"

    def write(self, path: str | Path) -> None:
        """Write the file, as a whole or not at all."""
        replace_file(Path(path), self.to_json(), error=RequestError)

    @classmethod
    def read(cls, path: str | Path, schema: Schema, policy: TablePolicy) -> VerdictFile:
        """Read a file; where there is none, nothing was measured yet.

        Error: RequestError for a file that is none, of a newer format, or of another table or policy.
        """
        try:
            facts = json.loads(Path(path).read_text(encoding="utf-8"))
            if facts["format"] != FORMAT:
                raise ValueError
            if facts["schema"] != schema.fingerprint or facts["policy"] != policy.to_value():
                raise RequestError(
                    "the verdict file {file} is of another table or policy; make it anew with: sudare request measure",
                    file=path,
                )
            law = None if facts["law"] is None else RoundedLaw(**facts["law"])
            bits = tuple(_read_bit(bit, schema) for bit in facts["measured"])
        except FileNotFoundError:
            return cls(schema=schema, policy=policy)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, ParameterError, SchemaError):
            raise RequestError(
                "the verdict file {file} cannot be read; make it anew with: sudare request measure", file=path
            ) from None
        return cls(schema=schema, policy=policy, law=law, measured=bits)


def _read_bit(facts: dict[str, Any], schema: Schema) -> MeasuredBit:
    option = {name: Grouping.from_value(schema.attribute(name), value) for name, value in facts["groupings"].items()}
    return MeasuredBit(option=option, is_kept=bool(facts["kept"]))
