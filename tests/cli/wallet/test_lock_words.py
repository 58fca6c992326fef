"""The wallet's texts for locked money: one for each hold reason, in agreement with the chain's declarations."""

from dataclasses import replace

import pytest

from cli.wallet.lock_words import KEPT_BY, NOTHING_TAKES_IT, STAKE_WORDS, WORDS, end_of, words_of
from genesis.chain import DEVELOPMENT_PALLETS, PALLETS
from gpu_tasks.market.inference.units import UNIT_DEPOSIT
from gpu_tasks.market.training.tasks import TASK_DEPOSIT
from runtime.frame.holds import HoldReason
from runtime.interface.locks_api import Lock, LockPart, SlashWait
from runtime.pallets.staking.stakers import STAKE

REASONS = tuple(reason for pallet in (*PALLETS, *DEVELOPMENT_PALLETS) for reason in pallet.hold_reasons)
BOND = Lock(STAKE, LockPart.BOND, bytes(32), 1, 1, None, None, 0, 0, SlashWait.NONE)
DEPOSIT = replace(BOND, part=LockPart.WHOLE)


def test_every_reason_and_every_part_of_a_stake_has_its_row() -> None:
    assert set(WORDS) == set(REASONS) - {STAKE}
    assert set(STAKE_WORDS) == set(LockPart) - {LockPart.WHOLE}


def test_nothing_takes_a_deposit_and_something_may_take_any_other() -> None:
    assert {reason for reason, words in WORDS.items() if words.taken_by == NOTHING_TAKES_IT} == {
        reason for reason in REASONS if reason.is_deposit
    }
    assert all(words.taken_by != NOTHING_TAKES_IT for words in STAKE_WORDS.values())


def _deposit(reason: HoldReason, blocks: int) -> Lock:
    return replace(DEPOSIT, reason=reason, stays_blocks=blocks)


@pytest.mark.parametrize(
    ("lock", "then"),
    [
        (BOND, ""),
        (replace(BOND, stays_epochs=1_000), ", and 1,000 epochs after that"),
        (replace(BOND, kept_by=SlashWait.UNDECIDED), KEPT_BY[SlashWait.UNDECIDED]),
        (replace(BOND, kept_by=SlashWait.RAISABLE), KEPT_BY[SlashWait.RAISABLE]),
        (_deposit(UNIT_DEPOSIT, 0), ""),
        (_deposit(UNIT_DEPOSIT, 7_200), f", 7,200 blocks after {WORDS[UNIT_DEPOSIT].stays}"),
        (_deposit(TASK_DEPOSIT, 30), f", 30 blocks after {WORDS[TASK_DEPOSIT].stays}"),
    ],
)
def test_an_end_says_what_it_waits_for(lock: Lock, then: str) -> None:
    assert end_of(lock) == words_of(lock).until + then
