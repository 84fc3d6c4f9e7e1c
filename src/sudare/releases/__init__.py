"""What may leave: payload and certificate, written whole or not at all. Knows nothing of counts."""

from sudare.releases.certificate import Certificate
from sudare.releases.frame import Coded, Frame
from sudare.releases.release import Release

__all__ = ["Certificate", "Coded", "Frame", "Release"]
