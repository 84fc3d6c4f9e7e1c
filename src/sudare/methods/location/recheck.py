"""A stored mechanism for devices, certified again: what the law in the device file promises, not what is said of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from sudare.methods.location.device_file import FIRST_FORMAT, DeviceFile, load_device_file
from sudare.methods.location.hidden import HiddenMechanism
from sudare.methods.recheck import are_equal, find_table, read_parameters, recheck_figures, recheck_promise
from sudare.releases import Certificate
from sudare.releases.certificate import round_up
from sudare.releases.claims import CheckedClaim
from sudare.releases.columns import read_labels, read_numbers
from sudare.releases.parquet import read_frame
from sudare.text import text

if TYPE_CHECKING:
    from sudare.methods.location.location import Location
    from sudare.methods.location.preview import LocationPreview

NEEDS_PRIOR = (
    "posterior_min",
    "posterior_median",
    "posterior_max",
    "expected_distance_metres",
    "home_found_1_days",
    "home_found_30_days",
    "home_found_365_days",
)
"""Figures that depend on where people are; a prior that was given is not published."""


def recheck_device_file(kind: type[Location], certificate: Certificate, directory: Path) -> list[CheckedClaim]:
    """Certify the law of the device file again, and compare promise, figures and the table of cells with it."""
    device = load_device_file(directory)
    method = kind(**read_parameters(kind, certificate))
    measured = _take_claimed(method.measure(device.mechanism, repeat=device.repeat), device.tight_epsilon_per_metre)
    promise = dataclasses.replace(method.guarantee(), metric=device.mechanism.places.to_dict()["kind"])
    has_prior = certificate.parameters.get("prior") != "even"
    return [
        recheck_promise(certificate, promise.to_dict()),
        _recheck_law(certificate, device, method),
        _recheck_epsilon(measured),
        *_recheck_measures(certificate, measured, has_prior),
        _recheck_cells(certificate, directory, device, method, has_prior),
    ]


def _take_claimed(measured: LocationPreview, claimed: float) -> LocationPreview:
    """Take the certified epsilon of the file where it differs by the error of another computation only."""
    tight = measured.tight
    if not 0 < abs(tight.epsilon - claimed) <= tight.error:
        return measured
    return dataclasses.replace(measured, tight=dataclasses.replace(tight, epsilon=claimed))


def _recheck_law(certificate: Certificate, device: DeviceFile, method: Location) -> CheckedClaim:
    """Check that devices read the law, the promise and the number of reports that the certificate tells."""
    told = certificate.parameters
    passed = (
        told.get("id") == device.identity
        and told.get("beta_per_metre") == str(device.mechanism.beta_per_metre)
        and told.get("cells") == str(device.mechanism.places.size)
        and told.get("epsilon_per_metre") == str(device.epsilon_per_metre)
        and device.repeat.fresh_reports == method.reports_per_day
        and (device.format == FIRST_FORMAT or device.repeat == method.repeat_use)
    )
    detail = (
        text("devices read the law that the certificate names")
        if passed
        else text("the device file holds another law, promise or number of reports than the certificate")
    )
    return CheckedClaim(name=text("device file"), passed=passed, detail=detail)


def _recheck_epsilon(measured: LocationPreview) -> CheckedClaim:
    """Certify the smallest epsilon of the law, and hold it against the promise."""
    values = {"tight": round_up(measured.tight.epsilon), "epsilon": str(measured.epsilon_per_metre)}
    is_proven = 2 * measured.beta_per_metre <= measured.epsilon_per_metre
    if is_proven or measured.tight.epsilon <= float(measured.epsilon_per_metre):
        detail = text("the map needs epsilon {tight} per metre; {epsilon} is promised", **values)
        return CheckedClaim(name=text("tight epsilon"), passed=True, detail=detail)
    detail = text("the map needs epsilon {tight} per metre, more than the {epsilon} promised", **values)
    return CheckedClaim(name=text("tight epsilon"), passed=False, detail=detail)


def _recheck_measures(certificate: Certificate, measured: LocationPreview, has_prior: bool) -> list[CheckedClaim]:
    """Compare the figures; those that take a prior which is not published are only stated, but must be there."""
    claims, expected = [], measured.measures()
    for name, found in ((text("measures"), certificate.measures), (text("expected error"), certificate.expected_error)):
        hidden = {key: found[key] for key in NEEDS_PRIOR if has_prior and isinstance(found.get(key), float)}
        claims.append(recheck_figures(certificate, name, found, {**expected, **hidden}))
    if has_prior:
        detail = text("these figures depend on where people are, which is not published: {names}",
                      names=", ".join(NEEDS_PRIOR))  # fmt: skip
        claims.append(CheckedClaim(name=text("measures"), passed=True, detail=detail, basis="stated"))
    return claims


def _recheck_cells(
    certificate: Certificate, directory: Path, device: DeviceFile, method: Location, has_prior: bool
) -> CheckedClaim:
    """Make the table of cells again, and compare it column by column."""
    from sudare.methods.location.preview import make_cell_table

    found = read_frame(find_table(certificate, directory, "weights")).columns
    expected = make_cell_table(device.mechanism, model=method.posterior_model).columns
    passed = set(found) == set(expected)
    needs_prior = ("posterior", "weight") if isinstance(device.mechanism, HiddenMechanism) else ("posterior",)
    for name, column in expected.items():
        if not passed or (has_prior and name in needs_prior):
            continue
        if name == "place":
            first, second = read_labels(found[name]), read_labels(column)
            passed = first.labels[first.codes].tolist() == second.labels[second.codes].tolist()
        else:
            passed = are_equal(read_numbers(found[name]), read_numbers(column))
    detail = (
        text("the table of cells is that of the law")
        if passed
        else text("the table of cells is not that of the law in the device file")
    )
    return CheckedClaim(name=text("cells"), passed=passed, detail=detail)
