"""`sudare query DIR "SELECT ..."`: a view answers, each number with its interval."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sudare.cli.help import Worded, option
from sudare.cli.terminal import LEDGER, check_page_name, json_option, print_json, progress, table
from sudare.errors import ParameterError, ReleaseError
from sudare.text import say, text

if TYPE_CHECKING:
    from sudare.asking.answers import AnswerTable
    from sudare.noise.selfcheck import CheckResult
    from sudare.releases.claims import CheckedClaim


MOST_MEBIBYTES = 16  # of a file of statements


FORMATS = ("text", "csv", "json", "markdown", "arrow")
ENDINGS = {
    ".csv": "csv", ".json": "json", ".md": "markdown", ".arrow": "arrow", ".feather": "arrow",
    ".txt": "text", "": "text",
}  # fmt: skip


@click.command(
    "query",
    cls=Worded,
    help=text(
        "Ask the release in DIR in SQL: SELECT ... FROM view, FROM cells of a table, or FROM records. Every number has"
        " an interval, or a reason."
    ),
)
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@click.argument("sql", required=False)
@option("--file", "file", type=click.Path(path_type=Path), help=text("statements, separated by semicolons"))
@option("--level", type=float, default=0.95, show_default=True, help=text("level of the intervals"))
@option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help=text("how the answer is written (default: text, or by the ending of --out)"),
)
@option("-o", "--out", type=click.Path(path_type=Path), help=text("file to make (default: standard output)"))
@option(
    "--chart",
    type=click.Path(path_type=Path),
    is_flag=False,
    flag_value="-",
    metavar="[SVG]",
    help=text("draw bars with their intervals: in the terminal, or in an SVG file to make"),
)
@option(
    "--with",
    "others",
    multiple=True,
    metavar="NAME=DIR",
    help=text("another release, to be asked FROM NAME; groups of two releases can be joined"),
)
@option(
    "--records",
    "from_records",
    is_flag=True,
    help=text(
        "let DuckDB answer any SELECT from published records, or from records drawn from a view, WITHOUT intervals"
    ),
)
@option("--seed-for-tests", type=int, help=text("for tests: draw the same records again"))
@json_option
def query(
    directory: Path,
    sql: str | None,
    file: Path | None,
    level: float,
    form: str | None,
    out: Path | None,
    chart: Path | None,
    others: Sequence[str],
    from_records: bool,
    seed_for_tests: int | None,
    as_json: bool,
) -> None:
    """Answer one statement, or those of a file."""
    from sudare.methods.view.questions import ask_directory, split_questions

    if (sql is None) == (file is None):
        raise click.UsageError(say("give either a statement or --file"), click.get_current_context())
    statements = sql if file is None else _read_statements(file)
    form = "json" if as_json else form or _find_format(out)
    _check_outputs(out, chart, form)
    if from_records:
        from sudare.app import ask_records

        asked = split_questions(statements or "", many=file is not None)
        answers = ask_records(directory, asked, level=level, seed=seed_for_tests)
    else:
        answers = ask_directory(
            directory, statements or "", level=level, many=file is not None, others=_read_others(others)
        )
    if chart is not None:
        _draw(answers, chart)
    if chart is None or out is not None or form != "text":
        _write_answers(answers, form, out, shows_statement=file is not None)


def _read_statements(file: Path) -> str:
    from sudare.forms.textfile import read_text

    return read_text(file, most_mebibytes=MOST_MEBIBYTES, error=ParameterError)


def _read_others(others: Sequence[str]) -> dict[str, Path]:
    found = {}
    for pair in others:
        name, mark, place = pair.partition("=")
        if not mark or not name or not place or name.casefold() == "view":
            raise click.UsageError(say("--with ({pair}) must be NAME=DIR, and NAME not view", pair=pair))
        found[name] = Path(place)
    return found


def _find_format(out: Path | None) -> str:
    """How an answer is written, by the ending of the file to make."""
    form = "text" if out is None else ENDINGS.get(out.suffix.lower())
    if form is None:
        raise ParameterError("--out ({file}) must end in .csv, .json, .md, .arrow or .txt; or give --format", file=out)
    return form


def _check_outputs(out: Path | None, chart: Path | None, form: str) -> None:
    """Refuse before anything is read what could not be written in the end."""
    from sudare.atomic import check_new_file

    if form == "arrow" and out is None:
        raise click.UsageError(say("--format arrow needs --out FILE"), click.get_current_context())
    if chart is not None and str(chart) != "-" and chart.suffix.lower() != ".svg":
        raise ParameterError("--chart ({file}) must end in .svg", file=chart)
    for file in (out, None if chart is None or str(chart) == "-" else chart):
        if file is not None:
            check_new_file(file)


def _draw(answers: Sequence[tuple[str, AnswerTable]], chart: Path) -> None:
    from sudare.atomic import write_new_file
    from sudare.report.chart import draw_chart, write_chart

    if str(chart) == "-":
        for _, answer in answers:
            for line in write_chart(answer):
                click.echo(line)
            _print_notes(answer)
        return
    if len(answers) != 1:
        raise ParameterError("an SVG holds one answer; ask one statement, or leave the file name out")
    write_new_file(chart, draw_chart(answers[0][1]))
    click.echo(say("chart written to {out}", out=chart), err=True)


def _write_answers(
    answers: Sequence[tuple[str, AnswerTable]], form: str, out: Path | None, *, shows_statement: bool
) -> None:
    from sudare.atomic import new_file, write_new_file

    if form == "text" and out is None:
        for statement, answer in answers:
            if shows_statement:
                click.echo(statement)
            _print_answer(answer)
        return
    if form == "arrow" and out is not None:
        if len(answers) != 1:
            raise ParameterError("an Arrow file holds one answer; ask one statement")
        with new_file(out) as temporary:
            answers[0][1].to_frame().save_arrow(temporary)
        return
    whole = _write_text(answers, form, shows_statement=shows_statement)
    if out is None:
        click.echo(whole, nl=False)
    else:
        write_new_file(out, whole)


def _write_text(answers: Sequence[tuple[str, AnswerTable]], form: str, *, shows_statement: bool) -> str:
    import csv
    import io
    import json

    from sudare.report.chart import write_markdown

    if form == "json":
        found = [answer.to_dict(statement) for statement, answer in answers]
        return json.dumps(found, ensure_ascii=False, indent=2) + "\n"
    parts = []
    for statement, answer in answers:
        lines = io.StringIO()
        if form == "csv":
            columns = answer.to_columns()
            writer = csv.writer(lines, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
        else:
            lines.write(f"```sql\n{statement}\n```\n\n" if shows_statement else "")
            lines.write(write_markdown(answer))
        parts.append(lines.getvalue())
    return "\n".join(parts)


def _print_answer(answer: AnswerTable) -> None:
    from sudare.asking.answers import show_row

    table([show_row(row) for row in answer.rows], head=answer.columns)
    told = answer.describe_intervals()
    if told is not None:
        click.echo(str(told))
    _print_notes(answer)


def _print_notes(answer: AnswerTable) -> None:
    for remark in answer.remarks:
        click.echo(str(remark))


# `sudare sample DIR -n N`: records from a view.


@click.command(
    "sample", cls=Worded, help=text("Draw records from the view in DIR, as CSV. This costs no privacy budget.")
)
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@option("-n", "size", required=True, type=int, help=text("how many records"))
@option("-o", "--out", type=click.Path(path_type=Path), help=text("CSV file to make (default: standard output)"))
@option("--seed-for-tests", type=int, help=text("for tests: draw the same records again"))
def sample(directory: Path, size: int, out: Path | None, seed_for_tests: int | None) -> None:
    """Stream records to a file or to standard output."""
    from sudare.app import write_sample

    if out is None:
        write_sample(directory, size, sys.stdout, seed=seed_for_tests)
        return
    with progress(say("drawing")) as moved:
        write_sample(directory, size, out, seed=seed_for_tests, progress=moved)
    click.echo(say("{rows} records written to {out}", rows=size, out=out))


# `sudare report DIR`.


@click.command(
    cls=Worded,
    help=text(
        "Write one page about the release in DIR: certificate, pictures, tables. With --truth, for the steward only."
    ),
)
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@option("-o", "--out", type=click.Path(path_type=Path), default=Path("report.html"), show_default=True,
              help=text("HTML file to make"))  # fmt: skip
@option("--truth", help=text("the table that was published; the page compares with it, and is not for publication"))
@option(
    "--schema",
    "schema_file",
    type=click.Path(path_type=Path),
    help=text("schema file of the true table (default: the schema in the certificate)"),
)
@option("--count", "count_column", help=text("DATA is already aggregated; this column holds the counts"))
@option("--encoding", help=text("encoding of text files, such as cp932 (default: detected)"))
def report(directory: Path, out: Path, truth: str | None, **reading: Any) -> None:
    """Write the page and tell where it is."""
    from sudare.app import write_report

    check_page_name(out)
    with progress(say("drawing")) as moved:
        write_report(directory, out, truth=truth, progress=moved, **reading)
    click.echo(say("report written to {out}", out=out))
    if truth is not None:
        click.echo(say("NOT FOR PUBLICATION: the page shows the true table."))


# `sudare verify [DIR]`.


@click.command(
    cls=Worded,
    help=text(
        "Check a stored release in DIR; with --promise, the promise of a method; with neither, the noise of this"
        " installation (about a minute)."
    ),
)
@click.argument("directory", required=False, type=click.Path(path_type=Path), metavar="[DIR]")
@option(
    "--ledger",
    "ledger_file",
    type=LEDGER,
    help=text("check that this ledger holds the spend"),
)
@option(
    "--key",
    "key_file",
    type=click.Path(path_type=Path),
    help=text("public key file of the steward: check that the release is signed with it"),
)
@option(
    "--promise",
    "method",
    metavar="METHOD",
    help=text("check what a method (or `all`) draws against what it promises, exactly, on random neighbouring tables"),
)
@option(
    "--schema",
    "facts_file",
    type=click.Path(path_type=Path),
    help=text("with --promise: tables over this schema (or map) file (default: made-up ones of all kinds)"),
)
@option("--pairs", type=int, help=text("with --promise: pairs of tables for each configuration (default: 4)"))
@json_option
def verify(
    directory: Path | None,
    ledger_file: Path | str | None,
    key_file: Path | None,
    method: str | None,
    facts_file: Path | None,
    pairs: int | None,
    as_json: bool,
) -> None:
    """Run the checks and print each with what it showed."""
    for name, file in (("--ledger", ledger_file), ("--key", key_file)):
        if directory is None and file is not None:
            raise click.UsageError(
                say("{name} needs the directory of a release", name=name), click.get_current_context()
            )
    if method is not None and directory is not None:
        raise click.UsageError(say("--promise checks a method, and takes no directory"), click.get_current_context())
    if method is None and (facts_file is not None or pairs is not None):
        raise click.UsageError(say("--schema and --pairs go with --promise METHOD"), click.get_current_context())
    if method is not None:
        _verify_promises(method, facts_file, pairs, as_json=as_json)
        return
    from sudare.noise.selfcheck import CheckResult
    from sudare.verify.checks import verify_installation, verify_release

    with progress(say("checking")) as moved:
        checks: Sequence[CheckResult | CheckedClaim] = (
            verify_installation(progress=moved)
            if directory is None
            else verify_release(directory, ledger_file=ledger_file, key=key_file)
        )
    if as_json:
        print_json([check.to_dict() for check in checks])
    else:
        for check in checks:
            mark = say("ok") if check.passed else say("FAILED")
            basis = "" if isinstance(check, CheckResult) else f" ({check.describe_basis()})"
            click.echo(f"{mark}  {check.name}: {check.detail}{basis}")
    if not all(check.passed for check in checks):
        raise ReleaseError("a check failed; publish nothing with this installation or from this directory")


def _verify_promises(method: str, facts_file: Path | None, pairs: int | None, *, as_json: bool) -> None:
    from sudare.methods.registry import method_entries
    from sudare.verify.promises import verify_promise
    from sudare.verify.replay import PAIRS

    if method == "all" and facts_file is not None:
        raise click.UsageError(say("--schema goes with one method, not with all"), click.get_current_context())
    verdicts = []
    with progress(say("checking")) as moved:
        for name in list(method_entries()) if method == "all" else [method]:
            given = PAIRS if pairs is None else pairs
            verdicts.append(verify_promise(name, facts_file=facts_file, pairs=given, progress=moved))
    if as_json:
        print_json([verdict.to_dict() for verdict in verdicts])
    else:
        for verdict in verdicts:
            mark = say("ok") if verdict.holds else say("FAILED")
            *lines, total = verdict.lines
            for line in lines:
                click.echo(f"    {line}")
            click.echo(f"{mark}  {total}")
    if not all(verdict.holds for verdict in verdicts):
        raise ReleaseError("a promise is broken; publish nothing with this method until it is mended")
