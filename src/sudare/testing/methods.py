"""The contract of a method: what everything that publishes under differential privacy must keep."""

from __future__ import annotations

from collections.abc import Callable

from sudare.schema import Schema
from sudare.testing import audits, promises, releases
from sudare.testing.audits import halve_noise
from sudare.testing.subject import Method, Subject
from sudare.testing.tables import schema_of

__all__ = ["METHOD_CHECKS", "Method", "check_method"]

METHOD_CHECKS: tuple[Callable[[Subject], None], ...] = (
    promises.the_parameters_are_frozen,
    promises.the_guarantee_is_known_before_any_data,
    promises.the_preview_needs_no_data,
    promises.bad_parameters_are_refused,
    promises.a_ledger_without_budget_refuses_before_any_draw,
    promises.the_spends_equal_the_guarantee,
    promises.a_second_release_is_paid_for_too,
    promises.the_unit_of_the_schema_is_the_unit_of_the_promise,
    promises.a_ledger_of_the_other_relation_is_charged_soundly_or_refused,
    promises.a_source_that_cannot_be_read_costs_nothing,
    promises.an_inferred_schema_is_refused_before_any_spend,
    promises.a_huge_sparse_domain_works_or_is_refused_before_any_spend,
    releases.the_same_seed_gives_the_same_release,
    releases.the_release_is_what_draw_draws,
    releases.an_empty_table_is_published,
    releases.a_table_of_one_cell_is_published,
    releases.the_certificate_holds_no_count_of_the_table,
    releases.the_certificate_is_the_same_for_every_table,
    releases.records_are_in_random_order,
    releases.a_seeded_release_is_stamped_and_not_saved_by_accident,
    releases.a_saved_release_loads_as_it_was,
    releases.the_certificate_is_read_strictly,
    audits.an_audit_stays_within_the_promise,
    audits.an_audit_sees_it_when_the_noise_is_halved,
)

RUNS = 5_000


def check_method(
    method: Method,
    schema: Schema | None = None,
    *,
    runs: int = RUNS,
    weaken: Callable[[Method], Method] = halve_noise,
) -> list[str]:
    """Try a method against its contract; return the sentences that hold, or fail with the first that does not.

    `schema` is a small table the method can publish (64 cells of two attributes by default). `runs` is the number of
    runs of each audit, on each of two neighbouring tables. `weaken` makes a method whose noise is halved, which the
    audit must see. All noise is seeded: a verdict is the same every time.

    Error: AssertionError with the sentence that does not hold and what was found instead.

    >>> from sudare.methods.microdata import Microdata
    >>> check_method(Microdata(epsilon=2, method="projection"), runs=2_000)[4]
    'a ledger without budget refuses before any draw'
    """
    subject = Subject(method=method, schema=schema or schema_of(8, 8), runs=runs, weaken=weaken)
    return [_checked(check, subject) for check in METHOD_CHECKS]


def _checked(check: Callable[[Subject], None], subject: Subject) -> str:
    sentence = check.__name__.replace("_", " ")
    try:
        check(subject)
    except AssertionError as error:
        raise AssertionError(f"{type(subject.method).__name__}: it does not hold that {sentence}: {error}") from None
    return sentence
