"""The answer to a request: for the data user words alone, for the steward the figures beside them.

The data user's answer is a pure function of request, public schema, policy and verdict file (verdicts.py): verdict,
alternatives near the wish and what each of them gives up, in words. It holds no count and no size of a class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sudare.methods.kanon.grouping_words import describe_change, describe_detail, describe_option
from sudare.methods.kanon.nearby import drop_left_out
from sudare.methods.kanon.predict import FEASIBLE, Prediction, Verdict
from sudare.methods.kanon.request import Grouping, Request, RequestOption
from sudare.report.page import render_page
from sudare.report.shapes import Listing, Section
from sudare.requests.policy import TablePolicy
from sudare.requests.verdicts import VerdictFile
from sudare.text import Text, Words, join_items, text, use_language


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """A grouping near the wish that can be had, and what it gives up."""

    option: RequestOption
    verdict: Verdict
    changes: tuple[Text, ...]
    detail: Text

    def to_value(self) -> dict[str, Any]:
        """Give it as JSON-able facts, words in both languages."""
        return {
            "groupings": {name: grouping.to_value() for name, grouping in self.option.items()},
            "verdict": self.verdict,
            "changes": [_write_both(change) for change in self.changes],
            "detail": _write_both(self.detail),
        }


@dataclass(frozen=True, kw_only=True)
class OptionAnswer:
    """The verdict on one option, and alternatives if it cannot be had."""

    option: RequestOption
    verdict: Verdict
    alternatives: tuple[Alternative, ...] = ()

    def to_value(self) -> dict[str, Any]:
        """Give it as JSON-able facts, words in both languages."""
        return {
            "groupings": {name: grouping.to_value() for name, grouping in self.option.items()},
            "asked": _write_both(describe_option(self.option)),
            "verdict": self.verdict,
            "words": _write_both(describe_outside(self.verdict)),
            "alternatives": [alternative.to_value() for alternative in self.alternatives],
        }


@dataclass(frozen=True, kw_only=True)
class RequestAnswer:
    """The whole answer for the data user: nothing in it is of the table beyond the bits of the verdict file."""

    table: str
    request: Request
    policy: TablePolicy
    options: tuple[OptionAnswer, ...]
    unchanged: tuple[str, ...] = ()  # columns that come with every option as they are

    @property
    def first_feasible(self) -> int | None:
        """Find the first option that can be had or is likely to."""
        return next((at for at, option in enumerate(self.options) if option.verdict in FEASIBLE), None)

    @property
    def verdict(self) -> Verdict:
        """The verdict on the request as a whole: that of the option that would be published."""
        if self.first_feasible is not None:
            return self.options[self.first_feasible].verdict
        order: Sequence[Verdict] = ("unknown", "unlikely", "fails")
        return next(verdict for verdict in order if any(option.verdict == verdict for option in self.options))

    def describe(self) -> Text:
        """Say the verdict in a sentence."""
        return describe_outside(self.verdict)

    def to_value(self) -> dict[str, Any]:
        """Give it as JSON-able facts, words in both languages: what the store keeps and a program reads."""
        return {
            "table": self.table,
            "request": self.request.name,
            "policy": _write_both(self.policy.describe()),
            "unchanged": list(self.unchanged),
            "verdict": self.verdict,
            "words": _write_both(self.describe()),
            "first_feasible": self.first_feasible,
            "options": [option.to_value() for option in self.options],
        }

    def to_markdown(self, language: str | None = None) -> str:
        """Write it as Markdown, in the language of the reader or the one that is named."""
        if language is not None:
            with use_language(language):
                return self.to_markdown()
        lines = [f"# {_escape_markdown(self._title)}", "", f"**{self.describe()}**", ""]
        for note in self._notes:
            lines += [_escape_markdown(note), ""]
        for number, answer in enumerate(self.options, 1):
            asked = _escape_markdown(describe_option(answer.option))
            lines += [
                f"## {text('Option {number}', number=number)}: {asked}",
                "",
                str(describe_outside(answer.verdict)),
            ]
            for alternative in answer.alternatives:
                lines.append(f"- {_escape_markdown(_describe_alternative(alternative))}")
            lines.append("")
        return "\n".join([*lines, str(_describe_source()), ""])

    def to_page(self, language: str | None = None) -> str:
        """Write it as a page of HTML, in the language of the reader or the one that is named."""
        if language is not None:
            with use_language(language):
                return self.to_page()
        return render_page(
            title=self._title,
            kind=text("Answer to a request for a tailor-made table"),
            promise=self.describe(),
            notes=self._notes,
            facts=(),
            sections=[
                Section(
                    title=text("Option {number}", number=number),
                    words=(describe_option(answer.option), describe_outside(answer.verdict)),
                    parts=_list_alternatives(answer),
                )
                for number, answer in enumerate(self.options, 1)
            ],
            origin=_describe_source(),
        )

    @property
    def _notes(self) -> tuple[Text, ...]:
        rule = text("The rule of this table: {policy}", policy=self.policy.describe())
        if not self.unchanged:
            return (rule,)
        return rule, text("Columns that come with every option, unchanged: {names}.", names=", ".join(self.unchanged))

    @property
    def _title(self) -> Text:
        return text("Request {name}: table {table}", name=self.request.name or "-", table=self.table)


def answer_request(file: VerdictFile, request: Request) -> RequestAnswer:
    """Answer every option from the verdict file, with alternatives where it cannot be had."""
    return RequestAnswer(
        table=file.schema.name,
        request=request,
        policy=file.policy,
        options=tuple(_answer_option(file, option) for option in request.options),
        unchanged=file.policy.unchanged(file.schema, request.options),
    )


def _answer_option(file: VerdictFile, option: RequestOption) -> OptionAnswer:
    verdict = file.judge(option)
    offered = [] if verdict in FEASIBLE else file.find_alternatives(option)
    alternatives = tuple(make_alternative(option, near, file.judge(near)) for near in offered)
    return OptionAnswer(option=option, verdict=verdict, alternatives=alternatives)


def make_alternative(option: RequestOption, near: RequestOption, verdict: Verdict) -> Alternative:
    """Say what an alternative gives up."""
    left_out = {name: Grouping(grouping.attribute, None) for name, grouping in option.items()}
    changes = (describe_change(option[name], near.get(name, left_out[name])) for name in option)
    return Alternative(
        option=drop_left_out(near),
        verdict=verdict,
        changes=tuple(change for change in changes if change is not None),
        detail=describe_detail(option, near),
    )


def describe_outside(verdict: Verdict) -> Text:
    """Say a verdict to a data user."""
    match verdict:
        case "holds":
            return text("Possible: this grouping keeps the rule of the table.")
        case "likely":
            return text("Likely possible; the steward will measure it.")
        case "unlikely":
            return text("Unlikely: some groups probably do not keep the rule of the table.")
        case "fails":
            return text("Not possible: some groups do not keep the rule of the table.")
        case _:
            return text("Not known yet; if you ask, the steward can measure it.")


def _describe_alternative(alternative: Alternative) -> Text:
    return text(
        "Instead: {changes} ({detail}). {verdict}",
        changes=join_items(alternative.changes),
        detail=alternative.detail,
        verdict=describe_outside(alternative.verdict),
    )


def _list_alternatives(answer: OptionAnswer) -> tuple[Listing, ...]:
    if not answer.alternatives:
        return ()
    rows: list[tuple[Words, ...]] = [
        (join_items(near.changes), near.detail, describe_outside(near.verdict)) for near in answer.alternatives
    ]
    head = (text("instead"), text("what is left"), text("can it be had?"))
    return (Listing(title=text("Near what was asked for"), head=head, rows=rows),)


def _describe_source() -> Text:
    return text("Made by Sudare from the public schema and the verdict file of the table; it holds no count.")


def _write_both(words: Text) -> dict[str, str]:
    return {"en": words.render("en"), "ja": words.render("ja")}


def _escape_markdown(words: Words) -> str:
    """Keep names and labels from being read as Markdown or HTML."""
    written = str(words).replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{letter}" if letter in "*_`[]#|" else letter for letter in written).replace("\n", " ")


# --- the steward's answer ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class StewardAnswer:
    """The answer with its figures: what history and pair counts predict. Not for publication."""

    outside: RequestAnswer
    prediction: Prediction
    bits: Text
    notes: tuple[Text, ...] = field(default=())

    @property
    def lines(self) -> list[Words | Listing]:
        """Say it to the steward, the figures stamped."""
        lines: list[Words | Listing] = [self.outside.describe(), text("for the steward only, not for publication:")]
        for number, answer in enumerate(self.prediction.answers, 1):
            lines.append(
                text(
                    "option {number}: {groupings}: {words}",
                    number=number,
                    groupings=describe_option(answer.option),
                    words=answer.describe(),
                )
            )
            for near in self.prediction.nearest[number - 1]:
                lines.append(
                    text("instead: {groupings}: {words}", groupings=describe_option(near.option), words=near.describe())
                )
        if self.outside.verdict == "unknown":
            lines.append(
                text(
                    "the data user is told no more than that this is not known yet; `sudare request measure` decides "
                    "it, then answer again, or let `sudare request grant` measure it"
                )
            )
        return [*lines, self.bits, *self.notes]

    def to_dict(self) -> Mapping[str, Any]:
        """Give plain values for the steward's program."""
        return {
            "stamp": "not for publication",
            "answer": self.outside.to_value(),
            "prediction": self.prediction.to_dict(),
        }
