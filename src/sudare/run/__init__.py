"""From a recipe to a release: opens the source, spends from the ledger, saves. What the edges call."""

from sudare.run.publish import Published, publish_release

__all__ = ["Published", "publish_release"]
