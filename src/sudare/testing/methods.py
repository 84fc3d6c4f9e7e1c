"""The contract of a method: what everything that publishes must keep, whatever goes in and whatever it promises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sudare.methods.base import Method
from sudare.testing import audits, promise_checks, refusal_checks, release_checks
from sudare.testing.promise_checks import Check, reason_against
from sudare.testing.subject import Subject, schema_of
from sudare.verify.promises import schema_with_hierarchies, small_map

__all__ = ["METHOD_CHECKS", "CheckedSentence", "check_method"]

METHOD_CHECKS: tuple[Check, ...] = (
    promise_checks.the_parameters_are_frozen,
    promise_checks.the_guarantee_is_known_before_any_data,
    promise_checks.the_preview_needs_no_data,
    promise_checks.bad_parameters_are_refused,
    promise_checks.a_ledger_without_budget_refuses_before_any_draw,
    promise_checks.the_spends_equal_the_guarantee,
    promise_checks.a_second_release_is_paid_for_too,
    promise_checks.the_unit_of_the_schema_is_the_unit_of_the_promise,
    promise_checks.a_ledger_of_the_other_relation_is_charged_soundly_or_refused,
    promise_checks.a_promise_without_epsilon_charges_no_ledger,
    promise_checks.a_source_that_cannot_be_read_costs_nothing,
    promise_checks.an_inferred_schema_is_refused_before_any_spend,
    promise_checks.a_huge_sparse_domain_works_or_is_refused_before_any_spend,
    refusal_checks.whether_a_release_is_made_tells_nothing_of_the_table,
    release_checks.the_same_seed_gives_the_same_release,
    release_checks.without_noise_the_release_is_the_same_every_time,
    release_checks.the_release_is_what_draw_draws,
    release_checks.an_empty_table_is_published,
    release_checks.a_table_of_one_cell_is_published,
    release_checks.the_certificate_holds_no_count_of_the_table,
    release_checks.the_certificate_is_the_same_for_every_table,
    release_checks.records_are_in_random_order,
    release_checks.a_seeded_release_is_stamped_and_not_saved_by_accident,
    release_checks.a_saved_release_loads_as_it_was,
    release_checks.a_stored_release_tells_no_time,
    release_checks.what_a_stored_release_says_is_worked_out_again,
    release_checks.the_certificate_is_read_strictly,
    release_checks.a_finished_release_is_recognised,
    release_checks.the_page_of_a_release_is_written,
    audits.an_audit_sees_it_when_the_noise_is_halved,
    audits.an_audit_stays_within_the_promise,
    audits.a_replay_on_neighbours_loses_no_more_than_the_promise,
    audits.every_published_class_holds_k,
    audits.a_recount_sees_it_when_k_is_halved,
    audits.no_report_tells_more_than_epsilon_per_metre,
    audits.the_bound_is_seen_to_break_when_epsilon_is_doubled,
)
MOST_RUNS = 8_000


@dataclass(frozen=True, slots=True)
class CheckedSentence:
    """A sentence of the contract that holds, or does not apply for a reason."""

    sentence: str
    reason: str = ""  # why it does not apply; empty if it was checked and holds

    def __str__(self) -> str:
        return self.sentence if not self.reason else f"does not apply: {self.sentence} ({self.reason})"


def check_method(
    method: Method,
    facts: Any = None,
    *,
    runs: int = MOST_RUNS,
    weaken: Callable[[Any], Any] | None = None,
) -> list[CheckedSentence]:
    """Try a method against its contract; tell what holds and what does not apply, or fail with what does not hold.

    `facts` are a small schema (or map) the method can publish; the default has 64 cells of two attributes. `runs` is
    the most runs of each audit, on each of two neighbouring tables; 0 leaves the audits out. `weaken` makes a method
    that keeps only half of its promise, which must be seen. All noise is seeded: a verdict is the same every time.

    Error: AssertionError with the sentence that does not hold and what was found instead.

    >>> from sudare.methods.microdata import Microdata
    >>> str(check_method(Microdata(epsilon=2), runs=0)[4])
    'a ledger without budget refuses before any draw'
    """
    tried = _default_facts(method) if facts is None else facts
    subject = Subject(method=method, facts=tried, runs=runs, weaken=weaken or audits.halve)
    return [_check(check, subject) for check in METHOD_CHECKS]


def _default_facts(method: Method) -> Any:
    if method.takes == "map":
        return small_map()
    return schema_of(8, 8) if method.takes == "counts" else schema_with_hierarchies()


def _check(check: Check, subject: Subject) -> CheckedSentence:
    sentence = check.__name__.replace("_", " ")
    if reason := reason_against(check, subject):
        return CheckedSentence(sentence, reason)
    try:
        check(subject)
    except AssertionError as error:
        raise AssertionError(f"{type(subject.method).__name__}: it does not hold that {sentence}: {error}") from None
    return CheckedSentence(sentence)
