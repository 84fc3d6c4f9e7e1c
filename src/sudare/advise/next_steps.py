"""What to do with the advice: the commands to run next, and a recipe to start from."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from sudare.advise.answers import Advice, Answers, Choice
from sudare.atomic import write_new_file
from sudare.forms.kinds import WholeNumber
from sudare.methods.registry import find_method
from sudare.text import say


@dataclass(frozen=True, kw_only=True, slots=True)
class FileNames:
    """The files that commands and recipes name. The data file is named, never opened."""

    facts: Path  # the schema, or the map of places
    data: str
    ledger: str
    out: str

    @classmethod
    def of(cls, facts: Path, publish: str, data: str | None) -> FileNames:
        """Name what was not named: members.toml goes with members.csv and members.ledger."""
        stem = facts.stem
        return cls(facts=facts, data=data or f"{stem}.csv", ledger=f"{stem}.ledger", out=f"{stem}-{publish}")


def list_commands(advice: Advice, answers: Answers, names: FileNames) -> list[str]:
    """List the commands that carry the advice out, ready for a shell."""
    publish, flags = advice.choice.publish, _write_flags(advice.choice)
    if _takes_map(advice.choice):
        return [_write_line("publish", publish, str(names.facts), *flags, "--out", names.out), *_list_checks(names)]
    check = _write_line("schema", "check", names.data, "--schema", str(names.facts))
    words = ("publish", publish, names.data, "--schema", str(names.facts), *flags)
    if advice.budget is None:
        return [
            check,
            *_name_roles(advice.choice, names),
            _write_line(*words, "--out", names.out),
            *_list_checks(names),
        ]
    neighbours = ("--neighbours", answers.neighbours) if answers.hide_number else ()
    return [
        check,
        _write_line("ledger", "create", names.ledger, "--epsilon", str(advice.budget), *neighbours),
        _write_line(*words, "--ledger", names.ledger, "--out", names.out),
        *(_write_line(*(word.replace("{out}", names.out) for word in use)) for use in advice.uses),
        *_list_checks(names, ("--ledger", names.ledger)),
    ]


def _takes_map(choice: Choice) -> bool:
    return find_method(choice.publish).takes == "map"


def _list_checks(names: FileNames, ledger: tuple[str, ...] = ()) -> list[str]:
    return [_write_line("verify", names.out, *ledger), _write_line("report", names.out, "-o", f"{names.out}.html")]


def _name_roles(choice: Choice, names: FileNames) -> list[str]:
    """Say, as a comment of the shell, what to write in the schema where no flag can say it."""
    return [
        "# " + say("first set role = {role} in {file} for: {names} (an option cannot name an attribute that has a"
                   " comma)",
                   role='"quasi"', file=names.facts, names=" / ".join(value))
        for value in choice.parameters.values()
        if not isinstance(value, str) and not _fits_a_flag(value)
    ]  # fmt: skip


def _write_flags(choice: Choice) -> list[str]:
    """One flag a parameter; neighbours are those of the ledger, and names with commas go into the schema."""
    words = []
    for name, value in choice.parameters.items():
        if name != "neighbours" and (isinstance(value, str) or _fits_a_flag(value)):
            words += [f"--{name.replace('_', '-')}", value if isinstance(value, str) else ",".join(value)]
    return words


def _fits_a_flag(names: tuple[str, ...]) -> bool:
    return all("," not in name and name == name.strip() for name in names)


def _write_line(*words: str) -> str:
    return shlex.join(["sudare", *words])


# --- a recipe ---------------------------------------------------------------------------------------------------


def write_recipe(file: Path, advice: Advice, answers: Answers, names: FileNames) -> None:
    """Write a recipe with the recommended release, and the runner-up as a comment; a file is never overwritten."""
    write_new_file(file, write_recipe_text(advice, answers, names, folder=file.parent))


def write_recipe_text(advice: Advice, answers: Answers, names: FileNames, *, folder: Path) -> str:
    """Give the recipe as text, paths relative to its folder."""
    is_map = _takes_map(advice.choice)
    facts, data = _write_path(names.facts, folder), _write_path(names.data, folder)
    head = ["[recipe]", "version = 1"]
    if not is_map:
        head += [f"source = {data}", f"schema = {facts}"]
    head += [f"out = {_write_path(f'{names.facts.stem}-releases', folder)}", ""]
    if advice.budget is not None:
        head += [*_write_ledger(advice.budget, answers, names, folder), ""]
    map_key = [f"map = {facts}"] if is_map else []
    lines = [*head, *_write_release(advice.choice, map_key)]
    if advice.runner_up is not None:
        epsilon = advice.runner_up.parameters.get("epsilon")
        ledger = (
            [] if advice.budget or not epsilon else _write_ledger(2 * Fraction(str(epsilon)), answers, names, folder)
        )
        other = [*ledger, *_write_release(advice.runner_up, map_key)]
        lines += ["", f"# {advice.runner_up_if}:", *(f"# {line}" for line in other)]
    return "\n".join(lines) + "\n"


def _write_ledger(budget: Fraction, answers: Answers, names: FileNames, folder: Path) -> list[str]:
    lines = [
        "[ledger]",
        f"file = {_write_path(names.ledger, folder)}",
        f"budget = {_quote(budget)}  # {say('half of it is kept for a correction')}",
    ]
    return [*lines, f"neighbours = {_quote(answers.neighbours)}"] if answers.hide_number else lines


def _write_release(choice: Choice, more: list[str]) -> list[str]:
    given = {name: value for name, value in choice.parameters.items() if name != "neighbours"}
    known = find_method(choice.publish).parameters()
    mode = [str(given[name]) for name in ("workload", "mode") if name in given]
    keys = [
        f"{name} = {value if isinstance(known[name].kind, WholeNumber) else _quote(value)}"
        for name, value in given.items()
    ]
    return [
        "[[release]]",
        f"name = {_quote('-'.join([choice.publish, *mode]))}",
        f"publish = {_quote(choice.publish)}",
        *more,
        *keys,
        "report = true",
    ]


def _write_path(path: str | Path, folder: Path) -> str:
    if "://" in str(path):  # no path: it is the same from everywhere
        return _quote(str(path))
    return _quote(Path(os.path.relpath(path, folder)).as_posix())


def _quote(value: str | tuple[str, ...] | Fraction) -> str:
    return json.dumps(value if isinstance(value, tuple) else str(value), ensure_ascii=False)
