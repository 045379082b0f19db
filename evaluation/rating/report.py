"""Ratings as a table for people, and as marks for the plots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evaluation.rating.book import Book, Entrant
from evaluation.rating.bradley_terry import Rating
from evaluation.rating.plots import AnchorLine, LadderPoint, SearchPoint

HEADINGS = f"{'step':>9} {'games before':>12} {'hours':>7} {'Elo':>7} {'95 %':>7}"
HEADINGS += f" {'games':>7} {'score':>7}"


def table(players: Iterable[Entrant], ratings: dict[str, Rating]) -> str:
    """One line a player that has a rating, in the order given."""
    rated = [one for one in players if one.name in ratings]
    wide = max([22, *(len(one.label) for one in rated)])
    return "\n".join(
        [f"{'player':{wide}} {HEADINGS}", *(_line(one, ratings[one.name], wide) for one in rated)]
    )


def _line(player: Entrant, rating: Rating, wide: int) -> str:
    step = "-" if player.step is None else f"{player.step:,}"
    before = "-" if player.games_before is None else f"{player.games_before:,}"
    hours = "-" if player.hours is None else f"{player.hours:.2f}"
    error = f"± {rating.margin:.0f}" if rating.margin else "fixed"
    share = f"{rating.points / rating.games:.1%}" if rating.games else "-"
    return (
        f"{player.label:{wide}} {step:>9} {before:>12} {hours:>7} {rating.elo:7.0f} {error:>7}"
        f" {rating.games:7,} {share:>7}"
    )


def anchors_in(book: Book) -> list[Entrant]:
    """The players of a book that are no networks."""
    return [player for player in book.players.values() if player.version is None]


def anchor_lines(book: Book, ratings: dict[str, Rating]) -> list[AnchorLine]:
    found = [(one.name, ratings[one.name]) for one in anchors_in(book) if one.name in ratings]
    return [AnchorLine(rating.elo, rating.margin, name) for name, rating in found]


def ladder_points(players: Sequence[Entrant], ratings: dict[str, Rating]) -> list[LadderPoint]:
    rated = [(one, ratings[one.name]) for one in players if one.name in ratings]
    return [
        LadderPoint(rating.elo, rating.margin, one.step or 0, one.games_before, one.hours)
        for one, rating in rated
    ]


def search_points(players: Sequence[Entrant], ratings: dict[str, Rating]) -> list[SearchPoint]:
    rated = [(one, ratings[one.name]) for one in players if one.name in ratings]
    return [SearchPoint(rating.elo, rating.margin, one.simulations) for one, rating in rated]
