"""Choose and preview: questions instead of parameters, the error to expect for each setting; nothing is spent."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from starlette.responses import Response

from sudare.advise.answers import Advice, Answers
from sudare.advise.choose import decide
from sudare.errors import LedgerError, ParameterError, SudareError
from sudare.forms.kinds import Flag
from sudare.methods.base import Method
from sudare.methods.parameters import Parameter, write_value
from sudare.methods.registry import find_method, method_entries
from sudare.privacy import Ledger
from sudare.privacy.exact import write_exact
from sudare.schema import Schema
from sudare.studio.project import StoredRelease, StudioTable
from sudare.studio.sizes import AnswerSizes, find_sizes, list_askable
from sudare.studio.web import Visit, go, tell

STOPS = ("1/20", "1/10", "1/4", "1/2", "1", "2", "4")  # of epsilon; docs/how-to/choosing-epsilon.md
MOST_AT_ONCE = 4  # stops that one piece of advice compares
USEFUL = 0.05  # of an answer, as in `choose`
KS = ("3", "5", "10", "20", "50")


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """One setting on the scale: its words, and how far a usual answer may be off (None: not known)."""

    value: str
    words: str
    share: float | None

    @property
    def width(self) -> int:
        """The length of its bar, of 100; a usual answer that is wholly noise fills it."""
        return 0 if self.share is None else max(1, round(100 * min(self.share, 1.0)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """What a ledger holds."""

    budget: Fraction
    left: Fraction
    currency: str
    neighbours: str
    broken: str = ""

    @property
    def spent_share(self) -> int:
        """Of 100."""
        return 0 if not self.budget else round(100 * float((self.budget - self.left) / self.budget))

    def describe(self, amount: Fraction) -> str:
        """Write an amount."""
        return write_exact(amount)


def read_budget(table: StudioTable) -> Budget | None:
    """Read what the ledger of a table holds; one whose chain is broken is told, and pays for nothing."""
    if not table.ledger_file.exists():
        return None
    try:
        with Ledger.open(table.ledger_file) as ledger:
            ledger.verify()
            return Budget(
                budget=ledger.budget, left=ledger.left, currency=ledger.currency.name, neighbours=ledger.neighbours
            )
    except LedgerError as error:
        return Budget(budget=Fraction(), left=Fraction(), currency="", neighbours="", broken=str(error))


def show_choose(visit: Visit) -> Response:
    """Ask what people need; once it is answered, show what is recommended and what each setting gives."""
    table = visit.table()
    if table.cards is None or not table.cards.is_complete:
        return go(f"/t/{table.id}/schema")
    return _show(visit, table, table.answers)


def change_answers(visit: Visit) -> Response:
    """Keep the answers and show what they lead to."""
    table = visit.table()
    kept = ("need", "rows", "truthful", "hide_number", "epsilon", "k", "sizes")
    answers = {name: visit.form[name].strip() for name in kept if visit.form.get(name, "").strip()}
    if answers.get("need") != table.answers.get("need") or answers.get("truthful") != table.answers.get("truthful"):
        answers.pop("epsilon", None)
    visit.project.save_answers(table.id, answers)
    if "go" in visit.form:
        return go(f"/t/{table.id}/publish")
    return _show(visit, visit.table(), answers)


def _show(visit: Visit, table: StudioTable, given: Mapping[str, Any]) -> Response:
    error, advice = "", None
    stops: list[Setting] = []
    if given.get("need"):
        try:
            advice, stops = _advise(Schema.read(table.schema_file), table, given)
        except SudareError as refusal:
            error = str(refusal)
    releases = list_askable(visit.project, table)
    chosen = None if advice is None else str(given.get(advice.name) or advice.choice.parameters.get(advice.name, ""))
    return visit.show(
        "choose.html",
        table=table,
        step="choose",
        given=given,
        advice=advice,
        stops=stops,
        chosen=chosen,
        sizes=_show_sizes(table, given, releases, next((stop for stop in stops if stop.value == chosen), None)),
        size_sources=releases,
        budget=read_budget(table),
        useful=round(100 * USEFUL),
        others=[(name, str(entry.describe())) for name, entry in method_entries().items()],
        error=error,
        command=_write_command(table, given),
        python=_write_python(advice, chosen),
        tell=tell,
    )


def _show_sizes(
    table: StudioTable, given: Mapping[str, Any], releases: Sequence[StoredRelease], stop: Setting | None
) -> AnswerSizes | None:
    """The sizes of answers beside the error at the setting that is chosen; None where an error is not known."""
    rows = str(given.get("rows", "")).replace(",", "")
    if stop is None or stop.share is None or not rows.isdecimal():
        return None
    wish = str(given.get("sizes", ""))
    return find_sizes(Schema.read(table.schema_file), releases, wish=wish, rows=int(rows), share=stop.share)


def _write_python(advice: Advice | None, chosen: str | None) -> str:
    """The Python lines that look at what is recommended before it is made."""
    first = 'import sudare as sd\nschema = sd.Schema.read("schema.toml")\n'
    if advice is None:
        return first + "print(schema)"
    given = {**advice.choice.parameters, advice.name: chosen or advice.choice.parameters.get(advice.name, "")}
    named = ", ".join(f"{name}={value if name == 'k' else repr(value)}" for name, value in given.items())
    return f"{first}sd.{find_method(advice.choice.publish).__name__}({named}).preview(schema)"


def _write_command(table: StudioTable, given: Mapping[str, Any]) -> str:
    words = ["sudare", "choose", "schema.toml"]
    for name, flag in (("need", "--need"), ("rows", "--rows"), ("truthful", "--truthful"),
                       ("hide_number", "--hide-number")):  # fmt: skip
        if given.get(name):
            words += [flag, str(given[name])]
    return shlex.join(words)


def read_answers(given: Mapping[str, Any], epsilons: tuple[str, ...] | None = None) -> Answers:
    """Read what was answered on the page."""
    rows = str(given.get("rows", "")).replace(",", "")
    if rows and not (rows.isdecimal() and len(rows) <= 13):
        raise ParameterError("rows ({rows}) must be a whole number", rows=rows)
    return Answers(
        need=given["need"],
        rows=int(rows) if rows else None,
        truthful=given.get("truthful") == "yes",
        hide_number=given.get("hide_number") == "yes",
        epsilons=epsilons,
    )


def _advise(schema: Schema, table: StudioTable, given: Mapping[str, Any]) -> tuple[Advice, list[Setting]]:
    """Take the advice, and the error at every stop of the scale."""
    advice = decide(schema, table.schema_file, read_answers(given))
    if advice.name != "epsilon":
        return advice, [_make_stop(value, expected) for value, expected in advice.expected]
    stops = []
    for first in range(0, len(STOPS), MOST_AT_ONCE):
        part = decide(schema, table.schema_file, read_answers(given, STOPS[first : first + MOST_AT_ONCE]))
        if part.choice.publish == advice.choice.publish:
            stops += [_make_stop(value, expected) for value, expected in part.expected]
    return advice, stops


def _make_stop(value: str, expected: Any) -> Setting:
    share = None if expected.relative is None else 1.96 * expected.relative
    return Setting(value=value, words=str(expected.words), share=share)


def find_plan(table: StudioTable) -> tuple[type[Method], dict[str, Any]]:
    """Find the method and the parameters that the steward chose: by the questions, or by hand.

    Error: ParameterError if nothing was chosen yet.
    """
    given = table.answers
    if given.get("method"):
        return find_method(given["method"]), dict(given.get("parameters", {}))
    if not given.get("need"):
        raise ParameterError("choose first what people need")
    advice = decide(Schema.read(table.schema_file), table.schema_file, read_answers(given))
    parameters: dict[str, Any] = dict(advice.choice.parameters)
    if given.get(advice.name):
        parameters[advice.name] = given[advice.name]
    if advice.name == "k" and "k" in parameters:
        parameters["k"] = int(str(parameters["k"]))
    return find_method(advice.choice.publish), parameters


# --- a method by hand -------------------------------------------------------------------------------------------------


def show_method(visit: Visit, *, error: str = "") -> Response:
    """A form with every parameter that a method declares; a method of another package is offered alike."""
    table = visit.table()
    method = find_method(visit.path["method"])
    given = {**table.answers.get("parameters", {}), **visit.form}
    fields = [_describe_field(about, given) for about in method.parameters().values()]
    return visit.show(
        "method.html",
        table=table,
        step="choose",
        method=method.name,
        class_name=method.__name__,
        summary=str(method.summary),
        fields=fields,
        error=error,
        status=400 if error else 200,
    )


def _describe_field(about: Parameter, given: Mapping[str, Any]) -> dict[str, Any]:
    default = about.default if about.default not in (None, ()) else ""
    return {
        "name": about.name,
        "help": str(about.help),
        "choices": about.choices,
        "is_flag": isinstance(about.kind, Flag),
        "required": about.required,
        "default": write_value(default),
        "value": given.get(about.name, "" if about.choices == () else write_value(default)),
    }


def choose_method(visit: Visit) -> Response:
    """Take a method with its parameters as they were typed; what does not fit is told, and stays."""
    table = visit.table()
    method = find_method(visit.path["method"])
    given: dict[str, Any] = {}
    for name, about in method.parameters().items():
        typed = visit.form.get(name, "").strip()
        if isinstance(about.kind, Flag):
            given |= {name: True} if typed else {}
        elif typed:
            given[name] = typed
    try:
        made = method(**{name: read_typed(method, name, value) for name, value in given.items()})
        if method.takes == "map":
            raise ParameterError(
                "{method} is made of a map; it is published from the page of places", method=method.name
            )
        made.promise(Schema.read(table.schema_file))
    except (SudareError, TypeError) as refusal:
        words = str(refusal) if isinstance(refusal, SudareError) else str(ParameterError("fill in what is required"))
        return show_method(visit, error=words)
    answers = {name: value for name, value in table.answers.items() if name != "need"}
    visit.project.save_answers(table.id, {**answers, "method": method.name, "parameters": given})
    return go(f"/t/{table.id}/publish")


def read_typed(method: type[Method], name: str, value: Any) -> Any:
    """Read a number that was typed as one; everything else is read by the method."""
    from sudare.forms.kinds import Seconds, WholeNumber

    kind = method.parameters()[name].kind
    if isinstance(kind, WholeNumber) and isinstance(value, str):
        with contextlib.suppress(ValueError):
            return int(value)
    if isinstance(kind, Seconds) and isinstance(value, str):
        with contextlib.suppress(ValueError):
            return float(value)
    return value


def make_method(table: StudioTable) -> Method:
    """Make the method that was chosen."""
    method, parameters = find_plan(table)
    return method(**{name: read_typed(method, name, value) for name, value in parameters.items()})


ROUTES = (
    ("/t/{table}/choose", "GET", show_choose),
    ("/t/{table}/choose", "POST", change_answers),
    ("/t/{table}/method/{method}", "GET", show_method),
    ("/t/{table}/method/{method}", "POST", choose_method),
)
