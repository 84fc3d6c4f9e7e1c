"""What can be known of a k-anonymous release before the table is opened."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np

from sudare.counts import Counts
from sudare.counts.relabelling import Recodable
from sudare.errors import Infeasible, ParameterError, SchemaError
from sudare.methods.certify import certificate
from sudare.methods.kanon.criteria import Criterion, MinimumSize, Presence, read_criteria
from sudare.methods.kanon.lattice import Lattice
from sudare.methods.kanon.local import node_groups, recode_locally, refine_from_best_node
from sudare.methods.kanon.mondrian import ValueLine, partition
from sudare.methods.kanon.problem import Problem, SearchProgress, SearchResult, search
from sudare.methods.kanon.problem import SearchName as Search
from sudare.methods.kanon.quality import QUALITIES
from sudare.methods.kanon.recode import (
    ClassChecker,
    HierarchyCut,
    Pieces,
    find_kept_pieces,
    make_class_checker,
    number_classes,
)
from sudare.methods.kanon.relabel import (
    Outcome,
    check_promise,
    make_mapping_writer,
    name_levels,
    recode_by_cuts,
    recode_by_parts,
)
from sudare.methods.kanon.tuples import Tuples
from sudare.noise import Rng
from sudare.privacy import Ledger, Unrecorded, exact
from sudare.privacy.promise import ClassGuarantee
from sudare.releases import Release
from sudare.schema import Schema, Unit
from sudare.text import say


@dataclass(frozen=True, kw_only=True, slots=True)
class KAnonymityPreview:
    """The size of the search, and what is published unchanged.

    `finest` and `coarsest` count the combinations of quasi-identifiers at the ends of the lattice. `most_cells`, for
    a number of rows, is how many combinations can hold k rows each if rows were spread evenly; real tables are not.
    """

    quasi: tuple[str, ...]
    unchanged: tuple[str, ...]
    nodes: int | None  # None: Mondrian searches no lattice
    finest: int
    coarsest: int
    most_cells: int | None = None

    def lines(self, *, lang: str | None = None) -> list[str]:
        """Tell it in a few lines."""
        told = [say("quasi-identifiers: {names}", lang=lang, names=", ".join(self.quasi))]
        if self.nodes is not None:
            told.append(say("ways to generalise: {nodes}", lang=lang, nodes=self.nodes))
        told.append(
            say(
                "combinations: {finest} as declared, {coarsest} at the coarsest",
                lang=lang,
                finest=self.finest,
                coarsest=self.coarsest,
            )
        )
        if self.most_cells is not None:
            told.append(say("at most {cells} combinations can hold k rows each", lang=lang, cells=self.most_cells))
        if self.unchanged:
            names = ", ".join(self.unchanged)
            told.append(
                say("published as they are, for those who know them no protection: {names}", lang=lang, names=names)
            )
        return told

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a program."""
        return {
            "quasi": list(self.quasi),
            "unchanged": list(self.unchanged),
            "nodes": self.nodes,
            "finest_cells": self.finest,
            "coarsest_cells": self.coarsest,
            "most_cells": self.most_cells,
        }


# The method's parameters, promise and order of steps.


