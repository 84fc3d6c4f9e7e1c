"""Bring different inputs to a door, here or in a process apart: one that ends the process is a fault like another."""

from __future__ import annotations

import multiprocessing
import os
import random
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

from tests.fuzz.doors import DOORS
from tests.fuzz.endless import limit_memory
from tests.fuzz.ground import Ground
from tests.fuzz.watch import Attempt, Outcome, watch

Watch = Callable[[Attempt, Ground], Outcome]


def list_attempts(door: str, ground: Ground, *, inputs: int, seed: int) -> Iterator[Attempt]:
    """Draw so many different attempts at a door."""
    dice, seen = random.Random(f"{door} {seed}"), set[str]()
    while len(seen) < inputs:
        attempt = DOORS[door](dice, ground)
        if attempt.identity not in seen:
            seen.add(attempt.identity)
            yield attempt


def fuzz_door(door: str, ground: Ground, *, inputs: int, seed: int = 1, look: Watch = watch) -> list[Outcome]:
    """Make the attempts in this process."""
    return [look(attempt, ground) for attempt in list_attempts(door, ground, inputs=inputs, seed=seed)]


def fuzz_apart(door: str, ground: Ground, *, inputs: int, seed: int = 1) -> list[Outcome]:
    """Make the attempts in other processes: after one that ended its process, a new one goes on."""
    outcomes: list[Outcome] = []
    attempts = list(list_attempts(door, ground, inputs=inputs, seed=seed))
    before = ground.state()
    while len(outcomes) < len(attempts):
        receiver, sender = multiprocessing.Pipe(duplex=False)
        rest = attempts[len(outcomes) :]
        process = multiprocessing.get_context("spawn").Process(target=_work, args=(rest, ground, sender))
        process.start()
        sender.close()
        outcomes += _receive(receiver)
        process.join()
        if len(outcomes) < len(attempts):
            fault = f"ended the process with {process.exitcode}"
            outcomes.append(Outcome(attempt=attempts[len(outcomes)], code=None, said="", faults=(fault,)))
            ground.restore(before)
    return outcomes


def _work(attempts: list[Attempt], ground: Ground, sender: Connection) -> None:
    os.chdir(ground.place)
    if attempts[0].door == "endless":
        limit_memory()
    for attempt in attempts:
        sender.send(watch(attempt, ground))


def _receive(receiver: Connection) -> list[Outcome]:
    outcomes = []
    while True:
        try:
            outcomes.append(receiver.recv())
        except EOFError:
            return outcomes
