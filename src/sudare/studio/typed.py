"""Values of an attribute as people type them into a field."""

from __future__ import annotations

import re

import numpy as np

from sudare.errors import ParameterError
from sudare.schema import Attribute, NumberBins

_VALUE = re.compile(r"\s*([\[(][^\])]*[\])]|[^,、]+)")  # an interval such as [0,5) is one value
_REACH = re.compile(r"(-?[0-9.]+)\s*(?:-|–|~|〜|から|to)\s*(-?[0-9.]*)(?:まで)?")


def read_values(attribute: Attribute, line: str) -> list[str]:
    """Read the values of one group; of numbers a reach such as 15-40 names every bin from 15 up to 40.

    >>> from sudare.schema import NumberBins
    >>> age = Attribute(name="age", domain=NumberBins.of_width(0, 20, 5))
    >>> read_values(age, "0-10"), read_values(age, "[10,15), [15,20]"), read_values(age, "10-")
    (['[0,5)', '[5,10)'], ['[10,15)', '[15,20]'], ['[10,15)', '[15,20]'])
    """
    reach = _REACH.fullmatch(line.strip())
    if reach is None or not isinstance(attribute.domain, NumberBins):
        return [part.strip() for part in _VALUE.findall(line) if part.strip()]
    low, high = float(reach[1]), float(reach[2] or "inf")
    labels = [str(label) for label in attribute.labels(np.arange(attribute.size))]
    found = [label for label in labels if label[:1] == "[" and low <= float(label[1:].split(",")[0]) < high]
    if not found:
        raise ParameterError("no value of {name} lies in {reach}", name=attribute.name, reach=line.strip())
    return found
