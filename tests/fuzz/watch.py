"""Run one attempt at a door, and look at all it did: what it said, how it ended, and what it left behind."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from sudare.cli import main
from tests.fuzz.endless import put_huge, watched_pipe
from tests.fuzz.ground import SECRETS, Ground

Run = Callable[[list[str]], int]

LONGEST_MESSAGE = 4000  # characters: what a person can still read
ALLOWED = (".lock",)  # what may stay beside a file that was used: an empty file that others lock
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f]")  # all but the end of a line
NEVER_SAID = ("Traceback", "fault in Sudare itself", "memory ran out", "RecursionError", "Warning:")


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What is put into the folder, and the command that is run on it."""

    door: str
    words: tuple[str, ...]
    files: Mapping[str, bytes] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    huge: str = ""  # the name at which a file without an end is put
    pipe: str = ""  # the name at which a pipe is put
    may_show: bool = False  # values of the table: `schema init` is for the steward's eyes
    must_refuse: bool = False

    @property
    def identity(self) -> str:
        """What makes an attempt different from others: the command and the contents."""
        files = (f"{name}={sha256(self.files[name]).hexdigest()}" for name in sorted(self.files))
        links = (f"{name}->{self.links[name]}" for name in sorted(self.links))
        return "\n".join([self.door, *self.words, self.huge, self.pipe, *files, *links])


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How an attempt ended, and everything that is wrong with that."""

    attempt: Attempt
    code: int | None
    said: str
    faults: tuple[str, ...]

    @property
    def is_refused(self) -> bool:
        """The command was refused, or called in a wrong way."""
        return self.code in (1, 2)


def watch(attempt: Attempt, ground: Ground, *, run: Run = main) -> Outcome:
    """Make an attempt and judge it; the ground is as before afterwards."""
    before = ground.state()
    _write(attempt, ground.place)
    with watched_pipe(ground.place / attempt.pipe) if attempt.pipe else contextlib.nullcontext() as was_read:
        standing = ground.state()
        code, out, err, raised = _call(attempt, run)
        after = ground.state()
    ground.restore(before)
    faults = [*raised, *judge_words(attempt, code, out, err), *judge_files(code, standing, after)]
    if was_read is not None and was_read.is_set():
        faults.append("read a pipe")
    if attempt.must_refuse and code == 0:
        faults.append("was not refused")
    return Outcome(attempt=attempt, code=code, said=err, faults=tuple(faults))


def _write(attempt: Attempt, place: Path) -> None:
    for name, content in attempt.files.items():
        file = place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    for name, target in attempt.links.items():
        (place / name).symlink_to(target)
    if attempt.huge:
        put_huge(place / attempt.huge)


def _call(attempt: Attempt, run: Run) -> tuple[int | None, str, str, list[str]]:
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    code, raised = None, []
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _empty_stdin(), warnings.catch_warnings():
        warnings.simplefilter("error")  # a warning would be printed among the words of the command
        try:
            code = run(list(attempt.words))
        except BaseException as error:
            if type(error).__name__ in ("CpuLimitError", "KeyboardInterrupt"):
                raise
            raised = [f"raised {type(error).__name__}: {''.join(traceback.format_tb(error.__traceback__)[-2:])}"]
    return code, *(stream.buffer.getvalue().decode("utf-8", "replace") for stream in (out, err)), raised  # type: ignore[attr-defined]


@contextlib.contextmanager
def _empty_stdin() -> Iterator[None]:
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    try:
        yield
    finally:
        sys.stdin = before


def judge_words(attempt: Attempt, code: int | None, out: str, err: str) -> list[str]:
    """What is wrong with what was said."""
    faults = [f"said {words!r}" for words in NEVER_SAID if words in err or words in out]
    if code not in (0, 1, 2):
        faults.append(f"ended with {code}")
    is_list = attempt.words[:2] == ("schema", "check") and out and not err  # of what does not fit: it needs no refusal
    if code in (1, 2) and not is_list:
        lines = err.rstrip("\n").split("\n")
        if not lines[-1].startswith(("sudare: ", "Usage: ", "  ", "Options", "Commands")):
            faults.append("the last line is no refusal")
        if len(lines[-1]) > LONGEST_MESSAGE:
            faults.append(f"a line of {len(lines[-1])} characters")
    if CONTROL.search(_untyped(attempt, err + out)):
        faults.append("a control character in a message")
    if not attempt.may_show:
        faults += [f"shows a value of the table ({secret})" for secret in SECRETS if secret in err or secret in out]
    return faults


def _untyped(attempt: Attempt, words: str) -> str:
    """What was said, without the control characters that were typed: a name is told as it is."""
    typed = {character for word in attempt.words for character in word if ord(character) < 32}
    return "".join(character for character in words if character not in typed)


def judge_files(code: int | None, before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    """What is wrong with what was left: a refused command leaves everything as it was."""
    unfinished = [name for name in after if name not in before and _is_unfinished(name)]
    faults = [f"left {name}" for name in unfinished]
    if code == 0:
        return faults
    new = [name for name in after if name not in before and name not in unfinished and not name.endswith(ALLOWED)]
    changed = [name for name in before if after.get(name) != before[name]]
    return [*faults, *(f"left {name}" for name in new), *(f"changed {name}" for name in changed)]


def _is_unfinished(name: str) -> bool:
    return any(part.startswith(".sudare-") for part in Path(name).parts)


def list_words(words: Sequence[str]) -> str:
    """A command as one would type it, shortened."""
    return " ".join(shlex.quote(word if len(word) < 80 else word[:77] + "...") for word in words)


def keep(outcome: Outcome, place: Path) -> Path:
    """Write down an attempt that showed a fault, so that it can be made again."""
    folder = place / sha256(outcome.attempt.identity.encode("utf-8", "replace")).hexdigest()[:12]
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in outcome.attempt.files.items():
        (folder / name.replace("/", "__")).write_bytes(content)
    lines = [f"sudare {list_words(outcome.attempt.words)}", *outcome.faults, outcome.said[:5000]]
    (folder / "attempt.txt").write_text("\n".join(lines), encoding="utf-8", errors="replace")
    return folder
