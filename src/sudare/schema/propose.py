"""A first draft of a schema, from facts a source tells about its columns; a steward reads, corrects and confirms it.

The draft holds values of the table, so it is marked `inferred = true` and no private release takes it before it is
confirmed; every attribute whose values or range were read off the data says so. Lines that begin with `# ?` are open
questions: each is followed by what a yes would write, `sudare schema edit` asks them one by one, and a draft that is
confirmed without an answer stays as it is written.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sudare.atomic import write_new_file
from sudare.errors import SchemaError
from sudare.forms.kinds import quote
from sudare.schema.guess import MARKS, ColumnFacts, Guess, guess, rank_person, repeats
from sudare.text import Text, Words, text
from sudare.text.cards import Preformatted, card

__all__ = ["MARKS", "ColumnFacts", "SchemaDraft", "TableFacts", "propose"]

_INFERRED = re.compile(r"(?m)^[ \t]*inferred[ \t]*=[ \t]*true[ \t]*(#[^\n]*)?$")


@dataclass(frozen=True, kw_only=True, slots=True)
class TableFacts:
    """What a source saw in a table: its columns, its first rows, and what was not read as rows.

    `never_together` are pairs of values (column, value, column, value) that no row of the sample has.
    """

    columns: tuple[ColumnFacts, ...]
    rows: int
    sample_rows: int = 0
    samples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    never_together: tuple[tuple[str, str, str, str], ...] = ()
    notes: tuple[Text, ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaDraft:
    """A proposed schema file: text for a steward to read, correct and confirm. It holds values of the table.

    `files` are lists of values that the draft names, by name; they are saved beside it.
    """

    name: str
    toml: str
    files: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.toml

    def save(self, path: str | Path, *, confirmed: bool = False) -> Path:
        """Write the draft to a new file; `confirmed=True` says that every line of it was read and is public."""
        wanted = mark_confirmed(self.toml) if confirmed else self.toml
        target = Path(path)
        for name, values in self.files.items():
            write_new_file(target.parent / name, values, error=SchemaError)
        write_new_file(target, wanted, error=SchemaError)
        return target

    def _repr_html_(self) -> str:
        """Show the text of the draft in a notebook."""
        return card(
            text("Draft of a schema for {name}", name=self.name),
            rows=[(Preformatted(self.toml),)],
            warning=text("Inferred from the data: correct it and confirm it before anything is published."),
        )


def mark_confirmed(toml: str) -> str:
    """Mark the text of a draft as read and confirmed; everything else stays as it was written.

    >>> mark_confirmed("[sudare]\\ninferred = true  # when all is right\\n")
    '[sudare]\\ninferred = "confirmed"\\n'
    """
    marked, count = _INFERRED.subn('inferred = "confirmed"', toml, count=1)
    if not count:
        raise SchemaError("the schema is no draft: it has no line inferred = true; nothing is left to confirm")
    return marked


# --- writing a draft --------------------------------------------------------------------------------------------------


def propose(columns: Sequence[ColumnFacts], name: str) -> str:
    """Write a schema file for a steward to correct, from the facts of its columns alone.

    >>> text = propose([ColumnFacts("sex", "text", 2, values=("F", "M"))], "people")
    >>> print(text[text.index("[[attribute]]") :].strip())
    [[attribute]]
    name = "sex"
    kind = "category"
    values = ["F", "M"]
    from_data = true
    role = "quasi"
    hierarchy = { builtin = "star" }
    """
    return draft(TableFacts(columns=tuple(columns), rows=columns[0].rows or 0 if columns else 0), name).toml


def draft(table: TableFacts, name: str) -> SchemaDraft:
    """Draft a schema file, and the files of values that it names."""
    if not table.columns:
        raise SchemaError("the data have no columns; nothing can be proposed. The first line must name them")
    guesses = _leave_out_twins({column.name: guess(column) for column in table.columns})
    if not any(guessed.keys for guessed in guesses.values()):  # a file must declare something, if only to be corrected
        guesses = {name: replace(guessed, keys={"role": '"identifier"'}) for name, guessed in guesses.items()}
    roles = find_roles(table, guesses)
    files: dict[str, str] = {}
    lines = [*_write_head(table, name), *_write_unit(table)]
    for number, column in enumerate(table.columns, start=1):
        guessed = guesses[column.name]
        if guessed.listed:
            file = f"{_make_file_name(name)}.{number}.values.txt"
            files[file] = "\n".join(guessed.listed) + "\n"
            guessed = replace(guessed, keys={"kind": guessed.keys["kind"], "values_file": quote(file), **guessed.keys})
        lines += _write_attribute(column, guessed, roles.get(column.name))
    lines += _write_impossible(table, guesses)
    return SchemaDraft(name=name or "data", toml="\n".join(lines).rstrip("\n") + "\n", files=files)


def _leave_out_twins(guesses: Mapping[str, Guess]) -> dict[str, Guess]:
    """Leave out columns whose names an earlier one has in other letter case: no file of a release can hold both."""
    kept: dict[str, str] = {}
    drafted = {}
    for name, guessed in guesses.items():
        first = kept.setdefault(name.casefold(), name) if guessed.keys else name
        if first != name:
            reason = text("its name and {first} differ in case only; rename it to publish both", first=first)
            guessed = Guess(keys={}, comments=(reason,))
        drafted[name] = guessed
    return drafted


def _make_file_name(name: str) -> str:
    return re.sub(r"[^\w-]+", "_", name).strip("_") or "data"


def _write_head(table: TableFacts, name: str) -> list[str]:
    return [
        f"# {text('Proposed from the data: values below may tell about people.')}",
        f"# {text('Read every line, correct it, add values that could occur, and take out what only one person has.')}",
        *(f"# {note}" for note in table.notes),
        "",
        "[sudare]",
        "schema = 1",
        f"name = {quote(name or 'data')}",
        f'inferred = true  # {text("when all is right, write")}: inferred = "confirmed"',
        "",
    ]


def _write_unit(table: TableFacts) -> list[str]:
    unit = f"[unit]  # {text('who is protected')}"
    repeated = [column for column in table.columns if repeats(column)]
    if repeated:
        person = max(repeated, key=rank_person).name
        question = text("Does {name} name persons, each with several rows?", name=person)
        answer = ['kind = "person"', f"column = {quote(person)}", "max_rows = 5"]
        return [unit, 'kind = "row"', *write_question(question, answer), ""]
    hint = text("if a person can have several rows, take these three lines instead")
    return [unit, f'kind = "row"  # {hint}:', '# kind = "person"', '# column = "..."', "# max_rows = 5", ""]


def _write_attribute(column: ColumnFacts, guessed: Guess, role: RoleGuess | None) -> list[str]:
    if not guessed.keys:
        reason = guessed.comments[0]
        return [
            f"# {text('{name} is left out, and will not be published: {reason}', name=column.name, reason=reason)}",
            "",
        ]
    lines = [f"# {comment}" for comment in guessed.comments]
    if role is not None:
        lines += [f"# {reason}" for reason in role.reasons]
    lines += ["[[attribute]]", f"name = {quote(column.name)}"]
    lines += [f"{key} = {value}" for key, value in guessed.keys.items()]
    if "kind" in guessed.keys and column.type != "boolean" and _is_read_off(guessed):
        lines.append("from_data = true")
    if role is not None:
        lines.append(f"role = {quote(role.role)}")
        if role.role == "quasi" and guessed.hierarchy is not None and "hierarchy" not in guessed.keys:
            lines.append(f"hierarchy = {guessed.hierarchy}")
    for question, answer in guessed.questions:
        lines += write_question(question, answer)
    return [*lines, ""]


def _is_read_off(guessed: Guess) -> bool:
    """Tell whether values or a range were read off the data; the prefectures of Japan were not."""
    return any(key in guessed.keys for key in ("values", "values_file", "bins", "edges", "area"))


def _write_impossible(table: TableFacts, guesses: Mapping[str, Guess]) -> list[str]:
    """Ask about combinations that no row of the sample has; nothing is declared impossible without an answer."""
    lines: list[str] = []
    for left, left_value, right, right_value in table.never_together:
        listed = all(
            quote(value) in guesses[name].keys.get("values", "")
            for name, value in ((left, left_value), (right, right_value))
        )
        if not listed:
            continue
        question = text(
            "Is it impossible that {left} is {left_value} and {right} is {right_value}?"
            " The first {rows} rows have none.",
            left=left,
            left_value=left_value,
            right=right,
            right_value=right_value,
            rows=table.sample_rows,
        )
        answer = [
            "[[impossible]]",
            f"{quote(left)} = [{quote(left_value)}]",
            f"{quote(right)} = [{quote(right_value)}]",
        ]
        lines += [*write_question(question, answer), ""]
    return lines


# --- roles: what others may know --------------------------------------------------------------------------------------

_QUASI = re.compile(
    r"(^|[_ .-])(age|sex|gender|race|ethnic\w*|birth\w*|dob|zip\w*|postal\w*|city|town|county|state|region|country|"
    r"nation\w*|marital\w*|marry|married|marriage\w*|education|educ|school\w*|occup\w*|profession|religion|children|"
    r"kids|language|latitude|longitude|lat|lon|native)([_ .-]|$)"
    r"|(^|[_ .-])job([_ .-](title|type|code|class|role|category|city))?$"
    r"|年齢|性別|生年|住所|郵便|市区町村|都道府県|職業|学歴|婚姻|国籍|配偶|地域|居住|年代|年令",
    re.IGNORECASE,
)
_SENSITIVE = re.compile(
    r"(^|[_ .-])(diagnos\w*|disease|illness|income|salary|wage\w*|debt|crime|hiv|diabetes|cancer|charges|outcome|"
    r"relig\w*|party|vote\w*|affairs?)([_ .-]|$)|病名|診断|疾患|所得|年収|給与|収入|犯罪|障害|要介護",
    re.IGNORECASE,
)
_TELLS_MORE = 0.05  # of the sampled rows that a column must single out beside the others, to be known as well
_TELLS_ALONE = 0.9  # of all pairs of sampled rows that a column tells apart by itself, to be known as well


@dataclass(frozen=True, kw_only=True, slots=True)
class RoleGuess:
    """The role of a column, and why."""

    role: str
    reasons: tuple[Words, ...]


def find_roles(table: TableFacts, guesses: Mapping[str, Guess]) -> dict[str, RoleGuess]:
    """Find the columns that others may know, and those that they must not learn.

    What people know about others goes by the name of a column. In a table that has such columns, one that singles out
    more rows beside them, or tells nearly all rows apart by itself, is a quasi-identifier too: k-anonymity would
    publish it unchanged otherwise.
    """
    varies = [column for column in table.columns if column.distinct > 1]  # one value for all tells nobody apart
    published = [column for column in varies if "kind" in guesses[column.name].keys]
    quasi = [column for column in published if _QUASI.search(column.name)]
    sensitive = [column for column in published if column not in quasi and _SENSITIVE.search(column.name)]
    by_name = RoleGuess(role="sensitive", reasons=(text("Sensitive, by its name: others must not learn it."),))
    roles = {column.name: by_name for column in sensitive}
    for column in quasi:
        roles[column.name] = RoleGuess(role="quasi", reasons=(_explain_name(column),))
    known = [column.name for column in quasi if column.name in table.samples]
    if not known or not table.sample_rows:
        return roles
    alone = _count_alone(table, known)
    for column in published:
        if column.name in roles or column.name not in table.samples:
            continue
        more = _count_alone(table, [*known, column.name])
        if more - alone > _TELLS_MORE * table.sample_rows:
            share = f"{more / table.sample_rows:.0%}"
            reason = text("Quasi-identifier: with {names} it singles out {share} of the first {rows} rows.",
                          names=", ".join(known), share=share, rows=table.sample_rows)  # fmt: skip
            roles[column.name] = RoleGuess(role="quasi", reasons=(reason,))
        elif (apart := _measure_separation(table.samples[column.name])) > _TELLS_ALONE:
            reason = text("Quasi-identifier: by itself it tells {share} of all pairs of the first {rows} rows apart.",
                          share=f"{apart:.0%}", rows=table.sample_rows)  # fmt: skip
            roles[column.name] = RoleGuess(role="quasi", reasons=(reason,))
    return roles


def _measure_separation(sample: Sequence[str]) -> float:
    """Give the share of pairs of rows that a column tells apart."""
    pairs = sum(rows * (rows - 1) for rows in Counter(sample).values())
    return 1 - pairs / max(1, len(sample) * (len(sample) - 1))


def _explain_name(column: ColumnFacts) -> Text:
    """Say why a column is known: its name, and how well it tells rows apart (distinction, separation)."""
    if not column.counts or not column.present:
        return text("Quasi-identifier, by its name: others may know it.")
    pairs = sum(rows * (rows - 1) for rows in column.counts.values())
    separation = 1 - pairs / max(1, column.present * (column.present - 1))
    return text(
        "Quasi-identifier, by its name: others may know it. It has {count} values, and tells {share} of all pairs of"
        " rows apart.",
        count=column.distinct,
        share=f"{separation:.0%}",
    )


def _count_alone(table: TableFacts, names: Sequence[str]) -> int:
    """Count the sampled rows that no other shares all these values with."""
    rows = Counter(zip(*(table.samples[name] for name in names), strict=True))
    return sum(count == 1 for count in rows.values())


# --- questions --------------------------------------------------------------------------------------------------------

QUESTION = "# ? "
ANSWER = "#   -> "


def write_question(question: Words, answer: Sequence[str]) -> list[str]:
    """Write a question as comments, with the lines that a yes writes.

    >>> write_question("Several rows?", ['kind = "person"'])
    ['# ? Several rows?', '#   -> kind = "person"']
    """
    return [f"{QUESTION}{str(question).replace(chr(10), ' ')}", *(f"{ANSWER}{line}" for line in answer)]


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenQuestion:
    """A question of a draft: where it stands (first line, from 0, and the line after its answer), and the answer."""

    words: str
    answer: tuple[str, ...]
    start: int
    stop: int


def find_questions(toml: str) -> list[OpenQuestion]:
    """Find the open questions of a draft, in order."""
    lines, questions = toml.splitlines(), []
    for start, line in enumerate(lines):
        if line.startswith(QUESTION):
            stop = start + 1
            while stop < len(lines) and lines[stop].startswith(ANSWER):
                stop += 1
            answer = tuple(answer.removeprefix(ANSWER) for answer in lines[start + 1 : stop])
            questions.append(OpenQuestion(words=line.removeprefix(QUESTION), answer=answer, start=start, stop=stop))
    return questions


def answer_question(toml: str, question: OpenQuestion, answer: Sequence[str] | None) -> str:
    """Put the answer into a draft: its keys in place of those of the table around it, or a table of its own.

    None is a no: the question is taken out.

    >>> toml = '[unit]\\nkind = "row"\\n# ? Persons?\\n#   -> kind = "person"\\n'
    >>> answer_question(toml, find_questions(toml)[0], ['kind = "person"'])
    '[unit]\\nkind = "person"\\n'
    """
    lines = toml.splitlines()
    lines[question.start : question.stop] = []
    person = next((line.partition(" = ")[2] for line in answer or () if line.startswith("column = ")), None)
    if person is not None:
        lines = _leave_out_attribute(lines, person)
    if answer and answer[0].startswith("["):
        lines[question.start : question.start] = answer
    elif answer:
        begin = max(at for at in range(question.start) if lines[at].startswith("["))
        for line in answer:
            key = line.partition("=")[0].strip()
            same = [at for at in range(begin, question.start) if lines[at].partition("=")[0].strip() == key]
            at = same[0] if same else question.start
            lines[at : at + len(same[:1])] = [line]
    return "\n".join(lines) + "\n"


def _leave_out_attribute(lines: list[str], name: str) -> list[str]:
    """Take out the attribute of this (quoted) name, if it has a kind: the column of persons is never published."""
    starts = [at for at, line in enumerate(lines) if line.startswith("[")]
    for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
        block = lines[start:stop]
        if block[0] == "[[attribute]]" and f"name = {name}" in block and any(line.startswith("kind") for line in block):
            kept = [line for line in block if line.startswith("#")]  # what stands above the next attribute
            return lines[:start] + kept + lines[stop:]
    return lines
