"""A compact view that answers any count with an interval, under epsilon-DP (after Kato, Takahashi, Cao, Yoshikawa)."""

from sudare.asking.answers import AnswerTable, Estimate
from sudare.methods.view.opened import OpenedView, open_view
from sudare.methods.view.view import View, ViewPreview

__all__ = ["AnswerTable", "Estimate", "OpenedView", "View", "ViewPreview", "open_view"]
