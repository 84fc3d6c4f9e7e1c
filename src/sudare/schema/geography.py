"""Places on the WGS84 ellipsoid: how long a degree is, where one comes to by walking on, how large a mesh cell is.

Without a package: closed formulas, and the series of Vincenty (1975), good to a tenth of a millimetre anywhere.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sudare.errors import SchemaError

Floats = NDArray[np.float64]

EQUATOR_RADIUS = 6_378_137.0
FLATTENING = 1 / 298.257223563
POLE_RADIUS = EQUATOR_RADIUS * (1 - FLATTENING)
MESH_UNITS = (640, 80, 8, 4, 2, 1)  # side of a cell of level 1, ... 6 in sides of the smallest cell
MESH_PER_DEGREE_NORTH, MESH_PER_DEGREE_EAST, MESH_WEST = 960, 640, 100  # smallest cells
ROUNDS = 20  # the series converges by a factor of 300 a round


def metres_per_degree(latitude: ArrayLike) -> tuple[Floats, Floats]:
    """Give the metres of a degree to the north and of a degree to the east at a latitude.

    >>> [round(float(metres)) for metres in metres_per_degree(35.681)]
    [110953, 90525]
    """
    sine = np.sin(np.radians(latitude))
    squashed = 1 - FLATTENING * (2 - FLATTENING) * sine**2
    north = EQUATOR_RADIUS * (1 - FLATTENING) ** 2 / squashed**1.5
    east = EQUATOR_RADIUS * np.cos(np.radians(latitude)) / np.sqrt(squashed)
    return np.radians(north), np.radians(east)


def mesh_cell_metres(level: int, latitude: float) -> tuple[float, float]:
    """Give height and width, in metres, of the JIS mesh cell of a level whose centre is at a latitude.

    >>> [round(side, 1) for side in mesh_cell_metres(6, 35.68)]
    [115.6, 141.4]
    """
    if level not in range(1, 7):
        raise SchemaError("level ({level}) must be 1, 2, 3, 4 (1/2), 5 (1/4) or 6 (1/8)", level=level)
    north, east = metres_per_degree(latitude)
    units = MESH_UNITS[level - 1]
    return float(north) * units / MESH_PER_DEGREE_NORTH, float(east) * units / MESH_PER_DEGREE_EAST


def mesh_place(level: int, latitude: float, longitude: float) -> tuple[int, int]:
    """Give the row and column of the mesh cell at a place, counted in cells of the level from 0 N, 100 E.

    >>> mesh_place(1, 35.68, 139.76)
    (53, 39)
    >>> mesh_place(1, 139.76, 35.68)
    Traceback (most recent call last):
    sudare.errors.SchemaError: a latitude is beyond 90 degrees; are latitude and longitude swapped?
    """
    check_latitude(latitude)
    units = MESH_UNITS[level - 1]
    row = math.floor(latitude * MESH_PER_DEGREE_NORTH / units)
    return row, math.floor((longitude - MESH_WEST) * MESH_PER_DEGREE_EAST / units)


def check_latitude(latitude: float) -> None:
    """Refuse what can only be a longitude.

    >>> check_latitude(35.68)
    """
    if not abs(latitude) <= 90:
        # without the number: it may be where a person is
        raise SchemaError("a latitude is beyond 90 degrees; are latitude and longitude swapped?")


def smallest_mesh_cell(level: int, *, south: float, north: float, degrees_wide: float) -> tuple[float, float]:
    """Give the least height and width, in metres, that a mesh cell has on any straight way between two such places.

    Heights grow towards the poles and widths shrink. A geodesic between two places of one latitude bends towards the
    pole, by no more than a great circle does: tan(highest) = tan(latitude) / cos(half the width).

    >>> [round(side, 1) for side in smallest_mesh_cell(6, south=35.3333, north=36, degrees_wide=1)]
    [115.6, 140.9]
    """
    far, near = max(abs(south), abs(north)), 0.0 if south < 0 < north else min(abs(south), abs(north))
    bent = math.degrees(math.atan(math.tan(math.radians(far)) / math.cos(math.radians(min(degrees_wide, 170) / 2))))
    return mesh_cell_metres(level, near)[0], mesh_cell_metres(level, bent)[1]


def earth_centred(latitude: ArrayLike, longitude: ArrayLike) -> Floats:
    """Give places as metres from the centre of the earth, (..., 3); straight lines between them are chords.

    >>> earth_centred(0.0, 90.0).round(3).tolist()
    [0.0, 6378137.0, 0.0]
    """
    north, east = np.radians(latitude), np.radians(longitude)
    oblate = FLATTENING * (2 - FLATTENING)
    radius = EQUATOR_RADIUS / np.sqrt(1 - oblate * np.sin(north) ** 2)
    plane = radius * np.cos(north)
    return np.stack([plane * np.cos(east), plane * np.sin(east), (1 - oblate) * radius * np.sin(north)], axis=-1)


def walk(latitude: ArrayLike, longitude: ArrayLike, azimuth: ArrayLike, metres: ArrayLike) -> tuple[Floats, Floats]:
    """Give the place that is so many metres along the geodesic that leaves at an azimuth (radians from north).

    >>> [round(float(degrees), 6) for degrees in walk(0.0, 0.0, np.pi / 2, 111319.490793)]
    [0.0, 1.0]
    """
    reduced = np.arctan((1 - FLATTENING) * np.tan(np.radians(latitude)))
    sine, cosine = np.sin(reduced), np.cos(reduced)
    across = cosine * np.sin(azimuth)  # of the geodesic where it crosses the equator
    square = 1 - across**2
    start = np.arctan2(np.tan(reduced), np.cos(azimuth))
    arc, middle = _arc(np.asarray(metres, dtype=np.float64), start, square)
    heading = np.cos(azimuth)
    top = sine * np.cos(arc) + cosine * np.sin(arc) * heading
    side = sine * np.sin(arc) - cosine * np.cos(arc) * heading
    to_latitude = np.arctan2(top, (1 - FLATTENING) * np.hypot(across, side))
    turned = np.arctan2(np.sin(arc) * np.sin(azimuth), cosine * np.cos(arc) - sine * np.sin(arc) * heading)
    lag = FLATTENING / 16 * square * (4 + FLATTENING * (4 - 3 * square))
    wave = arc + lag * np.sin(arc) * (middle + lag * np.cos(arc) * (2 * middle**2 - 1))
    east = turned - (1 - lag) * FLATTENING * across * wave
    to_longitude = (np.asarray(longitude) + np.degrees(east) + 180) % 360 - 180
    return np.degrees(to_latitude), to_longitude


def _arc(metres: Floats, start: Floats, square: Floats) -> tuple[Floats, Floats]:
    """Give the angle on the auxiliary sphere, and the cosine of twice the angle of the middle of the way."""
    u = square * (EQUATOR_RADIUS**2 - POLE_RADIUS**2) / POLE_RADIUS**2
    scale = 1 + u / 16384 * (4096 + u * (-768 + u * (320 - 175 * u)))
    wave = u / 1024 * (256 + u * (-128 + u * (74 - 47 * u)))
    straight = metres / (POLE_RADIUS * scale)
    arc = straight
    for _ in range(ROUNDS):
        middle = np.cos(2 * start + arc)
        inner = np.cos(arc) * (2 * middle**2 - 1)
        inner = inner - wave / 6 * middle * (4 * np.sin(arc) ** 2 - 3) * (4 * middle**2 - 3)
        arc = straight + wave * np.sin(arc) * (middle + wave / 4 * inner)
    return arc, np.cos(2 * start + arc)
