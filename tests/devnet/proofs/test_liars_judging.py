"""`make liars`: missed bars are found, and the allowed effects of a lie are no misses."""

import asyncio
from typing import Any, Self, cast

import pytest

from devnet.proofs.liars import __main__ as scenarios
from devnet.proofs.liars import judging, money
from devnet.proofs.liars.catalogue import LIES_BY_NAME, UNPROVABLE
from devnet.proofs.liars.course import LiarsRun
from devnet.proofs.liars.judging import Hearing
from devnet.proofs.liars.lie import Noticed, Program
from devnet.proofs.liars.money import AccountBooks, AccountMoves
from devnet.proofs.liars.people import CommandOutput
from gpu_tasks.market.inference.events import UnitPosted, UnitRefunded, UnitSettled
from gpu_tasks.market.inference.units import Refund
from runtime.encoding.types import Initialization
from runtime.pallets.balances import Transfer
from runtime.pallets.system import AccountData, AccountInfo, EventRecord
from runtime.pallets.transaction_payment import TransactionFeePaid

SINK, WHO, OTHER = b"\x01" * 32, b"\x02" * 32, b"\x03" * 32
AMOUNT = 1_000_000
NAMED, HARMLESS, NO_PROOF = "swallowed", "doubled", "called_invalid"
NAMING = "error: ws://x reported nothing on the extrinsic for 10 s"


def heard(lie: str, *under_lie: CommandOutput, repeats: tuple[CommandOutput, ...] = (), told: int = 1) -> Hearing:
    return Hearing(lie, Program.WALLET, lie, told, list(under_lie), list(repeats))


def misses(hearing: Hearing, moves: AccountMoves, units: int = 0) -> list[str]:
    judging.judge_output(hearing)
    judging.judge_actions(hearing, moves, [] if units else [(SINK, AMOUNT)], units)
    judging.judge_money(hearing, moves, 0)
    return [miss.split(":")[0] for miss in hearing.misses]


def once() -> AccountMoves:
    return AccountMoves([(SINK, AMOUNT)], extrinsics=1, fees=7, wealth_before=2 * AMOUNT, wealth_after=AMOUNT - 7)


def nothing() -> AccountMoves:
    return AccountMoves(wealth_before=AMOUNT, wealth_after=AMOUNT)


def test_a_lie_that_is_named_and_repeated_honestly_holds() -> None:
    hearing = heard(NAMED, CommandOutput(2, NAMING, 10), repeats=(CommandOutput(0, "final", 3),))
    assert misses(hearing, once()) == []
    assert hearing.verdict == "named"


def test_a_lie_that_is_not_named_is_a_miss() -> None:
    hearing = heard(NAMED, CommandOutput(2, "error: something", 10), repeats=(CommandOutput(0, "final", 3),))
    assert misses(hearing, once()) == ["not named"]


def test_a_lie_that_was_never_told_proves_nothing() -> None:
    found = misses(heard(HARMLESS, CommandOutput(0, "", 1), told=0), once())
    assert found == ["the node never lied"]


@pytest.mark.parametrize(
    ("said", "miss"),
    [
        (CommandOutput(None, "(hung)", 200), "hung for 200 s"),
        (CommandOutput(-9, "", 1), "dead, with status -9"),
        (CommandOutput(1, "Traceback (most recent call last)\nKeyError", 1), "dead"),
        (CommandOutput(0, "\x1b[2Jhello", 1), "prints a command for the terminal"),
    ],
)
def test_a_program_that_dies_hangs_or_shouts(said: CommandOutput, miss: str) -> None:
    assert miss in misses(heard(NO_PROOF, said, repeats=(CommandOutput(0, "", 1),)), once())


def test_money_that_moved_without_a_command() -> None:
    twice = AccountMoves(
        [(SINK, AMOUNT)] * 2, extrinsics=2, fees=14, wealth_before=4 * AMOUNT, wealth_after=2 * AMOUNT - 14
    )
    assert misses(heard(NO_PROOF, CommandOutput(0, "", 1)), twice) == ["moved", "sent 2 extrinsics instead of 1"]
    elsewhere = AccountMoves([(OTHER, AMOUNT)], extrinsics=1, fees=7, wealth_before=2 * AMOUNT, wealth_after=AMOUNT - 7)
    assert "moved" in misses(heard(NO_PROOF, CommandOutput(0, "", 1)), elsewhere)
    unexplained = AccountMoves(
        [(SINK, AMOUNT)], extrinsics=1, fees=7, wealth_before=2 * AMOUNT, wealth_after=AMOUNT - 8
    )
    assert misses(heard(NO_PROOF, CommandOutput(0, "", 1)), unexplained) == ["moved"]


def test_units_posted_twice() -> None:
    hearing = Hearing(NO_PROOF, Program.CUSTOMER, NO_PROOF, 1, [CommandOutput(0, "", 1)])
    assert misses(hearing, AccountMoves(units=[b"a", b"b"], extrinsics=1), units=1) == ["posted twice"]


