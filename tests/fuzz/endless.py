"""Files that never end, or that are no files: refused at every door before they are read.

A pipe holds words that somebody wrote into it; they must still be there afterwards. Whoever reads it nonetheless gets
the end of the file, so that the fuzzer tells the fault instead of waiting for ever.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import resource
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

MOST_MEMORY_BYTES = 6 << 30  # of address space: a door that swallows a device ends there, not the machine
WORDS = b"Qzx in a pipe\n" * 100
LOOK_SECONDS = 0.005  # between two looks at a pipe
HUGE_BYTES = 1 << 42  # of a file with nothing in it: it takes no place on the disk

# Every door that takes a file, with the name that the file must have.
TAKEN = (
    ("schema show {file}", "bad.toml"),
    ("publish microdata members.csv --schema {file} --epsilon 1 --out out", "bad.toml"),
    ("publish microdata {file} --schema members.toml --epsilon 1 --ledger members.ledger --out out", "bad.csv"),
    ("publish microdata {file} --schema members.toml --epsilon 1 --out out", "bad.csv.gz"),
    ("publish microdata {file} --schema members.toml --epsilon 1 --out out", "bad.jsonl"),
    ("publish microdata {file} --schema members.toml --epsilon 1 --out out", "bad.parquet"),
    ("publish microdata {file} --schema members.toml --epsilon 1 --out out", "bad.arrow"),
    ("publish microdata {file} --schema members.toml --epsilon 1 --out out", "bad.xlsx"),
    ("publish microdata members.csv --schema members.toml --epsilon 1 --ledger {file} --out out", "bad.ledger"),
    ("publish microdata members.csv --schema members.toml --epsilon 1 --key {file} --out out", "bad.key"),
    ("publish kanon members.csv --schema members.toml --k 5 --out out --request {file}", "bad.toml"),
    ("publish kanon members.csv --schema members.toml --k 5 --out out --history {file}", "bad.jsonl"),
    ("publish location {file} --epsilon-per-metre 0.02 --out out", "bad.toml"),
    ("schema init {file}", "bad.csv"),
    ("schema check {file} --schema members.toml --no-examples", "bad.csv"),
    ("schema confirm {file}", "bad.toml"),
    ("choose {file} --need records --rows 100 --json", "bad.toml"),
    ("preview microdata --schema {file} --epsilon 1", "bad.toml"),
    ("run {file} --dry-run", "bad.toml"),
    ("predict {file} --schema members.toml --history h.jsonl", "bad.toml"),
    ("predict request.toml --schema members.toml --history {file}", "bad.jsonl"),
    ("query view --file {file}", "bad.sql"),
    ("locate draw --device-file {file} --cell 3", "bad.json"),
    ("locate draw --device-file places --cells {file} --out new.csv", "bad.csv"),
    ("locate draw --device-file places --cell 3 --state {file}", "bad.json"),
    ("locate estimate {file} --device-file places --out out", "bad.csv"),
    ("report records --truth {file} --schema members.toml --out page.html", "bad.csv"),
    ("ledger show {file}", "bad.ledger"),
    ("ledger verify {file}", "bad.ledger"),
    ("ledger migrate {file} --out new.ledger", "bad.ledger"),
    ("keys show {file}", "bad.key"),
    ("verify view --key {file}", "bad.key"),
    ("verify records --ledger {file}", "bad.ledger"),
    ("verify {file}", "bad"),
)  # fmt: skip
CIRCLE = "a link to itself"
TARGETS = (
    "/dev/zero",
    "/dev/urandom",
    "/dev/full",
    "/dev/tty",
    "/proc/self/pagemap",
    "/proc/version",
    "/proc/self/mem",
    ".",
    CIRCLE,
)


def put_huge(path: Path) -> None:
    """Make a file that is larger than any table."""
    with path.open("wb") as file:
        file.truncate(HUGE_BYTES)


@contextlib.contextmanager
def watched_pipe(path: Path) -> Iterator[threading.Event]:
    """Make a pipe with words in it, and tell by an event whether somebody reads them."""
    os.mkfifo(path)
    handle = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    os.write(handle, WORDS)
    is_done, was_read = threading.Event(), threading.Event()
    watcher = threading.Thread(target=_end_when_read, args=(handle, is_done, was_read))
    watcher.start()
    try:
        yield was_read
    finally:
        is_done.set()
        watcher.join()


def _end_when_read(handle: int, is_done: threading.Event, was_read: threading.Event) -> None:
    """Close the writing end once somebody has read from a pipe."""
    left = array.array("i", [0])
    while True:
        is_over = is_done.wait(LOOK_SECONDS)
        fcntl.ioctl(handle, termios.FIONREAD, left)
        if left[0] < len(WORDS):
            was_read.set()
        if is_over or was_read.is_set():
            break
    os.close(handle)


def limit_memory() -> None:
    """Let this process have so much memory and no more."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
