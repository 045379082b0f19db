"""Openings drawn from the network's policy: how often, how long, and with which probabilities."""

import numpy as np
import pytest
from changed_settings import self_play, varied
from leaf_by_leaf import Answer, LeafByLeaf, played
from naive_verify import naive_verdict

from azselfplay.games import get_game
from azselfplay.search.evaluator import Leaf
from azselfplay.search.settings import resolve
from client.self_play import Player, sampled
from protocol.records import GameRecord, from_bytes, to_bytes
from protocol.settings import SelfPlaySettings
from trainer.verify import Expected, Verifier

GAME = get_game("connect_four")


class Leftmost(LeafByLeaf):
    """A network that gives all weight to the first legal action, and counts its evaluations."""

    def __init__(self) -> None:
        super().__init__(version=7)

    def answer(self, leaf: Leaf) -> Answer:
        priors = np.zeros(len(leaf.actions), np.float32)
        priors[0] = 1.0
        return priors, 0.0


def settings_for(**changes: object) -> SelfPlaySettings:
    return resolve(varied(self_play(simulations=6), **changes), GAME)  # type: ignore[arg-type]


def play(number: int, settings: SelfPlaySettings, network: LeafByLeaf) -> GameRecord:
    return played(GAME, settings, network, Player(3).rng(number))


def unsearched(record: GameRecord) -> int:
    """Return the number of opening plies: they have no visits, and come first."""
    none = record.visited == 0
    plies = int(none.sum())
    assert none[:plies].all()
    assert ((record.flags == 0) == none).all()
    assert (record.root_values[:plies] == 0).all()
    return plies


@pytest.mark.parametrize("root", ["puct", "gumbel"])
def test_a_share_of_games_begins_with_the_networks_own_moves(root: str) -> None:
    """Half of the games begin with 0 to 4 plies drawn from the policy; the trainer accepts them."""
    settings = settings_for(selection=root, policy_share=0.5, policy_plies=4)
    verifier, expected = Verifier(GAME), Expected.of(settings, GAME)
    lengths = []
    for number in range(50):
        record = play(number, settings, Leftmost())
        assert naive_verdict(GAME, record) is None
        assert verifier.check(from_bytes(to_bytes(record)), expected, 7) is None
        lengths.append(unsearched(record))
        assert (record.actions[: lengths[-1]] == 0).all()
        assert (record.versions == 7).all()
    assert set(lengths) == set(range(5))
    assert 20 <= lengths.count(0) <= 40


def test_a_ply_costs_one_evaluation() -> None:
    """Random plies, which come first, cost none."""
    changes = {"random_share": 1.0, "random_plies": 3, "max_plies": 12}
    for number in range(12):
        network = Leftmost()
        settings = settings_for(
            **changes, policy_share=1.0, policy_plies=6, selection="gumbel", simulations=1
        )
        record = play(number, settings, network)
        by_policy = 0
        while by_policy < unsearched(record) and record.actions[unsearched(record) - 1 - by_policy] == 0:
            by_policy += 1
        searched = record.plies - unsearched(record)
        assert searched <= network.rows <= by_policy + 2 * searched


def test_random_plies_of_a_workers_first_game_have_the_version_of_its_first_search() -> None:
    """An evaluator learns the version with its first answer; games of version 0 count as untrained."""

    class New(Leftmost):
        def answer(self, leaf: Leaf) -> Answer:
            self.version = 7
            return super().answer(leaf)

    for number in range(3):
        network = New()
        network.version = 0
        record = play(number, settings_for(random_share=1.0, random_plies=6), network)
        assert (record.versions == 7).all()


def test_the_policys_moves_never_end_the_game() -> None:
    """When a column fills up or the cap is reached, the last ply of the game is still searched."""
    for number in range(12):
        settings = settings_for(policy_share=1.0, policy_plies=40, max_plies=9)
        record = play(number, settings, Leftmost())
        assert record.visited[-1] > 0
        assert naive_verdict(GAME, record) is None


def test_games_differ_from_what_they_were_only_where_it_is_switched_on() -> None:
    """Where such openings are off, no random number is drawn for them."""
    plain = settings_for()
    other = varied(plain, policy_share=0.7)
    assert play(1, plain, LeafByLeaf()).actions.tolist() == play(1, other, LeafByLeaf()).actions.tolist()


@pytest.mark.parametrize(("priors", "share"), [((0.8, 0.2), 0.8), ((1e-30, 3e-30), 0.25), ((0, 0), 0.5)])
def test_actions_are_drawn_in_proportion_to_the_policy(priors: tuple[float, float], share: float) -> None:
    """This holds however small the priors are; if all are 0, the actions are equally likely."""
    rng = np.random.default_rng(1)
    found = np.mean([sampled(np.array(priors, np.float32), rng) == 0 for _ in range(4000)])
    assert abs(found - share) < 0.025