def test_who_believes_what_nothing_refutes_is_deceived_and_no_miss() -> None:
    hearing = heard(NO_PROOF, CommandOutput(0, "final", 1))
    assert misses(hearing, nothing()) == []
    assert hearing.is_deceived
    assert hearing.verdict == "unnoticed"


def test_who_believes_what_it_could_have_known_misses() -> None:
    hearing = heard(NAMED, CommandOutput(0, NAMING, 1))
    assert misses(hearing, nothing()) == ["never done, although the node answered honestly again"]


def test_a_lie_that_cannot_matter_stops_nobody() -> None:
    hearing = heard(HARMLESS, CommandOutput(2, "error", 1), repeats=(CommandOutput(0, "", 1),))
    assert misses(hearing, once()) == ["failed under a lie that cannot matter"]
    assert misses(heard(HARMLESS, CommandOutput(0, "", 1)), once()) == []


def test_the_books_take_what_the_accounts_did_and_nobody_else() -> None:
    books = AccountBooks({WHO: AccountMoves(), OTHER: AccountMoves()})
    unit, lost = b"\x0a" * 32, b"\x0b" * 32
    for event in (
        Transfer(WHO, SINK, 5),
        Transfer(SINK, WHO, 9),
        TransactionFeePaid(WHO, 2, 0),
        TransactionFeePaid(SINK, 3, 0),
        UnitPosted(unit, 0, WHO, bytes(32), 100, 2),
        UnitPosted(lost, 0, WHO, bytes(32), 100, 2),
        UnitSettled(unit, bytes(32), bytes(32), OTHER, 80, None, 80),
    ):
        books.take(1, event)
    moves = books.moves_by_account[WHO]
    assert (moves.transfers, moves.units, moves.extrinsics, moves.fees) == ([(SINK, 5)], [unit, lost], 1, 2)
    assert books.open_units(WHO) == [lost]
    books.take(2, UnitRefunded(lost, Refund.CANCELLED, 4))
    assert books.open_units(WHO) == []
    assert books.cost_of_units(WHO, prepaid=10) == 80 + 4 + 2 * 10
    assert books.moves_by_account[OTHER] == AccountMoves()


class GrowingChain:
    """Final blocks, one more with each question. Each holds one transfer of its height."""

    def __init__(self, height: int) -> None:
        self.final = height
        self.asked: list[int] = []

    async def finalized(self) -> bytes:
        self.final += 2
        return self.final.to_bytes(4, "big")

    async def height(self, at: bytes) -> int:
        return int.from_bytes(at, "big")

    @property
    def rpc(self) -> Self:
        return self

    async def call(self, _: str, height: int) -> str:
        return "0x" + height.to_bytes(4, "big").hex()

    async def events(self, block: bytes) -> list[EventRecord]:
        height = int.from_bytes(block, "big")
        self.asked.append(height)
        return [EventRecord(Initialization(), cast("Any", Transfer(WHO, SINK, height)), ())]

    async def read(self, _: object, who: bytes, *, at: bytes) -> AccountInfo:
        assert who == WHO
        return AccountInfo(data=AccountData(free=1_000 - int.from_bytes(at, "big"), reserved=1))


def test_the_books_are_kept_without_a_gap_while_the_chain_grows() -> None:
    chain = GrowingChain(10)

    async def run() -> AccountBooks:
        books = await money.open_books(cast("Any", chain), [WHO])
        async with money.kept_books(cast("Any", chain), books):
            while len(chain.asked) < 2:
                await asyncio.sleep(0)
        return books

    books = asyncio.run(run())
    assert chain.asked == list(range(13, books.next_height))
    moves = books.moves_by_account[WHO]
    assert [amount for _, amount in moves.transfers] == chain.asked
    assert (moves.wealth_before, moves.wealth_after, moves.lost_grains) == (
        989,
        1_002 - books.next_height,
        books.next_height - 13,
    )


def test_the_last_line_counts() -> None:
    held = heard(NAMED, CommandOutput(2, NAMING, 10), repeats=(CommandOutput(0, "final", 3),))
    dead = heard(NO_PROOF, CommandOutput(None, "(hung)", 200))
    misses(held, once())
    misses(dead, nothing())
    run = LiarsRun([held, dead], ["a failure"], ended={"units": 3, "settled": 2})
    facts = {lie: scenarios.hear_lie(lie, run) for lie in (NAMED, NO_PROOF)}
    line = scenarios.figures({**facts, scenarios.HONEST_SCENARIO: run})
    assert line.startswith("2 lies told 2 times: 1 named")
    assert "1 programs dead, 1 missed; 2 of 3 units" in line
    assert [len(list(scenarios.missed_requirements(fact))) for fact in facts.values()] == [0, len(dead.misses)]
    assert scenarios.harm_done(run) == ["a failure"]


def test_which_lies_no_proof_refutes() -> None:
    assert set(UNPROVABLE) == {"nonce_ahead", "called_invalid", "called_dropped", "called_refused"}
    assert all(not LIES_BY_NAME[name].words for name in UNPROVABLE)
    assert all(lie.words for lie in LIES_BY_NAME.values() if lie.noticed is Noticed.NAMED)
