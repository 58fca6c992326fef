"""Every error of TrustStake in a staker's call has a message that names the violated limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from runtime.encoding.types import Root, Signed
from runtime.frame.call import Call
from runtime.frame.errors import DispatchError
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.session import NoAssociatedValidator, Session
from runtime.pallets.session_keys import SessionKeys
from runtime.pallets.staking import held_slashes
from runtime.pallets.staking import staking_events as ev
from runtime.pallets.staking.delegations import MOVED_MAX
from runtime.pallets.staking.slash_factors import Liability, SlashStep
from runtime.pallets.staking.stakers import CANDIDATES_MAX, UNLOCKING_MAX, Unlocking
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.system import System
from runtime.pallets.utility import Utility
from simulation.chains.market_chain import GENESIS_HASH, OGPU, Keys, MarketChain, named_keys, signed, validates
from wallet.refusals.refused_call import account_text, percent_text, them
from wallet.refusals.sentences import SENTENCES, sentence_of

STAKING = (System, Balances, Utility, Beacon, TrustStake, Session, TrustLock)
SAVER, NEW = Keys("saver"), Keys("new")
ME, HER = SAVER.stash, NEW.stash
FIRST, SECOND = (keys.stash for keys in named_keys(2))
NUMBERS = {"TrustStake.delegation_min": 10 * OGPU}
Step = Callable[[Bound], None]


@dataclass(frozen=True)
class Case:
    """The steps before, one block each, then the signer, the call, the error, and words of its message."""

    error: type[DispatchError]
    call: Call
    words: tuple[str, ...]
    before: tuple[Step, ...] = ()
    signer: bytes = ME


def does(call: Call, who: bytes = ME) -> Step:
    return signed(who, call)


def slashed(ppm: int = 500_000) -> Step:
    def step(bound: Bound) -> None:
        held_slashes.hold_back(bound[TrustStake], FIRST, 0, SlashStep(0, ppm), HER)

    return step


def tombstoned(bound: Bound) -> None:
    bound[TrustStake].tombstone(FIRST)


def raised(bound: Bound) -> None:
    bound.parameters.change(TrustStake.delegation_min, 30 * OGPU)


def crowded(bound: Bound) -> None:
    bound[TrustStake].candidate_count.set(CANDIDATES_MAX)


def greedy(bound: Bound) -> None:
    stake = bound[TrustStake]
    candidate = stake.candidates[HER]
    assert candidate is not None
    stake.candidates[HER] = replace(candidate, commission_ppm=995_000)


def chunks(bound: Bound) -> None:
    stake = bound[TrustStake]
    stake.set_unlocking(ME, tuple(Unlocking(SECOND, 1, 7 + place) for place in range(UNLOCKING_MAX)))


def chunks_of_a_seat_that_stays(bound: Bound) -> None:
    stake = bound[TrustStake]
    answers = (Liability(SECOND, 9, ()),)
    stake.set_unlocking(ME, tuple(Unlocking(SECOND, 1, 7 + place, answers) for place in range(UNLOCKING_MAX)))


def full_of_moves(bound: Bound) -> None:
    stake = bound[TrustStake]
    position = stake.delegations[ME, SECOND]
    assert position is not None
    (move,) = position.moved
    moved = tuple(replace(move, shares=1, answer=replace(move.answer, era=10 + era)) for era in range(MOVED_MAX))
    stake.delegations[ME, SECOND] = replace(position, moved=moved)


DELEGATE = does(TrustStake.delegate(FIRST, 13 * OGPU))
BONDED = does(TrustStake.bond(20 * OGPU))
OFFERED = (does(TrustStake.bond(20 * OGPU), HER), does(validates(NEW), HER))
MOVED = (DELEGATE, does(TrustStake.redelegate(FIRST, SECOND, 13 * OGPU)))
NAMES = {"first": account_text(FIRST), "second": account_text(SECOND), "her": account_text(HER)}


SMALL = SessionKeys(NEW.public("session"), bytes(32))
SAME: dict[str, Any] = {"keys": NEW.node_keys(vrf="session"), "proof": NEW.proof(GENESIS_HASH, vrf="session")}


def offer(who: Keys = NEW, commission: int = 50_000, **changed: Any) -> Call:
    named = {"keys": who.node_keys(), "proof": who.proof(GENESIS_HASH), "provider_key": who.provider}
    return TrustStake.validate(**{**named, **changed}, commission_ppm=commission)


CASES = {
    "bond twice": Case(ev.AlreadyBonded, TrustStake.bond(OGPU), ("20 oGPU are bonded", "`stake` adds"), (BONDED,)),
    "more of nothing": Case(ev.NotBonded, TrustStake.bond_extra(OGPU), ("bond of 0", "at least 10 oGPU")),
    "bond too little": Case(
        ev.BondTooSmall, TrustStake.bond(4 * OGPU), ("would be 4 oGPU", "least is 10 oGPU", "bond 6 oGPU more")
    ),
    "delegate too little": Case(
        ev.BondTooSmall,
        TrustStake.delegate(FIRST, 3 * OGPU),
        ("behind {first} would be 3 oGPU", "least is 10 oGPU (delegation_min)", "add 7 oGPU"),
    ),
    "delegate too little more": Case(
        ev.BondTooSmall,
        TrustStake.delegate(FIRST, 5 * OGPU),
        ("behind {first} would be 18 oGPU", "least is 30 oGPU", "add 12 oGPU"),
        (DELEGATE, raised),
    ),
    "leave too little": Case(
        ev.BondTooSmall,
        TrustStake.undelegate(FIRST, 10 * OGPU),
        ("behind {first} would be 3 oGPU", "least is 10 oGPU", "take 3 oGPU at most, or all 13 oGPU"),
        (DELEGATE,),
    ),
    "move too little": Case(
        ev.BondTooSmall,
        TrustStake.redelegate(FIRST, SECOND, 3 * OGPU),
        ("behind {second} would be 3 oGPU", "add 7 oGPU"),
        (DELEGATE,),
    ),
    "move and leave too little": Case(
        ev.BondTooSmall,
        TrustStake.redelegate(FIRST, SECOND, 12 * OGPU),
        ("behind {first} would be 1 oGPU", "take 3 oGPU at most"),
        (DELEGATE,),
    ),
    "behind nobody": Case(ev.NotCandidate, TrustStake.delegate(HER, 50 * OGPU), ("{her} does not offer", "2 that do")),
    "behind oneself": Case(ev.NotCandidate, TrustStake.delegate(ME, 50 * OGPU), ("20 oGPU now", "`stake`"), (BONDED,)),
    "chill without an offer": Case(ev.NotCandidate, TrustStake.chill(), ("2 do", "`validate`")),
    "a candidate takes too much": Case(
        ev.StillCandidate,
        TrustStake.unbond(15 * OGPU),
        ("would be 5 oGPU", "keeps 10 oGPU", "at most 10 oGPU"),
        OFFERED,
        HER,
    ),
    "no place": Case(ev.TooManyCandidates, offer(), ("4,096 offer",), (OFFERED[0], crowded), HER),
    "too many parts": Case(
        ev.TooManyChunks,
        TrustStake.undelegate(FIRST, 13 * OGPU),
        ("32 parts", "from epoch 7 on", "epoch 0 now"),
        (DELEGATE, chunks),
    ),
    "too many parts that answer for long": Case(
        ev.TooManyChunks,
        TrustStake.undelegate(FIRST, 13 * OGPU),
        ("from epoch 14 on",),
        (DELEGATE, chunks_of_a_seat_that_stays),
    ),
    "take more than there is": Case(
        ev.NotEnoughStake,
        TrustStake.undelegate(FIRST, 20 * OGPU),
        ("13 oGPU behind {first}", "20 oGPU are 7 oGPU more", "take 13 oGPU at most, or `all`"),
        (DELEGATE,),
    ),
    "take where nothing is": Case(
        ev.NotEnoughStake, TrustStake.undelegate(FIRST, 5 * OGPU), ("0 oGPU behind {first}: `stakes` shows",)
    ),
    "take nothing": Case(
        ev.NotEnoughStake, TrustStake.undelegate(FIRST, 0), ("0 is no amount", "13 oGPU behind {first}"), (DELEGATE,)
    ),
    "unbond more than there is": Case(
        ev.NotEnoughStake, TrustStake.unbond(21 * OGPU), ("20 oGPU in your bond", "1 oGPU more"), (BONDED,)
    ),
    "withdraw nothing": Case(ev.NothingToWithdraw, TrustStake.withdraw_unbonded(), ("0 oGPU of yours are",)),
    "withdraw too early": Case(
        ev.NothingToWithdraw,
        TrustStake.withdraw_unbonded(),
        ("of 13 oGPU", "13 oGPU are from epoch 6 on", "epoch 0 now"),
        (DELEGATE, does(TrustStake.undelegate(FIRST, 13 * OGPU))),
    ),
    "withdraw what a slash keeps": Case(
        ev.NothingToWithdraw,
        TrustStake.withdraw_unbonded(),
        ("of 13 oGPU", "1 slash of {first}", "in era 7, it is era 6 now"),
        (DELEGATE, does(TrustStake.undelegate(FIRST, 13 * OGPU)), *[lambda _: None] * 17, slashed()),
    ),
    "withdraw what others may raise a slash of": Case(
        ev.NothingToWithdraw,
        TrustStake.withdraw_unbonded(),
        ("of 6.5 oGPU", "6.5 oGPU are from epoch 9 on", "may raise", "epoch 6 now"),
        (
            DELEGATE,
            does(TrustStake.undelegate(FIRST, 13 * OGPU)),
            slashed(),
            tombstoned,
            *[lambda _: None] * 15,
        ),
    ),
    "a key of small order": Case(
        ev.UnsafeKey, offer(keys=SMALL), ("vrf_key", "32 bytes"), (OFFERED[0],), HER
    ),
    "keys of which nobody has proved anything": Case(
        ev.InvalidKeysProof, offer(proof=NEW.proof(bytes(32))), ("the 2 keys", "{her}", "key prove"), (OFFERED[0],), HER
    ),
    "other keys without an offer": Case(
        NoAssociatedValidator, Session.set_keys(NEW.node_keys(), NEW.proof(GENESIS_HASH)), ("2 do", "`validate`")
    ),
    "a key of another": Case(
        ev.KeyTaken,
        offer(provider_key=named_keys(1)[0].provider),
        ("provider_key belongs to {first}", "3 keys"),
        (OFFERED[0],),
        HER,
    ),
    "one key for two": Case(
        ev.KeyTaken, offer(**SAME), ("two of the 3 keys",), (OFFERED[0],), HER
    ),
    "more than everything": Case(
        ev.CommissionTooHigh, TrustStake.announce_commission(1_010_000), ("101 % is more than 100 %",), OFFERED, HER
    ),
    "below the floor": Case(
        ev.CommissionTooLow, TrustStake.announce_commission(45_000), ("4.5 %", "least, 5 %"), OFFERED, HER
    ),
    "another commission by an offer": Case(
        ev.CommissionFixed, offer(commission=60_000), ("is 5 %", "make it 6 %", "`commission`"), OFFERED, HER
    ),
    "too far at once": Case(
        ev.CommissionStep,
        TrustStake.announce_commission(70_000),
        ("is 5 % now", "by 1 % at most", "from 5 % to 6 %"),
        OFFERED,
        HER,
    ),
    "too far below everything": Case(
        ev.CommissionStep, TrustStake.announce_commission(950_000), ("from 98.5 % to 100 %",), (*OFFERED, greedy), HER
    ),
    "a stranger to jail": Case(ev.NotJailed, TrustStake.unjail(), ("offer nothing", "era 0", "`validate`"), (), HER),
    "not in jail": Case(ev.NotJailed, TrustStake.unjail(), ("not in jail", "era 0"), (), FIRST),
    "behind an offender": Case(
        ev.IsTombstoned, TrustStake.delegate(FIRST, 50 * OGPU), ("era 0", "{first}", "choose another"), (tombstoned,)
    ),
    "an offender offers": Case(ev.IsTombstoned, validates(named_keys(1)[0]), ("era 0", "Root"), (tombstoned,), FIRST),
    "claim at once": Case(
        ev.NothingToClaim,
        TrustStake.claim(FIRST),
        ("earned 0 with {first}", "13 oGPU behind it", "next in epoch 1", "epoch 0 now"),
        (DELEGATE,),
    ),
    "a spent pool": Case(
        ev.PoolSpent,
        TrustStake.delegate(FIRST, 50 * OGPU),
        ("of 13 oGPU behind {first}", "left 0 oGPU"),
        (DELEGATE, slashed(1_000_000), *[lambda _: None] * 3),
    ),
    "while a slash waits": Case(
        ev.SlashPending,
        TrustStake.undelegate(FIRST, 13 * OGPU),
        ("1 slash of {first}", "in era 1, it is era 0 now"),
        (DELEGATE, slashed()),
    ),
    "two slashes": Case(
        ev.SlashPending, TrustStake.unbond(1), ("2 slashes of {first}",), (slashed(), slashed()), FIRST
    ),
    "slashes of two eras": Case(
        ev.SlashPending,
        TrustStake.unbond(1),
        ("2 slashes of {first}", "in era 1, it is era 1 now"),
        (slashed(), slashed(), lambda _: None, slashed()),
        FIRST,
    ),
    "move on too early": Case(
        ev.StillAnswering,
        TrustStake.redelegate(SECOND, FIRST, 13 * OGPU),
        ("of your 13 oGPU behind {second} 0 oGPU may move", "from epoch 4 on", "epoch 0 now"),
        MOVED,
    ),
    "move on while a slash of the validator before waits": Case(
        ev.StillAnswering,
        TrustStake.redelegate(SECOND, HER, 13 * OGPU),
        ("of your 13 oGPU behind {second} 0 oGPU may move", "from epoch 8 on", "epoch 5 now"),
        (*MOVED, *OFFERED, *[lambda _: None] * 10, tombstoned, slashed(50_000)),
    ),
    "move on while accomplices may be found": Case(
        ev.StillAnswering,
        TrustStake.redelegate(SECOND, HER, 1_235_000_000),
        ("of your 12.35 oGPU behind {second} 0 oGPU may move", "from epoch 8 on", "epoch 5 now"),
        (*MOVED, *OFFERED, slashed(50_000), tombstoned, *[lambda _: None] * 10, does(TrustStake.collect(ME, SECOND))),
    ),
    "too many moves": Case(
        ev.TooManyMoves,
        TrustStake.redelegate(FIRST, SECOND, 13 * OGPU),
        ("behind {second} came there in 8 moves", "and 8 may"),
        (*MOVED, full_of_moves, DELEGATE),
    ),
    "to where it is": Case(
        ev.SameValidator, TrustStake.redelegate(FIRST, FIRST, OGPU), ("your 13 oGPU are behind {first}",), (DELEGATE,)
    ),
    "no profile": Case(
        ev.NoProfile, TrustStake.set_profile(b"", b""), ("deposit of 0", "would hold 0.1 oGPU"), OFFERED, HER
    ),
    "no tombstone": Case(ev.NotTombstoned, TrustStake.lift_tombstone(FIRST), ("{first} has 0 tombstones",), (), b""),
}  # fmt: skip


def tried(case: Case) -> tuple[Bound, DispatchError]:
    chain = MarketChain(named_keys(2), [SAVER, NEW], NUMBERS, epoch_blocks=3, pallets=STAKING, check=lambda *_: None)
    for step in case.before:
        chain.block(step)
    bound = chain.now()
    with pytest.raises(case.error) as raised, bound.overlay.transaction():
        bound.dispatch(case.call, Signed(case.signer) if case.signer else Root())
    return bound, raised.value


@pytest.mark.parametrize("name", CASES)
def test_a_refusal_names_its_number(name: str) -> None:
    case = CASES[name]
    bound, error = tried(case)
    before = dict(bound.overlay.changes())
    said = sentence_of(bound, case.call, case.signer, error)
    assert said is not None
    for word in case.words:
        assert word.format(**NAMES) in said, said
    assert any(letter.isdigit() for letter in said)
    assert dict(bound.overlay.changes()) == before, "who explains changes nothing"


def test_every_error_has_a_sentence_and_a_case() -> None:
    errors = {*TrustStake.errors, *Session.errors}
    assert set(SENTENCES) == errors
    assert {case.error for case in CASES.values()} == errors


def test_of_a_batch_the_call_that_is_refused_is_explained_after_those_before_it() -> None:
    case = CASES["leave too little"]
    calls = (TrustStake.delegate(FIRST, 5 * OGPU), TrustStake.undelegate(FIRST, 10 * OGPU))
    bound, error = tried(replace(case, call=Utility.batch_all(calls=calls)))
    said = sentence_of(bound, Utility.batch_all(calls=calls), ME, error)
    assert said is not None
    assert "would be 8 oGPU" in said
    assert bound[TrustStake].pools[FIRST].stake.value == 13 * OGPU


def test_an_error_of_another_pallet_has_none() -> None:
    bound, _ = tried(CASES["bond too little"])
    assert sentence_of(bound, TrustStake.chill(), ME, DispatchError()) is None


@pytest.mark.parametrize(("ppm", "text"), [(0, "0 %"), (50_000, "5 %"), (52_500, "5.25 %"), (1, "0.0001 %")])
def test_parts(ppm: int, text: str) -> None:
    assert percent_text(ppm) == text


def test_plurals() -> None:
    assert (them(1, "slash"), them(2, "slash"), them(0, "day")) == ("1 slash", "2 slashes", "0 days")
