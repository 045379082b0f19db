"""The request table: every row is answered once, whatever happens to the messages."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from scaled_examples import scaled

from client.remote_evaluator import RequestTable


def test_requests_are_taken_in_order_within_the_credits() -> None:
    table: RequestTable[str] = RequestTable()
    table.joined(10)
    for name, rows in (("a", 6), ("b", 6), ("c", 2)):
        table.open(name, rows)
    assert table.take(0.0) == [(1, 6, "a")]
    assert (table.in_flight, table.room) == (6, 0)
    table.answer(1, 0, 6)
    assert [payload for _, _, payload in table.take(0.0)] == ["b", "c"]


def test_rejoining_sends_everything_unanswered_again_in_order() -> None:
    """The server forgot the requests of the old session; half-answered ones are sent whole."""
    table: RequestTable[str] = RequestTable()
    table.joined(10)
    for name in "abc":
        table.open(name, 3)
    table.take(0.0)
    table.answer(1, 0, 3)
    table.answer(2, 0, 1)
    table.credits = 0
    table.joined(6)
    assert table.take(1.0) == [(2, 3, "b"), (3, 3, "c")]
    assert table.in_flight == 6


def test_an_unanswered_request_is_sent_again_after_doubling_times() -> None:
    table: RequestTable[str] = RequestTable()
    table.joined(10)
    table.open("a", 1)
    table.take(0.0)
    deadlines = []
    for _ in range(3):
        deadline = table.next_deadline()
        assert deadline is not None
        assert table.expire(deadline - 0.1) == 0
        assert table.expire(deadline) == 1
        table.take(deadline)
        deadlines.append(deadline)
    assert deadlines == [10.0, 30.0, 70.0]


def test_a_postponed_request_is_sent_when_the_server_said() -> None:
    table: RequestTable[str] = RequestTable()
    table.joined(10)
    table.open("a", 1)
    table.take(0.0)
    table.postpone(1, 0.5)
    assert table.next_deadline() == 0.5
    assert table.expire(0.5) == 1


def test_answers_to_nothing_are_ignored() -> None:
    table: RequestTable[str] = RequestTable()
    table.joined(10)
    table.open("a", 2)
    table.take(0.0)
    assert table.answer(9, 0, 1) is None
    assert table.answer(1, 1, 2) is None
    assert table.answer(1, 0, 0) is None
    assert table.answer(1, 0, 2) == ("a", range(2))
    assert table.answer(1, 0, 2) is None
    assert (len(table), table.in_flight) == (0, 0)


def test_a_grant_holds_for_what_is_sent_from_now_on() -> None:
    table: RequestTable[str] = RequestTable()
    table.joined(8)
    for name in "abc":
        table.open(name, 4)
    assert [payload for _, _, payload in table.take(0.0)] == ["a", "b"]
    table.credits = 4
    table.answer(1, 0, 4)
    assert table.take(0.0) == []
    table.answer(2, 0, 4)
    assert [payload for _, _, payload in table.take(0.0)] == ["c"]
    table.open("d", 4)
    table.credits = 8
    assert [payload for _, _, payload in table.take(0.0)] == ["d"]


class Conversation(RuleBasedStateMachine):
    """A server that answers parts in any order, twice, or loses them; sessions come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.table: RequestTable[list[int]] = RequestTable()
        self.now = 0.0
        self.answers: dict[int, list[int]] = {}
        """Request -> times each row was resolved."""
        self.seen: list[tuple[int, int]] = []
        """Requests that reached the server, each with its number of rows."""

    @rule(rows=st.integers(1, 6))
    def open(self, rows: int) -> None:
        counters = [0] * rows
        self.answers[self.table.open(counters, rows)] = counters

    @rule(lost=st.booleans())
    def take(self, lost: bool) -> None:
        for request, rows, counters in self.table.take(self.now):
            assert self.answers[request] is counters
            assert len(counters) == rows
            if not lost:
                self.seen.append((request, rows))

    @precondition(lambda self: self.seen)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        request, rows = data.draw(st.sampled_from(self.seen))
        first = data.draw(st.integers(0, rows - 1))
        self.resolve(request, first, data.draw(st.integers(1, rows - first)))

    @rule(credits=st.integers(1, 12))
    def join(self, credits: int) -> None:  # noqa: A002
        self.table.joined(credits)

    @rule(credits=st.integers(1, 12))
    def grant(self, credits: int) -> None:  # noqa: A002
        if self.table.credits:
            self.table.credits = credits

    @rule()
    def lose(self) -> None:
        self.table.credits = 0
        assert (self.table.take(self.now), self.table.room) == ([], 0)

    @rule(seconds=st.sampled_from([0.1, 11.0, 200.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.table.expire(self.now)

    @invariant()
    def no_row_is_resolved_twice(self) -> None:
        assert all(count <= 1 for counters in self.answers.values() for count in counters)

    @invariant()
    def rows_in_flight_are_rows_of_open_requests(self) -> None:
        unfinished = sum(len(c) for c in self.answers.values() if 0 in c)
        assert 0 <= self.table.in_flight <= unfinished
        assert len(self.table) == sum(0 in counters for counters in self.answers.values())

    def resolve(self, request: int, first: int, rows: int) -> None:
        answered = self.table.answer(request, first, rows)
        if answered is not None:
            for row in answered[1]:
                answered[0][row] += 1

    def teardown(self) -> None:
        """Once the server answers everything, every row is resolved; a request larger than the new credits
        goes alone."""
        self.table.joined(1)
        while len(self.table):
            taken = self.table.take(self.now)
            assert taken, "requests are left, yet none may be sent"
            for request, rows, _ in taken:
                self.resolve(request, 0, rows)
        assert all(count == 1 for counters in self.answers.values() for count in counters)


Conversation.TestCase.settings = settings(max_examples=scaled(60), stateful_step_count=40, deadline=None)
TestConversation = Conversation.TestCase
