"""From counts to a recoded table: the steps of each recoding, and the last check before anything leaves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sudare.counts.relabelling import LEFT_OUT, Overrides, Relabelling
from sudare.errors import Infeasible
from sudare.methods.kanon.lattice import Node
from sudare.methods.kanon.local import Round
from sudare.methods.kanon.mondrian import Line, Parts
from sudare.methods.kanon.problem import Found
from sudare.methods.kanon.recode import ClassCheck, HierarchyCut, Pieces, Recoded, class_numbers
from sudare.methods.kanon.request import Grouping, Wish
from sudare.schema.arrays import Codes, Labels


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What a run decided, for the steward: the recoding, and how the search went (None where none was needed)."""

    recoded: Recoded
    found: Found | None = None


def by_cuts(
    pieces: Pieces,
    cuts: list[HierarchyCut],
    class_of: Codes,
    is_kept: NDArray[np.bool_],
    rounds: list[Round],
    kind: str,
) -> Recoded:
    """Recode every value by the cut of its attribute, and leave out what fails, or give it the labels of its round."""
    class_of = np.where(is_kept, class_of, LEFT_OUT)
    spread = np.column_stack([cut.spread(pieces.codes[:, axis]) for axis, cut in enumerate(cuts)])
    labels: list[list[Labels]] = [[] for _ in cuts]
    group_of, groups = np.full(len(class_of), LEFT_OUT, dtype=np.int64), 0
    for one in rounds:
        class_of[one.pieces] = int(class_of.max(initial=-1)) + 1 + one.class_of
        group_of[one.pieces] = groups + one.class_of
        groups += int(one.class_of.max()) + 1
        first = one.pieces[np.unique(one.class_of, return_index=True)[1]]
        for axis, level in enumerate(one.node):
            cut = HierarchyCut.at(pieces.attributes[axis], level, pieces.codes[:, axis])
            labels[axis].append(cut.labels(pieces.codes[first, axis]))
            spread[one.pieces, axis] = cut.spread(pieces.codes[one.pieces, axis])
    mapping = {name: cut.mapping() for name, cut in zip(pieces.names, cuts, strict=False)}
    texts = dict(zip(pieces.names, map(_joined, labels), strict=False)) if rounds else {}
    return Recoded(
        pieces=pieces,
        class_of=np.unique(class_of, return_inverse=True)[1].reshape(-1) - int((class_of == LEFT_OUT).any()),
        spread=spread,
        relabelling=Relabelling(
            labels={name: cut.labels for name, cut in zip(pieces.names, cuts, strict=False)},
            exceptions=None if is_kept.all() else _exceptions(pieces, ~is_kept, group_of, texts),
        ),
        mapping={"recoding": kind, "attributes": mapping},
    )


def _joined(labels: list[Labels]) -> Labels:
    return np.concatenate(labels).astype(np.object_)


def _exceptions(pieces: Pieces, chosen: NDArray[np.bool_], group_of: Codes, labels: Mapping[str, Labels]) -> Overrides:
    """The chosen pieces as combinations of quasi-identifiers alone, which decide the class."""
    codes, first = np.unique(pieces.codes[chosen, : pieces.quasi], axis=0, return_index=True)
    return Overrides(names=pieces.names[: pieces.quasi], codes=codes, groups=group_of[chosen][first], labels=labels)


def by_parts(parts: Parts, lines: list[Line], kind: str) -> Recoded:
    """Recode every combination by its Mondrian part; parts with the same labels are one class."""
    pieces = parts.pieces
    spans = [
        line.spans(line.places(pieces.codes[:, axis]), parts.part_of, parts.count) for axis, line in enumerate(lines)
    ]
    numbers = np.column_stack([np.unique(_keys(texts), return_inverse=True)[1] for texts, _ in spans])
    merged = class_numbers(numbers)
    class_of, first = merged[parts.part_of], np.unique(merged, return_index=True)[1]
    labels = {name: texts[first] for name, (texts, _) in zip(pieces.names, spans, strict=False)}
    return Recoded(
        pieces=pieces,
        class_of=class_of,
        spread=np.column_stack([wide[parts.part_of] for _, wide in spans]),
        relabelling=Relabelling(labels={}, exceptions=_dealt(pieces, class_of, labels)),
        mapping={"recoding": kind, "attributes": {name: {"ranges": True} for name in labels}},
    )


