"""Results of single runs, kept in the temporary directory under the code that made them."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from papers import baselines
from sudare.methods import view

HERE = Path(__file__).parent
BLOCKS = ("mondrian*.py", "cuts.py", "blocks.py")
PLACE = Path(tempfile.gettempdir()) / "sudare-kato-view"


def kept(key: tuple[str | int | bool, ...], make: Callable[[], list[float]]) -> list[float]:
    """Read a result, or make it and keep it."""
    PLACE.mkdir(exist_ok=True)
    file = PLACE / ("-".join(str(part).replace(" ", "_").replace("/", "_") for part in key) + ".json")
    if file.exists():
        found: list[float] = json.loads(file.read_text(encoding="utf-8"))
        return found
    made = make()
    part = file.with_suffix(".part")
    part.write_text(json.dumps(made), encoding="utf-8")
    part.replace(file)
    return made


@cache
def fingerprint(method: str) -> str:
    """Name the code of a method, so that a kept result is of this code and no other; read once, as the code is."""
    files = [HERE / "data.py", HERE / "errors.py", HERE / "makers.py"]
    place = Path(str(view.__file__)).parent
    blocks = {file for pattern in BLOCKS for file in place.glob(pattern)}
    if method in ("mondrian", "hdpview"):
        files += sorted(blocks)
    elif method in ("model", "product"):
        files += sorted(set(place.glob("*.py")) - blocks)
    else:
        files += sorted(Path(str(baselines.__file__)).parent.glob(f"{method.split(',')[0]}*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
