"""The address of a ledger on a server: read strictly, and never shown with a password."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sudare.errors import LedgerError
from sudare.privacy import Ledger, hide_password, is_server_address
from sudare.privacy.address import read_address

SECRET = "S3CRETX"
odd = st.text(alphabet="ab1:@/?#[]%&=\\ \0é", max_size=20) | st.text(max_size=20)


@settings(max_examples=300)
@given(odd, odd)
def test_whatever_stands_around_a_password_it_is_never_shown(before, after):
    for address in (
        f"postgresql://u:{SECRET}@{before}{after}",
        f"postgresql://{before}:{SECRET}@h/{after}",
        f"postgresql://h/d?password={SECRET}&{before}",
        f"postgresql://{before}?{after}&password={SECRET}",
    ):
        try:
            shown = str(hide_password(address))
        except LedgerError as error:
            shown = str(error)

        assert SECRET not in shown


@pytest.mark.parametrize(
    ("address", "ledger", "shown"),
    [
        ("postgresql://u@h/d", "sudare", "postgresql://u@h/d"),
        ("postgres://u:p%40@h:5432/d?ledger=x", "x", "postgresql://u@h:5432/d?ledger=x"),
        ("postgresql:///d?host=/run", "sudare", "postgresql:///d?host=%2Frun"),
        ("postgresql://u:a@b@h/d", "sudare", "postgresql://u@h/d"),
        (Path("postgresql://u:p@h/d"), "sudare", "postgresql://u@h/d"),
    ],
)
def test_an_address_is_read_as_the_driver_reads_it(address, ledger, shown):
    read = read_address(address)

    assert (read.ledger, read.shown, is_server_address(address)) == (ledger, shown, True)


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://u:p@h:port/d",
        "postgresql://u:12/34@h/d",
        "postgresql://u:1?a=b@h/d",
        "postgresql://u:p#x@h/d",
        "postgresql://h/d?ledger=Big",
        "postgresql://h/d?ledger=x;drop",
        "postgresql://h/d?ledger=a&ledger=b",
        "postgresql://h/d?ledger=" + "x" * 49,
        "postgresql://[::1/d",
    ],
)
def test_an_address_that_could_mean_something_else_is_refused_without_being_shown(address):
    with pytest.raises(LedgerError, match="must be like postgresql://user@host/database") as caught:
        read_address(address)

    assert address not in str(caught.value)


@pytest.mark.parametrize(
    "place", ["people.ledger", "postgresql.ledger", "./postgresql:/x", Path("/data/people.ledger")]
)
def test_a_file_is_no_address(place):
    assert not is_server_address(place)
    assert hide_password(place) == place


def test_without_the_driver_the_refusal_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(LedgerError, match=r"install it with: pip install 'sudare\[postgres\]'$"):
        Ledger.open("postgresql://u@h/d")
