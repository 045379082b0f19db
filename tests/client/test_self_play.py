"""Games of self-play: their records obey the rules, and the same seed gives the same games."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from changed_settings import self_play, varied
from leaf_by_leaf import Answer, Leaf, LeafByLeaf, played, uniform
from naive_verify import decided, naive_verdict, positions_of

from azselfplay.games import get_game
from azselfplay.search.evaluator import Evaluator, UniformEvaluator
from azselfplay.search.forest import Forest
from azselfplay.search.pool import SearchPool
from azselfplay.search.settings import resolve
from client.remote_evaluator import LeafRefused
from client.self_play import GamePool, Player
from protocol.errors import Code
from protocol.records import POLICY_TARGET, SEARCH_DIFFERS, GameRecord, from_bytes, to_bytes
from protocol.settings import SelfPlaySettings
from trainer.verify import Verifier

DIFFERS = np.uint8(SEARCH_DIFFERS)
GAMES = ("tic_tac_toe", "connect_four")


def settings_for(game: str, **changes: object) -> SelfPlaySettings:
    return resolve(varied(self_play(simulations=12), **changes), get_game(game))  # type: ignore[arg-type]


def play(game: str, number: int, **changes: object) -> GameRecord:
    player = Player(seed=5, name="test")
    rng, settings = player.rng(number), settings_for(game, **changes)
    return played(get_game(game), settings, UniformEvaluator(), rng, player=player)


def accepted(game: str, games: int, **changes: object) -> list[GameRecord]:
    """Play games. Each holds under a naive replay, and the trainer accepts it."""
    verifier = Verifier(get_game(game), settings_for(game, **changes))
    records = [play(game, number, **changes) for number in range(games)]
    for record in records:
        assert naive_verdict(get_game(game), record) is None
        assert verifier.check(from_bytes(to_bytes(record)), 0) is None
    return records


@pytest.mark.parametrize("game", GAMES)
def test_records_hold_under_a_naive_replay(game: str) -> None:
    records = accepted(game, 25)
    for record in records:
        assert (record.flags & ~DIFFERS == POLICY_TARGET).all()
        assert from_bytes(to_bytes(record)).uid == record.uid
    assert {1, -1} <= {record.outcome for record in records}
    assert {0, 1} == {record.plies % 2 for record in records}


@pytest.mark.parametrize("solver", [True, False])
def test_what_follows_a_decided_game_is_neither_searched_nor_learned(solver: bool) -> None:
    """In dots-and-boxes a side with most of the boxes has won, but the rules play the game to the end."""
    name, most = "dots_and_boxes_2x2", 0
    for record in accepted(name, 25, solver=solver, look_ahead=solver):
        states = positions_of(get_game(name), record)
        over = [decided(get_game(name), states[: ply + 1]) != 0 for ply in range(record.plies)]
        assert ((record.visited == 0) == over).all()
        assert ((record.flags & POLICY_TARGET == 0) == over).all()
        most = max(most, sum(over))
    assert most > 1


def test_a_search_with_gumbel_choices_gives_improved_policies() -> None:
    """Every ply is a target whose shares sum to the same number; both sides win, and games differ."""
    records = accepted("tic_tac_toe", 25, selection="gumbel")
    assert all((record.flags & ~DIFFERS == 3).all() for record in records)
    assert {1, -1} <= {record.outcome for record in records}
    assert len({tuple(record.actions.tolist()) for record in records}) > 20


def test_games_whose_final_moves_are_secure_hold() -> None:
    """This holds with pruned targets, too: every move played was visited."""
    accepted("connect_four", 6, final_move="secure", temperature_plies=2, solver=True)


@pytest.mark.parametrize("root", ["puct", "gumbel"])
def test_a_share_of_games_begins_with_random_plies(root: str) -> None:
    changes = {"selection": root, "random_share": 0.5, "random_plies": 6}
    lengths = []
    for record in accepted("tic_tac_toe", 60, **changes):
        random = record.visited == 0
        lengths.append(int(random.sum()))
        assert random[: lengths[-1]].all()
        assert ((record.flags & POLICY_TARGET == 0) == random).all()
        assert (np.isnan(record.prior_kl) == random).all()
    assert set(lengths) == set(range(7))
    assert 20 <= lengths.count(0) <= 45


def test_random_plies_of_a_workers_first_game_have_the_version_of_its_first_search() -> None:
    """An evaluator learns the version with its first answer; games of version 0 count as untrained."""

    class New(LeafByLeaf):
        def answer(self, leaf: Leaf) -> Answer:
            self.version = 7
            return super().answer(leaf)

    game, settings = get_game("connect_four"), settings_for("connect_four", random_share=1.0, random_plies=6)
    for number in range(3):
        record = played(game, settings, New(version=0), Player(3).rng(number))
        assert (record.versions == 7).all()


@pytest.mark.parametrize("root", ["puct", "gumbel"])
def test_a_record_tells_what_the_search_did_to_the_network(root: str) -> None:
    """It has the KL divergence from an untrained network's equal priors, its value of 0, and the depths."""
    record, at = play("tic_tac_toe", 0, selection=root), 0
    for ply, visited in enumerate(record.visited.tolist()):
        shares = record.visits[at : at + visited] / record.visits[at : at + visited].sum()
        at += visited
        kl = float(shares @ np.log(shares * (9 - ply)))
        assert record.prior_kl[ply] == pytest.approx(kl, rel=2e-3, abs=2e-3)
        assert 1 <= record.mean_depths[ply] <= record.max_depths[ply] <= 9 - ply
    assert (record.prior_values == 0).all()
    assert not (record.flags & SEARCH_DIFFERS).any()
    assert (record.mean_depths > 1).any()