Recoding = Literal["full", "value", "mondrian"]
Cutting = Literal["strict", "relaxed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class KAnonymity:
    """Publish the table itself, quasi-identifiers generalised so that at least k rows share every combination.

    `recoding`: "full", one level of its hierarchy for every attribute, the best node of the lattice by `quality`;
    "value", from there on every group of values that can be opened is; "mondrian", ranges that need no hierarchy.
    At most `max_suppressed` of the rows are left out; with `local`, they are generalised further instead where that
    keeps the promise. `criteria` beyond k are objects or texts such as "l=3,disease".

    Guarantee: k-anonymity and the criteria, for the published rows of this one release. Proof: proofs/kanon.md
    Error: the loss of each attribute, see `sudare.methods.kanon.risk`.
    Source: Sweeney 2002; Oguri, Sonehara, Matsui, Sarrafi Aghdam 2016

    >>> KAnonymity(k=5, max_suppressed="0.05").guarantee().max_suppressed
    Fraction(1, 20)
    """

    k: int
    search: Search = "auto"
    max_suppressed: Fraction | str | int | float = Fraction(0)
    criteria: tuple[Criterion | str, ...] = ()
    quality: str = "loss"
    recoding: Recoding = "full"
    mondrian: Cutting = "strict"
    local: bool = False
    quasi: tuple[str, ...] | None = None  # attributes of role "quasi" by default
    by: tuple[str, ...] | None = None  # attributes to publish; all by default
    others: bool = False  # publish also columns that the schema does not declare
    deadline_seconds: float | None = None

    def __post_init__(self) -> None:
        MinimumSize(k=self.k)
        share = exact(self.max_suppressed, name="max_suppressed", low=Fraction(0), high=Fraction(1))
        object.__setattr__(self, "max_suppressed", share)
        given = (self.criteria,) if isinstance(self.criteria, str) else tuple(self.criteria)
        object.__setattr__(self, "criteria", read_criteria(given))
        for field in ("quasi", "by"):
            names = getattr(self, field)
            if names is not None:
                object.__setattr__(self, field, (names,) if isinstance(names, str) else tuple(names))
        self._check_choices()

    def _check_choices(self) -> None:
        if self.search not in get_args(Search):
            raise ParameterError(
                "search ({search}) must be auto, pak, ola, incognito, flash, datafly or exhaustive", search=self.search
            )
        if self.quality not in QUALITIES:
            raise ParameterError(
                "quality ({quality}) must be one of {known}", quality=self.quality, known=", ".join(QUALITIES)
            )
        if self.recoding not in get_args(Recoding):
            raise ParameterError("recoding ({recoding}) must be full, value or mondrian", recoding=self.recoding)
        if self.mondrian not in get_args(Cutting):
            raise ParameterError("mondrian ({mondrian}) must be strict or relaxed", mondrian=self.mondrian)
        if self.deadline_seconds is not None and not self.deadline_seconds > 0:
            raise ParameterError("deadline_seconds ({seconds}) must be above 0", seconds=self.deadline_seconds)
        if any(isinstance(one, Presence) for one in self.criteria) and (self.recoding != "full" or self.local):
            raise ParameterError("delta-presence works with full recoding only; leave out local and other recodings")

    @property
    def share(self) -> Fraction:
        """The share of rows that may be left out, exactly."""
        return Fraction(self.max_suppressed)

    # --- before the data ----------------------------------------------------------------------------------------

    def guarantee(self, *, unit: Unit | None = None, quasi: tuple[str, ...] | None = None) -> ClassGuarantee:
        """Tell the promise before any data is opened."""
        return ClassGuarantee(
            k=self.k,
            quasi=quasi or self.quasi or (),
            unit=unit or Unit(),
            criteria=tuple(one.describe() for one in read_criteria(self.criteria)),
            max_suppressed=self.share,
        )

    def preview(self, schema: Schema, *, rows: int | None = None) -> KAnonymityPreview:
        """Tell how large the search is and what stays as it is, from public facts."""
        if rows is not None and rows < 0:
            raise ParameterError("rows ({rows}) must be at least 0", rows=rows)
        quasi, chosen = self._quasi(schema), self._published(schema)
        attributes = [schema.attribute(name) for name in quasi]
        lattice = None if self.recoding == "mondrian" else Lattice.of(schema, quasi)
        return KAnonymityPreview(
            quasi=quasi,
            unchanged=tuple(name for name in chosen if name not in quasi),
            nodes=None if lattice is None else lattice.size,
            finest=math.prod(each.size for each in attributes),
            coarsest=1 if lattice is None else lattice.cells(lattice.heights),
            most_cells=None if rows is None else rows // self.guarantee(unit=schema.unit).rows,
        )

    def _quasi(self, schema: Schema) -> tuple[str, ...]:
        published = self._published(schema)
        declared = tuple(each.name for each in schema.attributes if each.role == "quasi")
        named = self.quasi or tuple(name for name in declared if name in published)
        if not named and declared:
            raise ParameterError(
                "none of the attributes to publish ({names}) is a quasi-identifier; publish one of {quasi} too, or name"
                " those that others may know by `quasi`",
                names=", ".join(published),
                quasi=", ".join(declared),
            )
        if not named:
            raise SchemaError('no attribute is a quasi-identifier; give those that others may know role = "quasi"')
        missing = [name for name in named if schema.attribute(name).name not in published]
        if missing:
            raise ParameterError("quasi-identifier {name} is not among the published attributes", name=missing[0])
        return tuple(schema.attribute(name).name for name in named)

    def _published(self, schema: Schema) -> tuple[str, ...]:
        return schema.names if self.by is None else schema.select(self.by).names

    def sensitive(self, schema: Schema, quasi: tuple[str, ...]) -> tuple[str, ...]:
        """The attributes that criteria read, and those declared sensitive, which are looked at for likeness."""
        read = [schema.attribute(name).name for one in read_criteria(self.criteria) for name in one.sensitive]
        for name in read:
            if name in quasi:
                raise ParameterError("attribute {name} cannot be both quasi-identifier and sensitive", name=name)
        declared = [each.name for each in schema.attributes if each.role == "sensitive" and each.name not in quasi]
        chosen = self._published(schema)
        return tuple(dict.fromkeys([*read, *(name for name in declared if name in chosen)]))

    # --- with the data ------------------------------------------------------------------------------------------

    def publish(
        self,
        source: Recodable,
        *,
        ledger: Ledger | Unrecorded | None = None,
        rng: Rng | None = None,
        register: Counts | None = None,
    ) -> Release:
        """Count, search, recode; the rows are written through the source when the release is saved.

        Keep the source open until then. No epsilon is spent and no noise drawn: `ledger` is taken for the sake of one
        form of call, and a seeded `rng` marks the release as made for tests. `register`, for delta-presence, counts the
        population over the quasi-identifiers.
        """
        return self.release(source, self.decide(source, register=register), rng=rng)

    def decide(
        self,
        source: Recodable,
        *,
        register: Counts | None = None,
        progress: Callable[[SearchProgress], None] | None = None,
    ) -> Outcome:
        """Count and recode, without writing anything. The outcome is private: it stays with the steward."""
        schema = source.schema
        schema.require_confirmed()
        quasi = self._quasi(schema)
        sensitive = self.sensitive(schema, quasi)
        if self.recoding != "mondrian":
            Lattice.of(schema, quasi)  # refuses a quasi-identifier without hierarchy before the data is read
        counts = source.count([*quasi, *sensitive])
        return self.outcome(counts, quasi, sensitive, unit=schema.unit, register=register, progress=progress)

    def outcome(
        self,
        counts: Counts,
        quasi: tuple[str, ...],
        sensitive: tuple[str, ...] = (),
        *,
        unit: Unit | None = None,
        register: Counts | None = None,
        progress: Callable[[SearchProgress], None] | None = None,
    ) -> Outcome:
        """Recode a table of counts over quasi-identifiers and sensitive attributes."""
        least = self.guarantee(unit=unit).rows
        criteria = (MinimumSize(k=least), *read_criteria(self.criteria))
        if counts.total < least:
            raise Infeasible("k ({k}) is larger than the table allows; choose a smaller k", k=self.k)
        pieces = Pieces.of(counts, quasi, sensitive)
        holds = make_class_checker(criteria, pieces)
        if self.recoding == "mondrian":
            return self._by_mondrian(pieces, holds)
        problem = Problem(
            tuples=Tuples.of(counts, quasi, sensitive, population=register),
            lattice=Lattice.of(counts.schema, quasi),
            criteria=criteria,
            quality=QUALITIES[self.quality],
            max_suppressed=self.share,
            deadline_seconds=self.deadline_seconds,
            progress=progress,
        )
        return self._by_node(pieces, holds, problem, search(problem, self.search))

    def _by_node(self, pieces: Pieces, holds: ClassChecker, problem: Problem, found: SearchResult) -> Outcome:
        if self.recoding == "value":
            cuts, class_of, is_kept = refine_from_best_node(
                pieces,
                (found.node, problem.lattice.heights),
                holds,
                most_lost=problem.max_suppressed_rows,
                deadline_seconds=self.deadline_seconds,
            )
        else:
            cuts = [
                HierarchyCut.at(attribute, level, pieces.codes[:, axis])
                for axis, (attribute, level) in enumerate(zip(problem.lattice.attributes, found.node, strict=True))
            ]
            class_of = number_classes(node_groups(pieces, found.node))
            is_kept = find_kept_pieces(pieces, holds, problem, found.node, class_of)
        rounds = []
        if self.local and not is_kept.all():
            rounds = recode_locally(
                pieces,
                np.flatnonzero(~is_kept),
                lattice=problem.lattice,
                criteria=problem.criteria,
                quality=problem.quality,
                holds=holds,
                find=lambda rest: search(rest, "auto"),
                deadline_seconds=self.deadline_seconds,
            )
        recoded = recode_by_cuts(pieces, cuts, class_of, is_kept, rounds, self.recoding)
        if problem.tuples.population is None:
            check_promise(recoded, holds, problem.max_suppressed_rows)
        return Outcome(recoded=recoded, found=found)

    def _by_mondrian(self, pieces: Pieces, holds: ClassChecker) -> Outcome:
        if not holds(pieces, np.zeros(len(pieces.weights), dtype=np.int64), 1).all():
            raise Infeasible("even the whole table as one class does not keep the criteria; ask for less")
        lines = [ValueLine(attribute) for attribute in pieces.attributes[: pieces.quasi]]
        places = np.column_stack([line.places(pieces.codes[:, axis]) for axis, line in enumerate(lines)])
        parts = partition(pieces, places, holds, relaxed=self.mondrian == "relaxed")
        recoded = recode_by_parts(parts, lines, "mondrian")
        check_promise(recoded, holds, 0)
        return Outcome(recoded=recoded)

    def release(
        self, source: Recodable, outcome: Outcome, *, rng: Rng | None = None, without: tuple[str, ...] = ()
    ) -> Release:
        """Make the release of an outcome; nothing is written before `Release.save`. Columns `without` are dropped."""
        schema, quasi = source.schema, outcome.recoded.pieces.names[: outcome.recoded.pieces.quasi]
        names = tuple(name for name in self._published(schema) if name not in without)
        rows = source.relabel(outcome.recoded.relabelling, names=names, others=self.others)
        levels = None if outcome.found is None else name_levels(quasi, outcome.found.node)
        is_full = self.recoding == "full" and not self.local and levels is not None
        told = schema.select(names).coarsen(levels) if is_full and levels is not None else schema.select(names)
        paper = certificate(
            method="kanon",
            parameters=self._parameters(),
            guarantee=self.guarantee(unit=schema.unit, quasi=quasi),
            schema=told,
            expected_error={},
            measures={**({"levels": levels} if is_full else {}), "coarseness": outcome.recoded.coarseness()},
            private=rng is None or rng.is_private,
        )
        files = {"records": rows.write, "mapping.json": make_mapping_writer(outcome.recoded.mapping)}
        return Release({}, paper, files)

    def _parameters(self) -> dict[str, str]:
        told = {
            "k": str(self.k),
            "search": self.search,
            "max_suppressed": str(self.max_suppressed),
            "criteria": "; ".join(one.describe().render("en") for one in read_criteria(self.criteria)),
            "quality": self.quality,
            "recoding": self.recoding,
            "mondrian": self.mondrian if self.recoding == "mondrian" else "",
            "local": str(self.local).lower(),
        }
        return {name: text for name, text in told.items() if text}
