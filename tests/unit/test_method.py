"""The door itself: parameters that are said once, plans that must be paid for, methods found by name."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import pytest

import sudare as sd
from sudare.errors import ParameterError, ReleaseError
from sudare.methods.base import Method, Payload, Plan
from sudare.methods.differential import EpsilonMethod
from sudare.methods.parameters import parameter, use_new_names, write_parameters
from sudare.methods.registry import find_method, method_entries, method_of
from sudare.noise import SeededRng
from sudare.testing import Tabled
from sudare.testing.subject import Untouchable, even_table, schema_of
from sudare.text import text
from tests.processes import run

BUILT_IN = {
    "microdata": sd.Microdata,
    "table": sd.Table,
    "view": sd.View,
    "kanon": sd.KAnonymity,
    "location": sd.Location,
}


@dataclass(frozen=True, kw_only=True)
class Sample(EpsilonMethod):
    """A method with a parameter of every kind that follows from a type."""

    name = "sample"
    summary = text("a row")

    size: int = parameter(text("a row"))
    kind: Literal["large", "small"] = parameter(text("a row"), default="large", old_names=("sort",))
    shuffled: bool = parameter(text("a row"), default=False, used_with={"kind": ("small",)})
    label: str | None = parameter(text("a row"), default=None)
    hidden: int = parameter(text("a row"), default=1, is_certified=False)

    def plan(self, schema: sd.Schema, *, neighbours: Any = None) -> Plan:
        promise = self.guarantee(unit=schema.unit, neighbours=neighbours)
        return Plan(promise=promise, schema=schema, parts={"all": promise.epsilon}, counted=schema.names)

    def make(self, counts: sd.Counts, plan: Plan, *, rng: Any) -> Payload:
        rng.bits(1)
        return Payload()


def sample(**fields: Any) -> Any:
    return Sample(**{"epsilon": 1, "size": 3, **fields})


# --- parameters -------------------------------------------------------------------------------------------------------


def test_a_parameter_is_described_from_its_field_and_type() -> None:
    found = Sample.parameters()
    kinds = {name: type(about.kind).__name__ for name, about in found.items()}

    assert list(found) == ["epsilon", "neighbours", "by", "size", "kind", "shuffled", "label", "hidden"]
    assert [name for name, about in found.items() if about.required] == ["epsilon", "size"]
    assert found["kind"].choices == ("large", "small")
    assert (kinds["size"], kinds["shuffled"], kinds["label"], kinds["by"]) == (
        "WholeNumber",
        "Flag",
        "TextLine",
        "NameList",
    )


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"epsilon": "none"}, "epsilon (none) must be a number between 1/1000000 and 1000, such as 1/2"),
        ({"size": "many"}, "size (many) must be a whole number"),
        ({"kind": "Large"}, 'kind (Large) must be one of "large", "small"'),
        ({"shuffled": 1}, "shuffled (1) must be true or false, without quotes"),
        ({"by": ()}, "by ([]) must be a list of names in quotes that is not empty"),
        ({"neighbours": "friends"}, 'neighbours (friends) must be one of "replace", "add-remove"'),
    ],
)
def test_a_value_of_another_kind_is_refused_in_one_line_that_shows_it(fields: dict[str, Any], line: str) -> None:
    with pytest.raises(ParameterError) as refused:
        sample(**fields)

    assert str(refused.value) == line


def test_values_are_read_once_on_entry() -> None:
    made = sample(epsilon="0.1", by="a0, a1", kind="small")

    assert (made.epsilon, made.by, made.kind) == (Fraction(1, 10), ("a0", "a1"), "small")
    assert dataclasses.replace(made, epsilon="1/3").epsilon == Fraction(1, 3)


def test_an_old_name_is_taken_for_one_version_and_says_the_new_one() -> None:
    with pytest.warns(DeprecationWarning, match="sort is now called kind"):
        made = sample(sort="small")

    assert (made.kind, made.sort) == ("small", "small")
    with pytest.raises(AttributeError, match="sorts"):
        made.sorts  # noqa: B018


@pytest.mark.parametrize("method", [sd.Microdata, sd.Table, sd.View])
def test_method_inside_a_method_is_its_algorithm_now(method: Any) -> None:
    value = method.parameters()["algorithm"].choices[-1]
    with pytest.warns(DeprecationWarning, match="method is now called algorithm"):
        made = method(epsilon=1, method=value)

    assert made.algorithm == value


def test_both_names_at_once_are_refused() -> None:
    with pytest.raises(ParameterError, match="kind was given twice"):
        use_new_names(Sample, {"kind": "large", "sort": "small"})


def test_a_certificate_holds_what_was_given_decided_and_used() -> None:
    plain = write_parameters(sample(by="a0", shuffled=True), {"label": "chosen"})
    small = write_parameters(sample(kind="small", shuffled=True), {})

    assert plain == {"epsilon": "1", "by": "a0", "size": "3", "kind": "large", "label": "chosen"}
    assert small == {"epsilon": "1", "size": "3", "kind": "small", "shuffled": "true"}


@pytest.mark.parametrize("method", BUILT_IN.values())
def test_every_parameter_of_every_method_says_what_it_is_in_both_languages(method: type[Method]) -> None:
    for about in [*method.parameters().values(), *method.extra_files]:
        assert about.help.render("en")
        assert about.help.render("ja") != about.help.render("en")
        assert about.flag == "--" + about.name.replace("_", "-")


# --- plans ------------------------------------------------------------------------------------------------------------


class Unpaid(Sample):
    """Promises differential privacy and plans no spend."""

    def plan(self, schema: sd.Schema, *, neighbours: Any = None) -> Plan:
        return dataclasses.replace(super().plan(schema, neighbours=neighbours), parts={})


class Turncoat(Sample):
    """Promises more after it was paid."""

    def make(self, counts: sd.Counts, plan: Plan, *, rng: Any) -> Payload:
        return Payload(plan=dataclasses.replace(plan, promise=sample(epsilon="1/9").guarantee()))


def test_a_promise_of_differential_privacy_that_spends_nothing_is_refused_before_any_draw() -> None:
    with pytest.raises(ParameterError, match="must spend for differential privacy"):
        Unpaid(epsilon=1, size=3).publish(Tabled(even_table()), rng=Untouchable())


def test_a_promise_that_was_paid_for_cannot_change() -> None:
    with pytest.raises(ParameterError, match="cannot be changed"):
        Turncoat(epsilon=1, size=3).publish(Tabled(even_table()), rng=SeededRng(1))


def test_a_method_that_takes_a_map_asks_for_one() -> None:
    with pytest.raises(ParameterError, match="needs a map"):
        sd.Location(epsilon_per_metre="0.02").publish()


def test_a_source_that_counts_over_other_facts_is_not_trusted() -> None:
    class Swapped(Tabled):
        def count(self, by: Any = None) -> sd.Counts:
            return even_table(schema_of(4, 4))

    with pytest.raises(sd.SourceError, match="another schema"):
        sample().publish(Swapped(even_table()), rng=Untouchable())


# --- the registry -----------------------------------------------------------------------------------------------------


def test_the_built_in_methods_are_found_by_name() -> None:
    found = {name: find_method(name) for name in BUILT_IN}

    assert found == BUILT_IN
    assert list(method_entries())[:5] == list(BUILT_IN)
    assert all(method_entries()[name].describe() == method.summary for name, method in BUILT_IN.items())


def test_a_method_that_is_not_there_is_refused_with_those_there_are() -> None:
    with pytest.raises(ParameterError, match="there is no method magic; the methods are microdata, table, view"):
        find_method("magic")


def test_a_release_of_a_method_that_is_not_there_is_not_judged() -> None:
    certificate = sd.Microdata(epsilon=1).publish(Tabled(even_table())).certificate

    with pytest.raises(ReleaseError, match="not known here"):
        method_of(dataclasses.replace(certificate, method="magic"))


def test_a_list_of_methods_imports_none_of_them() -> None:
    lines = "import sys, sudare.methods.registry as r; list(r.method_entries()); print('numpy' in sys.modules)"
    done = run([sys.executable, "-c", lines])

    assert done.stdout.strip() == "False"


def test_only_a_method_of_that_name_can_be_registered() -> None:
    for wrong in (dict, type("Nameless", (Sample,), {"name": "microdata"})):
        with pytest.raises(ParameterError):
            sd.register(wrong)  # type: ignore[type-var]
    assert importlib.import_module("sudare.methods.registry")._REGISTERED == {}
