"""A compact view that answers any count with an interval, under epsilon-DP (after Kato, Takahashi, Cao, Yoshikawa)."""

from sudare.methods.view.answers import Answer
from sudare.methods.view.opened import OpenedView, open_view
from sudare.methods.view.preview import ViewPreview
from sudare.methods.view.view import View

__all__ = ["Answer", "OpenedView", "View", "ViewPreview", "open_view"]
