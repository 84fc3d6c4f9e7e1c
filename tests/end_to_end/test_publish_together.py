"""Publishers that share an output or a ledger: one name is paid for once, and sums are one's own."""

from __future__ import annotations

import json
import os
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from sudare.app import publish
from sudare.errors import ReleaseError
from sudare.methods.microdata import Microdata
from sudare.privacy import Guarantee, Ledger
from sudare.releases import Release
from sudare.schema.unit import Unit
from tests.processes import run

# Six processes publish into one directory. Whoever comes as far as counting waits there until each of the others counts
# too or has ended: so all of them overlap, whether or not the name is held.
TOGETHER = """
import json, os, sys, time
from pathlib import Path
from sudare.app import publish
from sudare.errors import SudareError
from sudare.methods.base import Method
from sudare.methods.microdata import Microdata

count = Method.count

def count_together(self, source, plan):
    Path(f"counting{number}").touch()
    while len({path.name[8:] for path in Path(".").glob("counting*")}
              | {path.name[5:] for path in Path(".").glob("ended*")}) < 6:
        time.sleep(0.005)
    return count(self, source, plan)

Method.count = count_together
children = []
for number in range(6):
    child = os.fork()
    if not child:
        try:
            told = publish(Microdata(epsilon="1/2"), "members.csv", out=Path("release"),
                           schema_file=Path("members.toml"), ledger_file="m.ledger")
            line = f"published {told.cost} {told.left}"
        except SudareError as error:
            line = str(error)
        Path(f"told{number}").write_text(line)
        Path(f"ended{number}").touch()
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
print(json.dumps([Path(f"told{number}").read_text() for number in range(6)]))
"""


def test_of_six_publishers_into_one_name_one_spends_and_five_are_refused_and_spend_nothing(place: Path) -> None:
    Ledger.create(place / "m.ledger", epsilon=3).close()
    done = run([sys.executable, "-c", TOGETHER], cwd=place)
    told = json.loads(done.stdout) if done.returncode == 0 else [done.stderr]

    assert sorted(line.partition(";")[0] for line in told) == [
        *["another command is publishing to release"] * 5,
        "published 1/2 5/2",
    ]
    with Ledger.open(place / "m.ledger") as ledger:
        assert ledger.spent == Fraction(1, 2)
    assert not [name for name in os.listdir(place) if name.startswith(".")]
    Release.load(place / "release")


DIES = """
import os
from pathlib import Path
from sudare.scratch import hold_name

hold_name(Path("release"))
os._exit(9)
"""


def spend_elsewhere(place: Path) -> None:
    """Spend as another process does, between the spend of a publisher and its release."""
    promise = Guarantee(epsilon=Fraction(1, 3), neighbours="replace", unit=Unit())
    with Ledger.open(place / "m.ledger") as ledger:
        ledger.spend({"something else": Fraction(1, 3)}, guarantee=promise)


def publish_members(place: Path) -> object:
    return publish(
        Microdata(epsilon="1/2"),
        place / "members.csv",
        out=place / "release",
        schema_file=place / "members.toml",
        ledger_file=place / "m.ledger",
    )


def test_a_publisher_tells_what_it_spent_and_not_what_others_spent_meanwhile(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ledger.create(place / "m.ledger", epsilon=3).close()
    save = Release.save

    def save_late(self, *given, **named):
        spend_elsewhere(place)
        return save(self, *given, **named)

    monkeypatch.setattr(Release, "save", save_late)
    told = publish_members(place)

    assert (told.cost, told.left, told.budget) == (Fraction(1, 2), Fraction(5, 2), 3)
    assert "spent epsilon 1/2; 5/2 of 3 is left" in [str(line) for line in told.lines]


def test_a_publisher_that_fails_after_its_spend_names_its_own_loss(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ledger.create(place / "m.ledger", epsilon=3).close()

    def fail(self, *given, **named):
        spend_elsewhere(place)
        raise ReleaseError("no space is left to write {target}", target="release")

    monkeypatch.setattr(Release, "save", fail)

    with pytest.raises(ReleaseError, match=r"\(epsilon 1/2 was spent before that, and stays spent\)$"):
        publish_members(place)


def test_a_publisher_that_was_killed_lets_go_of_the_name(place: Path) -> None:
    """Its holder is left behind and locked by nobody: the next one removes it."""
    run([sys.executable, "-c", DIES], cwd=place)
    left = [name for name in os.listdir(place) if name.startswith(".sudare-")]
    Ledger.create(place / "m.ledger", epsilon=3).close()
    publish_members(place)

    assert len(left) == 1
    assert (place / "release" / "certificate.json").exists()
    assert not [name for name in os.listdir(place) if name.startswith(".sudare-")]