@pytest.mark.parametrize(("random_plies", "max_plies"), [(9, 9), (1000, 9), (1000, 4)])
def test_a_random_opening_never_ends_the_game(random_plies: int, max_plies: int) -> None:
    """Neither the rules nor the cap, which makes a draw, ends a game there: its last ply is searched."""
    for number in range(30):
        changes = {"random_plies": random_plies, "random_share": 1.0, "max_plies": max_plies}
        record = play("tic_tac_toe", number, **changes)
        assert record.visited[-1] > 0
        assert record.plies <= max_plies
        assert naive_verdict(get_game("tic_tac_toe"), record) is None


def test_a_share_of_games_begins_at_one_of_the_start_positions() -> None:
    """The trainer accepts these and the usual start, and no others; comments are not positions."""
    game = get_game("tic_tac_toe")
    text = "# corners\nx../.../... \n\n.../.../..x\n"
    changes = {"positions": text, "share": 0.5, "random_share": 0.5, "random_plies": 3}
    settings = settings_for("tic_tac_toe", **changes)
    verifier = Verifier(game, settings)
    records = [play("tic_tac_toe", number, **changes) for number in range(30)]
    assert {record.start for record in records} == {"", "x../.../...", ".../.../..x"}
    assert 8 <= sum(record.start == "" for record in records) <= 22
    for record in records:
        assert verifier.check(from_bytes(to_bytes(record)), 0) is None
    strange = replace(records[0], start=".x./.../...")
    rejection = verifier.check(strange, 0)
    assert rejection is not None
    assert rejection.code == Code.WRONG_SETTINGS


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"share": 0.5}, "no start positions"),
        ({"positions": "x../.../...\nnonsense"}, r"start\.positions: "),
        ({"positions": "xxx/oo./..."}, "over"),
        ({"positions": "x../.../...\n" * 1001}, "at most 1000"),
    ],
)
def test_start_positions_must_be_positions(changes: dict[str, object], word: str) -> None:
    """Each line is checked before anybody plays."""
    with pytest.raises(ValueError, match=word):
        settings_for("tic_tac_toe", **changes)


def test_a_game_may_start_from_a_given_position() -> None:
    game = get_game("tic_tac_toe")
    positions = np.zeros((2, game.state_words), np.uint64)
    game.rules.play(positions[0], 4, positions[1])
    text = game.notation.state_to_text(positions[1])
    record = play("tic_tac_toe", 0, position=text)
    assert record.start == text
    assert 4 not in record.actions


def test_the_same_seed_gives_the_same_game_and_another_number_another_one() -> None:
    """Two games of the same (seed, worker, number) differ only in their uid and duration."""
    one, same, other = play("connect_four", 3), play("connect_four", 3), play("connect_four", 4)
    assert one.uid != same.uid
    assert to_bytes(replace(one, uid=same.uid, seconds=0)) == to_bytes(replace(same, seconds=0))
    assert one.visits.tolist() != other.visits.tolist()


