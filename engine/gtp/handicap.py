"""The points of handicap stones: section 4.1.1 of the specification. Pure."""

from __future__ import annotations

from engine.gtp.protocol import GtpError

LETTERS = "ABCDEFGHJKLMNOPQRSTUVWXYZ"
LEAST = 2


def handicap_points(size: int, count: int) -> list[str]:
    """`count` vertices. Raises GtpError where the specification has none."""
    most = most_points(size)
    if not LEAST <= count <= most:
        there_are = f"{LEAST} to {most}" if most else "none"
        raise GtpError(
            f"invalid number of stones: on {size} x {size} there are {there_are}; or set_free_handicap"
        )
    low, middle = (4 if size >= 13 else 3), (size + 1) // 2
    high = size + 1 - low
    corners = [(low, low), (high, high), (low, high), (high, low)]
    sides = [(low, middle), (high, middle), (middle, low), (middle, high)]
    points = corners[: min(count, 4)]
    points += sides[: (count - 4) // 2 * 2] if count > 5 else []
    if len(points) < count:
        points.append((middle, middle))
    return [f"{LETTERS[x - 1]}{y}" for x, y in points]


def most_points(size: int) -> int:
    """The largest number of fixed handicap stones; 0 on boards that are too small."""
    if size < 7:
        return 0
    return 9 if size % 2 and size > 7 else 4
