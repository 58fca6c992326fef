"""The bars of the cheats fail where they should: each with a record that breaks it."""

from dataclasses import replace
from typing import Any

import pytest

from devnet.proofs.cheats import units as cheat_judgement
from devnet.proofs.cheats.units import AmountCheck, CheatFinding
from devnet.stage.measuring.ledger import DevnetLedger
from genesis import dev_accounts
from gpu_tasks.market.attestations.attestations import Attested
from gpu_tasks.market.courts.cases import PartyFault
from gpu_tasks.market.courts.events import CaseDecided, OpinionOpened
from gpu_tasks.market.courts.opinions import Answered, Statement
from gpu_tasks.market.inference.events import PlaceRefilled, ProviderSlashed, RaceMissed, UnitMatched, UnitSettled

UNIT, DEVICE, ROOT = b"\1" * 32, b"\2" * 32, b"\3" * 32
ALICE, BOB, EVE = (dev_accounts.stash(name) for name in ("Alice", "Bob", "Eve"))


def honest() -> DevnetLedger:
    """Alice and Eve raced, Alice was paid."""
    book = DevnetLedger()
    book.take(5, UnitMatched(UNIT, 1, 100, (ALICE, EVE)))
    book.take(8, Attested(UNIT, ALICE, DEVICE, ROOT, ROOT))
    book.take(9, UnitSettled(UNIT, ROOT, ROOT, ALICE, 100, None, 130))
    return book


def complaints(book: DevnetLedger) -> list[str]:
    return list(cheat_judgement._common_failures({"0x01": book.unit(UNIT)}, book, EVE))


def test_an_honest_race_breaks_no_bar() -> None:
    assert complaints(honest()) == []


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (UnitSettled(UNIT, ROOT, ROOT, ALICE, 100, None, 130), "settled 2 times"),
        (Attested(UNIT, BOB, DEVICE, ROOT, ROOT), "not drawn"),
        (ProviderSlashed(UNIT, ALICE, DEVICE, PartyFault.LIED, 1), "Alice is honest"),
        (RaceMissed(UNIT, BOB, 1), "Bob is honest"),
    ],
)
def test_what_no_honest_race_shows_is_said(event: Any, said: str) -> None:
    book = honest()
    book.take(9, event)
    assert any(said in complaint for complaint in complaints(book))


def test_who_was_drawn_for_a_declined_place_was_drawn() -> None:
    book = honest()
    book.take(6, PlaceRefilled(UNIT, 1, BOB, EVE))
    book.take(8, Attested(UNIT, BOB, DEVICE, ROOT, ROOT))
    assert complaints(book) == []


def test_an_attestation_too_many_is_said() -> None:
    book = honest()
    for _ in range(2):
        book.take(8, Attested(UNIT, EVE, DEVICE, ROOT, ROOT))
    assert any("one too many" in complaint for complaint in complaints(book))


def verdict(finding: CheatFinding, book: DevnetLedger) -> list[str]:
    return list(cheat_judgement._mode_failures(finding, {"0x01": book.unit(UNIT)}, EVE))


GOOD = {
    "flip-bit": CheatFinding("flip-bit", 1, drawn=1, slashed=1),
    "copied-result": CheatFinding("copied-result", 1, drawn=1, tried=2, refused=2, fined=1),
    "late-reveal": CheatFinding("late-reveal", 1, drawn=1, tried=2, refused=2, fined=1),
    "replayed-attestation": CheatFinding("replayed-attestation", 1, drawn=1, tried=2, refused=2),
    "not-assigned": CheatFinding("not-assigned", 1, tried=2, refused=2),
}


def played(mode: str) -> DevnetLedger:
    book = honest()
    if mode == "flip-bit":
        book.take(8, Attested(UNIT, EVE, DEVICE, ROOT, ROOT))
    return book


@pytest.mark.parametrize("mode", GOOD)
def test_a_cheat_that_was_dealt_with_breaks_no_bar(mode: str) -> None:
    assert verdict(GOOD[mode], played(mode)) == []


@pytest.mark.parametrize(
    ("mode", "change"),
    [
        ("flip-bit", {"slashed": 0}),
        ("flip-bit", {"drawn": 0}),
        ("flip-bit", {"checks": [AmountCheck("a miss", "0x01", 9, 10, 11)]}),
        ("copied-result", {"fined": 0}),
        ("copied-result", {"refused": 1}),
        ("not-assigned", {"slashed": 1}),
        ("late-reveal", {"tried": 0, "refused": 0}),
        ("replayed-attestation", {"refused": 1}),
        ("not-assigned", {"refused": 0}),
    ],
)
def test_a_cheat_that_was_not_is_said(mode: str, change: dict[str, Any]) -> None:
    assert verdict(replace(GOOD[mode], **change), played(mode))


@pytest.mark.parametrize("mode", ["flip-bit", "copied-result", "late-reveal"])
def test_wrong_work_is_never_paid(mode: str) -> None:
    book = DevnetLedger()
    book.take(9, UnitSettled(UNIT, ROOT, ROOT, EVE, 100, None, 130))
    assert any("was paid" in complaint for complaint in verdict(GOOD[mode], book))


@pytest.mark.parametrize(("in_office", "lost"), [(4, 2_038), (5, 2_038), (6, 225), (7, 225)])
def test_without_a_court_two_judges_take_all_only_where_they_are_more_than_a_third(in_office: int, lost: int) -> None:
    """The price is 100 million grains. Losses are in millions, rounded up."""
    price = 10**8
    book = DevnetLedger()
    book.take(5, UnitMatched(UNIT, 1, price, (ALICE, EVE)))
    for judge in (ALICE, BOB):
        book.take(8, OpinionOpened(UNIT, judge, Statement(Answered(ROOT), ROOT)))
    book.take(9, CaseDecided(UNIT, Answered(ROOT), 0))
    book.take(9, ProviderSlashed(UNIT, EVE, DEVICE, PartyFault.LIED, 1))
    (check,) = cheat_judgement._amount_checks(book, in_office)
    assert -(-check.expected // 10**6) == lost


def test_an_attestation_that_no_block_took_was_refused() -> None:
    tries = [{"what": "attestation", "answer": "taken into the pool"}, {"what": "Attestations.reveal", "answer": "no"}]
    finding, book = CheatFinding("not-assigned", 1), honest()
    cheat_judgement._count_attempts(finding, tries, {"0x01": book.unit(UNIT)})
    assert (finding.tried, finding.refused) == (2, 2)
    finding = CheatFinding("late-reveal", 1)
    book.take(8, Attested(UNIT, EVE, DEVICE, ROOT, ROOT))
    cheat_judgement._count_attempts(finding, tries, {"0x01": book.unit(UNIT)})
    assert (finding.tried, finding.refused) == (2, 1)


def test_a_racer_that_reveals_its_own_wrong_result_was_not_refused() -> None:
    finding, book = CheatFinding("flip-bit", 1), played("flip-bit")
    cheat_judgement._count_attempts(finding, [], {"0x01": book.unit(UNIT)})
    assert (finding.tried, finding.refused) == (0, 0)