def test_clients_with_the_same_index_on_different_machines_draw_differently() -> None:
    """Their names are part of their random seeds; a server's own workers need none."""
    draws = {Player(1, 0, name, is_client=True).rng(0).integers(2**62) for name in ("a", "b")}
    assert len(draws) == 2
    assert Player(1, 0, "a").rng(7).integers(2**62) == Player(1, 0, "b").rng(7).integers(2**62)


class Failing(LeafByLeaf):
    """Fails at one leaf, then answers all others: it `refuses` it, or answers with one prior too few."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault

    def answer(self, leaf: Leaf) -> Answer:
        fault = self.fault
        if fault and len(leaf.actions) == 5:
            self.fault = ""
            if fault == "refuses":
                raise LeafRefused("poison")
            return uniform(leaf._replace(actions=leaf.actions[:-1]))
        return uniform(leaf)


def searches(evaluator: Evaluator) -> SearchPool:
    return SearchPool(Forest(get_game("tic_tac_toe"), settings_for("tic_tac_toe")), evaluator)


async def run_pool(evaluator: Evaluator, games: int, until: int) -> tuple[GamePool, list[GameRecord]]:
    """Play `games` at a time until `until` games are kept, then finish."""
    kept: list[GameRecord] = []
    room, finishing = asyncio.Event(), asyncio.Event()
    room.set()

    async def save(record: GameRecord) -> None:
        kept.append(record)
        if len(kept) == until:
            finishing.set()

    pool = GamePool(searches(evaluator), Player(1), save=save, room=room, finishing=finishing)
    async with asyncio.TaskGroup() as group:
        pool.start(group, games)
    return pool, kept


async def test_a_pool_plays_as_many_games_at_a_time_as_it_was_last_told() -> None:
    """More games begin at once. If there are too many, each is played to its end and is not followed by
    another."""
    room, finishing, let_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
    room.set()
    finished = asyncio.Semaphore(0)

    async def save(record: GameRecord) -> None:
        finished.release()
        await let_on.wait()

    what = searches(UniformEvaluator()), Player(1)
    pool = GamePool(*what, save=save, room=room, finishing=finishing)
    async with asyncio.timeout(1000), asyncio.TaskGroup() as group:
        pool.start(group, 2)
        pool.resize(5)
        for _ in range(5):
            await finished.acquire()
        most = len(pool.tasks)
        pool.resize(1)
        let_on.set()
        await finished.acquire()
        pool.resize(1)
        least = len(pool.tasks)
        finishing.set()
    assert (most, least) == (5, 1)


@pytest.mark.parametrize(
    ("fault", "why"), [("refuses", "(LeafRefused): poison"), ("misfits", "(BadEvaluation): ")]
)
def test_a_leaf_without_an_answer_gives_up_one_game_only(fault: str, why: str, monkeypatch, caplog) -> None:
    """The other coroutines play game after game until they are to finish, and its own begins another game. No
    prior beyond the end is read."""
    monkeypatch.setattr("client.self_play.PAUSE_AFTER_REFUSAL", 0.0)
    pool, kept = asyncio.run(run_pool(Failing(fault), 3, 10))
    (message,) = caplog.messages
    assert message.startswith(f"a game is given up {why}")
    assert 10 <= len({record.uid for record in kept}) == len(kept) <= 12
    assert (pool.finished, pool.in_progress) == (len(kept), 0)


@pytest.mark.parametrize("finishes", [False, True])
async def test_no_game_starts_while_the_spool_is_full(finishes: bool) -> None:
    """The coroutines wait until the spool has space, or until they are to finish: no game is in progress."""
    room, finishing = asyncio.Event(), asyncio.Event()

    async def save(_: GameRecord) -> None:
        finishing.set()

    what = searches(UniformEvaluator()), Player(1)
    pool = GamePool(*what, save=save, room=room, finishing=finishing)
    async with asyncio.timeout(1000), asyncio.TaskGroup() as group:
        pool.start(group, 2)
        for _ in range(10):
            await asyncio.sleep(0)
        before = pool.in_progress + pool.finished
        (finishing if finishes else room).set()
    assert before == 0
    assert (pool.finished == 0) == finishes
