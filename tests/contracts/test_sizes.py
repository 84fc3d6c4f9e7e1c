"""Files and functions stay small enough to be read in one sitting."""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

import pytest

import sudare

SOURCE = Path(sudare.__file__).parent
FILE_LINES = 600
FUNCTION_LINES = 40  # lines of code: without docstring, comments and blank lines

_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def oversized(package: Path) -> list[str]:
    """Every file and function beyond its size, one line each."""
    found = []
    for path in sorted(package.rglob("*.py")):
        text, relative = path.read_text(encoding="utf-8"), path.relative_to(package).as_posix()
        lines = text.count("\n")
        if lines > FILE_LINES:
            found.append(f"{relative}: {lines} lines, at most {FILE_LINES}; split it by noun")
        found += [f"{relative}:{line}" for line in _long_functions(text)]
    return found


def _long_functions(text: str) -> list[str]:
    code = _lines_of_code(text)
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = len(code & set(range(node.lineno, (node.end_lineno or 0) + 1)) - _docstring(node))
            if length > FUNCTION_LINES:
                found.append(f"{node.lineno}: {node.name} has {length} lines of code, at most {FUNCTION_LINES}")
    return found


def _lines_of_code(text: str) -> set[int]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    spans = ((token.start[0], token.end[0]) for token in tokens if token.type not in _NO_CODE)
    return {line for start, end in spans for line in range(start, end + 1)}


def _docstring(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[int]:
    first = node.body[0]
    is_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and ast.get_docstring(node)
    return set(range(first.lineno, (first.end_lineno or 0) + 1)) if is_text else set()


def test_files_have_at_most_600_lines_and_functions_at_most_40_lines_of_code() -> None:
    found = oversized(SOURCE)

    assert not found, "\n".join(found)


LONG = "\n".join(f"    x{line} = {line}" for line in range(FUNCTION_LINES))


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("# line\n" * FILE_LINES, False),
        ("# line\n" * (FILE_LINES + 1), True),
        (f"def long():\n{LONG}\n", True),
        (f"class A:\n  async def long(self):\n{LONG}\n", True),
        (
            "def told():\n"
            + '    """Tell.\n'
            + "    more\n" * 60
            + '    """\n'
            + "    # why\n\n" * 60
            + "    return 1\n",
            False,
        ),
    ],
)
def test_the_check_counts_code_and_nothing_else(tmp_path: Path, text: str, is_found: bool) -> None:
    (tmp_path / "planted.py").write_text(text, encoding="utf-8")

    assert bool(oversized(tmp_path)) == is_found
