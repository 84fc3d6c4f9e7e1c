"""A compact view that answers any count with an interval, under epsilon-DP (after Kato, Takahashi, Cao, Yoshikawa).

Who only asks a stored view does not wait for what makes one: `View` and its preview are imported when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sudare.asking.answers import AnswerTable, Estimate
from sudare.methods.view.opened import OpenedView, open_view

if TYPE_CHECKING:
    from sudare.methods.view.view import View, ViewPreview

__all__ = ["AnswerTable", "Estimate", "OpenedView", "View", "ViewPreview", "open_view"]


def __getattr__(name: str) -> Any:
    if name in ("View", "ViewPreview"):
        from sudare.methods.view import view

        return getattr(view, name)
    raise AttributeError(name)