def _keys(texts: Labels) -> NDArray[np.str_]:
    return np.array(["-" if text is None else "+" + text for text in texts.tolist()], dtype=np.str_)


def _dealt(pieces: Pieces, class_of: Codes, labels: Mapping[str, Labels]) -> Overrides:
    """All pieces; by quasi-identifiers where these decide the class, else by all attributes, rows dealt out."""
    quasi = class_numbers(np.column_stack([pieces.codes[:, : pieces.quasi], class_of]))
    if int(quasi.max()) == int(class_numbers(pieces.codes[:, : pieces.quasi]).max()):
        return _exceptions(pieces, np.ones(len(class_of), dtype=bool), class_of, labels)
    whole, first = np.unique(class_numbers(np.column_stack([pieces.codes, class_of])), return_index=True)
    ids = class_numbers(np.column_stack([pieces.codes, class_of]))
    sizes = np.bincount(ids, weights=pieces.weights, minlength=len(whole)).astype(np.int64)
    return Overrides(names=pieces.names, codes=pieces.codes[first], groups=class_of[first], sizes=sizes, labels=labels)


def by_groupings(pieces: Pieces, wish: Wish, is_kept: NDArray[np.bool_], class_of: Codes) -> Recoded:
    """Recode every value by the grouping that was asked for; the attributes of the pieces are those of the wish."""
    asked = [wish[name] for name in pieces.names[: pieces.quasi]]
    wide = [np.bincount(one.group_of, minlength=one.size)[one.group_of] for one in asked]
    gone = np.full(len(class_of), LEFT_OUT, dtype=np.int64)
    return Recoded(
        pieces=pieces,
        class_of=np.where(is_kept, class_of, LEFT_OUT),
        spread=np.column_stack([one[pieces.codes[:, axis]] for axis, one in enumerate(wide)]),
        relabelling=Relabelling(
            labels={name: one.labels for name, one in zip(pieces.names, asked, strict=False)},
            exceptions=None if is_kept.all() else _exceptions(pieces, ~is_kept, gone, {}),
        ),
        mapping={"recoding": "request", "attributes": {name: _told(one) for name, one in wish.items()}},
    )


def _told(grouping: Grouping) -> dict[str, Any]:
    if grouping.groups is None:
        return {"level": grouping.level}
    firsts = np.array([members[0] for members in grouping.groups], dtype=np.int64)
    return {"groups": [{"label": text} for text in grouping.labels(firsts).tolist()]}


def check_promise(recoded: Recoded, holds: ClassCheck, most_lost: int) -> None:
    """Refuse a recoding that does not keep the promise: the last look before anything leaves."""
    kept = recoded.class_of != LEFT_OUT
    class_of = recoded.class_of[kept]
    good = holds(recoded.pieces.take(kept), class_of, int(class_of.max(initial=-1)) + 1)
    if not good.all() or recoded.left_out > most_lost:
        raise Infeasible("the recoded table would not keep the promise; nothing is published (please report this)")


def write_mapping(mapping: Mapping[str, Any]) -> Any:
    """Make the writer of mapping.json."""
    text = json.dumps(mapping, ensure_ascii=False, indent=2) + "\n"
    return lambda path: Path(path).write_text(text, encoding="utf-8")


def levels_of(names: tuple[str, ...], node: Node) -> dict[str, int]:
    """Name the levels of a node.

    >>> levels_of(("age", "sex"), (2, 0))
    {'age': 2, 'sex': 0}
    """
    return dict(zip(names, node, strict=True))
