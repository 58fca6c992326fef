"""The spare of a session: its proof and its pay, wrong signers and blocks, and a provider that leaves."""

from functools import partial
from typing import Any

import pytest

from gpu_tasks.batches.sum_tree import batch_root
from gpu_tasks.market.claims.claim_events import ClaimEnded
from gpu_tasks.market.claims.claims import ClaimOutcome, ClaimStage
from gpu_tasks.market.claims.findings import Verdict
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.devices.records import COLLATERAL
from gpu_tasks.market.sessions import events as ev
from gpu_tasks.market.sessions import money, spares
from gpu_tasks.market.sessions.records import (
    SPARE_LEG,
    SPARE_PERIOD,
    Leg,
    SessionState,
    left_of,
    session_id_of,
    spare_of,
)
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.sessions.vouchers import amount_of, session_claim_id
from gpu_tasks.provider.sessions.session_duty import amount_max
from runtime.frame.holds import Hold
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.slashing import part
from session_chain import (
    ALWAYS,
    DEPOSIT,
    INPUT_SHARE,
    PACE,
    RATE,
    SIGNER,
    SessionChain,
    claims,
    opening,
    proves,
    secured,
    session_chain,
)
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH, OGPU, Keys, refused, signed

SPARE_RATE = RATE * PACE // 16_000
AMOUNT = amount_of(RATE, INPUT_SHARE, spares.proof_totals(bytes(32)))
FEE_PPM = 100_000
SETTLE = Sessions.session_settle_blocks.default
STRANGER = Keys("stranger")
OTHER = b"o" * 32


def spare_leg(chain: SessionChain, session_id: bytes) -> Leg:
    spare = chain.session(session_id).spare
    assert spare is not None
    return spare


def proven(chain: SessionChain, **changed: Any) -> tuple[bytes, Leg]:
    """Return a session whose spare has sent its proof, and the leg of the spare."""
    session_id = chain.seated(**changed)
    spare = spare_leg(chain, session_id)
    chain.block(signed(chain.keys_of(spare.owner).provider, proves(session_id)))
    return session_id, spare_leg(chain, session_id)


def until_proof_ends(chain: SessionChain, session_id: bytes) -> Leg:
    while spare_leg(chain, session_id).claims:
        chain.play()
    return spare_leg(chain, session_id)


def free(chain: SessionChain, who: bytes) -> int:
    return int(chain.now()[Balances].free_balance(who))


def net(amount: int) -> int:
    return amount - part(amount, FEE_PPM)


# -------------------------------------------------------------------------------------------------------------- proofs


def test_a_proof_is_a_claim_of_one_item_behind_the_pay_of_the_whole_term() -> None:
    chain = session_chain(7)
    session_id, spare = proven(chain, term=2_000)
    session, claim_id = chain.session(session_id), session_claim_id(session_id, SPARE_PERIOD)
    at_stake = SPARE_RATE * (session.expires_at - spare.since)
    terms = chain.now()[ResultClaims].open_claim(claim_id).terms
    assert (terms.provider, terms.items, terms.price) == (spare.owner, 1, AMOUNT)
    assert terms.root == batch_root(spares.proof_totals(b"t" * 32))
    assert terms.collateral == money.collateral_of(session.rules, at_stake) > at_stake
    assert secured(chain, chain.keys_of(spare.owner)) == terms.collateral == spare.collateral == spare.engaged
    assert chain.now()[Balances].held(spare.owner, Hold(COLLATERAL, claim_id)) == terms.collateral
    assert session.legs[0].owner in terms.excluded
    assert session.reserved == AMOUNT + money.fees_of(session.rules, AMOUNT)


def test_the_deposit_bounds_the_stake_of_a_proof() -> None:
    chain = session_chain()
    session_id, spare = proven(chain, term=21_600)
    assert SPARE_RATE * 21_600 > DEPOSIT
    assert spare.collateral == money.collateral_of(chain.session(session_id).rules, DEPOSIT)


def test_the_seed_follows_from_the_session_and_the_beacon() -> None:
    chain = session_chain()
    chain.block(*(signed(CUSTOMER.stash, opening()) for _ in range(2)))
    session_id, other = (session_id_of(GENESIS_HASH, CUSTOMER.stash, number) for number in range(2))
    while chain.session(other).state is SessionState.WAITING:
        chain.block()
    first, second = chain.session(session_id), chain.session(other)
    beacon = chain.now()[Beacon].value_at(first.recorded_at + 2)
    assert beacon is not None
    assert first.recorded_at == second.recorded_at
    assert first.spare_seed == spares.seed_of(session_id, beacon) != second.spare_seed


def test_a_proof_passes_and_the_spare_is_paid_by_the_block() -> None:
    chain = session_chain(7, constants=ALWAYS)
    before = free(chain, CUSTOMER.stash)
    session_id, spare = proven(chain)
    got = free(chain, spare.owner)
    spare = until_proof_ends(chain, session_id)
    assert (spare.collateral, spare.engaged, spare.claimed) == (0, 0, AMOUNT)
    assert secured(chain, chain.keys_of(spare.owner)) == 0, "the collateral stands behind the open proof alone"
    chain.blocks(40)
    provider = chain.provider(session_id).provider
    chain.block(
        signed(provider, Sessions.leave(session=session_id)), signed(CUSTOMER.stash, Sessions.close(session=session_id))
    )
    closed_at = chain.height
    chain.block()
    owed = SPARE_RATE * (closed_at - spare.since)
    assert owed > AMOUNT
    assert chain.happened(ev.PlacePaid)[1:] == [
        ev.PlacePaid(session_id, SPARE_LEG, spare.owner, spare.device, owed - AMOUNT)
    ]
    assert free(chain, spare.owner) - got >= net(AMOUNT) + net(owed - AMOUNT)
    assert spare.device not in chain.room.occupied or not chain.room.occupied[spare.device].sessions
    chain.play_out(session_id)
    paid = chain.happened(ev.SessionEnded)[-1].paid
    assert before - free(chain, CUSTOMER.stash) == paid >= owed


@pytest.mark.parametrize("ends", ["hand over", "close"])
def test_a_spare_takes_nothing_that_a_voucher_promised(ends: str) -> None:
    """The customer signs the whole rest away, and lets the spare leave. The provider claims after it."""
    chain = session_chain(4)
    session_id, spare = proven(chain, deposit=OGPU // 2, term=2_000)
    spare = until_proof_ends(chain, session_id)
    chain.blocks(100)
    session = chain.session(session_id)
    rest = amount_max(session, session.legs[0].collateral, left_of(session))
    claim = chain.claim(session_id, rest * 1_000 // RATE)
    call = (Sessions.hand_over if ends == "hand over" else Sessions.close)(session=session_id)
    chain.block(signed(CUSTOMER.stash, call))
    chain.blocks(2)
    assert SPARE_RATE * (spare_leg(chain, session_id).left_at - spare.since) > AMOUNT, "the spare has more to get"
    chain.block(claim)
    assert chain.session(session_id).legs[0].claims == 1
    chain.play_out(session_id, 3_000)
    assert chain.happened(ev.PlacePaid)[-1].leg == SPARE_LEG


def test_a_spare_without_a_proof_stands_by_unpaid() -> None:
    chain = session_chain()
    session_id = chain.seated()
    spare = spare_leg(chain, session_id)
    chain.blocks(spares.PROOF_BLOCKS + 1)
    chain.block(refused(chain.keys_of(spare.owner).provider, proves(session_id), ev.ClaimsOver))
    assert spare_of(chain.session(session_id)) is not None
    chain.play_out(session_id)
    assert [event.owner for event in chain.happened(ev.PlacePaid)] == [chain.happened(ev.SessionSeated)[0].owner]


def test_the_last_block_for_a_proof_counts() -> None:
    chain = session_chain()
    session_id = chain.seated()
    spare = spare_leg(chain, session_id)
    chain.blocks_to(spare.since + spares.PROOF_BLOCKS - 1)
    chain.block(signed(spare.owner, proves(session_id)))
    assert chain.height == spare.since + spares.PROOF_BLOCKS
    assert spare_leg(chain, session_id).claims == 1


def test_a_refuted_spare_is_out_and_loses_its_collateral() -> None:
    chain = session_chain(7, constants=ALWAYS)
    session_id, spare = proven(chain)
    chain.mute = frozenset((spare.owner,))
    bond = chain.device(chain.keys_of(spare.owner)).bond
    after = until_proof_ends(chain, session_id)
    assert (after.is_refuted, after.left_at, after.is_over) == (True, chain.height, True)
    device = chain.device(chain.keys_of(spare.owner))
    assert (device.is_paused, device.bond, device.secured) == (True, bond - spare.collateral, 0)
    assert not chain.room.occupied[spare.device].sessions
    assert left_of(chain.session(session_id)) == DEPOSIT
    chain.block(refused(SIGNER, Sessions.hand_over(session=session_id), ev.SpareUnable))
    assert spare_leg(chain, session_id).is_released
    assert chain.happened(ev.PlacePaid)[-1].amount == 0
    chain.block(signed(CUSTOMER.stash, Sessions.close(session=session_id)))
    chain.play_out(session_id)


@pytest.mark.parametrize("is_closed", [False, True])
def test_an_undecided_proof_earns_nothing(*, is_closed: bool) -> None:
    chain = session_chain(7, constants=ALWAYS, verdict=Verdict.WRONG)
    session_id, spare = proven(chain, term=2_000)
    claim_id = session_claim_id(session_id, SPARE_PERIOD)
    while chain.now()[ResultClaims].open_claim(claim_id).stage is not ClaimStage.DISPUTED:
        chain.play()
    if is_closed:
        chain.block(signed(CUSTOMER.stash, Sessions.close(session=session_id)))
    chain.decide_nothing(claim_id)
    assert [each.outcome for each in chain.happened(ClaimEnded)] == [ClaimOutcome.RETURNED]
    after = spare_leg(chain, session_id)
    assert (after.claimed, after.is_refuted, after.left_at > 0, after.is_over) == (0, False, is_closed, True)
    assert secured(chain, chain.keys_of(spare.owner)) == 0
    if not is_closed:
        chain.block(signed(CUSTOMER.stash, Sessions.close(session=session_id)))
        assert spare_leg(chain, session_id).is_released, "nothing is owed"
    chain.play_out(session_id)
    assert not [each for each in chain.happened(ev.PlacePaid) if each.owner == spare.owner and each.amount]


# ------------------------------------------------------------------------------------- proofs that outlive the standing


@pytest.mark.parametrize("ends", ["hand over", "close"])
@pytest.mark.parametrize("is_true", [True, False])
def test_an_open_proof_goes_on_after_a_hand_over_or_a_close(ends: str, *, is_true: bool) -> None:
    chain = session_chain(7, constants=ALWAYS)
    session_id, spare = proven(chain)
    chain.mute = frozenset() if is_true else frozenset((spare.owner,))
    call = (Sessions.hand_over if ends == "hand over" else Sessions.close)(session=session_id)
    chain.block(signed(CUSTOMER.stash, call))
    left_at = chain.height
    session = chain.session(session_id)
    assert spare_leg(chain, session_id).left_at == left_at
    if ends == "hand over":
        serving = session.legs[1]
        assert serving.owner == spare.owner
        assert secured(chain, chain.keys_of(spare.owner)) == serving.collateral + spare.collateral
        assert chain.room.occupied[spare.device].sessions == 1
    else:
        assert not chain.room.occupied[spare.device].sessions
    after = until_proof_ends(chain, session_id)
    assert (after.left_at, after.is_refuted, after.claimed) == (left_at, not is_true, AMOUNT)
    chain.block()
    assert spare_leg(chain, session_id).is_released is not is_true, "a spare with pay waits for the providers"
    owed = max(0, SPARE_RATE * (left_at - spare.since) - AMOUNT) if is_true else 0
    assert chain.device(chain.keys_of(spare.owner)).is_paused is not is_true
    if ends == "hand over":
        assert secured(chain, chain.keys_of(spare.owner)) == session.legs[1].collateral
        chain.block(signed(CUSTOMER.stash, Sessions.close(session=session_id)))
    chain.play_out(session_id)
    paid = chain.happened(ev.PlacePaid)
    assert len(paid) == 2 + (ends == "hand over")
    assert paid[-1 if is_true else 0] == ev.PlacePaid(session_id, SPARE_LEG, spare.owner, spare.device, owed)


def test_a_session_waits_for_the_open_proof_of_its_spare() -> None:
    chain = session_chain(7, constants=ALWAYS)
    session_id, _ = proven(chain)
    chain.block(
        signed(chain.provider(session_id).provider, Sessions.leave(session=session_id)),
        signed(CUSTOMER.stash, Sessions.close(session=session_id)),
    )
    chain.block()
    assert chain.session(session_id).legs[0].is_released
    assert not chain.is_over(session_id)
    chain.play_out(session_id, 60)


def test_a_spent_deposit_bounds_the_pay_of_the_spare() -> None:
    chain = session_chain()
    session_id, spare = proven(chain, deposit=RATE)
    while chain.session(session_id).reserved:
        chain.block()
    left = left_of(chain.session(session_id))
    chain.block(chain.claim(session_id, 1_000 * left // RATE))
    chain.blocks(60)
    chain.block(signed(CUSTOMER.stash, Sessions.close(session=session_id)))
    chain.play_out(session_id)
    assert chain.happened(ev.SessionEnded)[-1].paid <= RATE
    assert [each.amount for each in chain.happened(ev.PlacePaid) if each.owner == spare.owner] == [0]


# ------------------------------------------------------------------------------------------------------------- refusals


def test_every_wrong_signer_of_a_proof_is_refused() -> None:
    chain = session_chain()
    session_id = chain.seated()
    spare, provider = spare_leg(chain, session_id), chain.provider(session_id)
    wrong = (CUSTOMER.stash, SIGNER, STRANGER.stash, provider.stash, provider.provider)
    chain.block(
        *(refused(who, proves(session_id), ev.NotSessionParty) for who in wrong),
        refused(spare.owner, proves(OTHER), ev.UnknownSession),
        signed(spare.owner, proves(session_id)),
        refused(spare.owner, proves(session_id), ev.ClaimsOver),
    )


def test_a_proof_for_another_session_is_refused() -> None:
    """The spare of one session is the provider of the other, or has no part in it."""
    chain = session_chain(4)
    others = [chain.open() for _ in range(3)]
    while chain.session(others[-1]).state is SessionState.WAITING:
        chain.block()
    session_id = others[0]
    spare = spare_leg(chain, session_id)
    other = next(each for each in others if spare_leg(chain, each).owner != spare.owner)
    chain.block(refused(spare.owner, proves(other), ev.NotSessionParty), signed(spare.owner, proves(session_id)))


def test_only_an_open_session_takes_a_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = session_chain()
    waiting = chain.open()
    chain.block(refused(chain.validators[0].stash, proves(waiting), ev.SessionNotOpen))
    closing, handed = chain.seated(), chain.seated()
    owner, handed_to = spare_leg(chain, closing).owner, spare_leg(chain, handed).owner
    chain.block(
        signed(CUSTOMER.stash, Sessions.close(session=closing)),
        refused(owner, proves(closing), ev.SessionNotOpen),
        signed(CUSTOMER.stash, Sessions.hand_over(session=handed)),
        refused(handed_to, proves(handed), ev.NotSessionParty),
    )
    chain = session_chain()
    session_id = chain.seated(term=20)
    spare = spare_leg(chain, session_id)
    monkeypatch.setattr(spares, "PROOF_BLOCKS", 100)
    with monkeypatch.context() as late:
        late.setattr(Sessions, "on_initialize", lambda _: None)
        chain.blocks_to(chain.session(session_id).expires_at)
        chain.block(refused(spare.owner, proves(session_id), ev.SessionNotOpen))


def test_a_session_without_a_spare_takes_no_proof() -> None:
    chain = session_chain(1)
    session_id = chain.seated()
    chain.block(refused(chain.leg(session_id).owner, proves(session_id), ev.NotSessionParty))


def test_a_proof_needs_the_deposit_for_its_checks() -> None:
    chain = session_chain(5)
    session_id = chain.seated()
    needed = AMOUNT + money.fees_of(chain.session(session_id).rules, AMOUNT)
    session_id = chain.seated(deposit=needed - 1)
    owner = spare_leg(chain, session_id).owner
    chain.block(refused(owner, proves(session_id), ev.VoucherUnfunded))
    session_id = chain.seated(deposit=needed)
    chain.block(signed(spare_leg(chain, session_id).owner, proves(session_id)))


def _secure_all(keys: Keys, left: int, bound: Bound) -> None:
    record = bound[Devices].devices[keys.device]
    assert record is not None
    bound[Devices].secure(keys.device, b"o" * 32, record.bond - record.secured - left)


@pytest.mark.parametrize("reason", ["paused", "no free bond"])
def test_an_unable_spare_proves_nothing(reason: str) -> None:
    chain = session_chain(check=(lambda *_: None) if reason == "no free bond" else None)
    session_id = chain.seated()
    session, spare = chain.session(session_id), spare_leg(chain, session_id)
    keys = chain.keys_of(spare.owner)
    needed = money.collateral_of(session.rules, spares.spare_exposure(session, spare, AMOUNT))
    if reason == "paused":
        chain.block(signed(keys.stash, Devices.pause(device=keys.device)))
    else:
        chain.block(partial(_secure_all, keys, needed - 1))
    chain.block(refused(spare.owner, proves(session_id), ev.SpareUnable))


# -------------------------------------------------------------------------------------------------------------- leaving


def test_a_provider_that_leaves_is_paid_and_free_at_once() -> None:
    chain = session_chain()
    session_id = chain.seated()
    leg = chain.leg(session_id)
    chain.blocks(20)
    leave = Sessions.leave(session=session_id)
    chain.block(
        *(refused(who, leave, ev.NotSessionParty) for who in (CUSTOMER.stash, SIGNER, STRANGER.stash)),
        refused(spare_leg(chain, session_id).owner, leave, ev.NotSessionParty),
        refused(leg.owner, Sessions.leave(session=OTHER), ev.UnknownSession),
        signed(chain.provider(session_id).provider, leave),
        refused(leg.owner, leave, ev.ClaimsOver),
        refused(leg.owner, claims(session_id, 0), ev.ClaimsOver),
    )
    left_at = chain.height
    chain.block()
    paid = ev.PlacePaid(session_id, 0, leg.owner, leg.device, RATE * PACE // 4_000 * (left_at - leg.since))
    assert chain.happened(ev.PlacePaid) == [paid]
    assert secured(chain, chain.keys_of(leg.owner)) == 0
    chain.block(signed(CUSTOMER.stash, Sessions.hand_over(session=session_id)))
    chain.block(chain.claim(session_id))
    chain.block(signed(CUSTOMER.stash, Sessions.close(session=session_id)))
    chain.block(signed(chain.leg(session_id).owner, leave))
    chain.play_out(session_id, 10)


def test_a_provider_that_leaves_waits_for_its_open_claims() -> None:
    chain = session_chain(7, constants=ALWAYS)
    session_id = chain.seated()
    leg = chain.leg(session_id)
    chain.block(chain.claim(session_id), signed(leg.owner, Sessions.leave(session=session_id)))
    chain.block()
    assert not chain.leg(session_id).is_released
    while chain.leg(session_id).claims:
        chain.play()
    chain.block()
    assert chain.leg(session_id).is_released
    assert chain.session(session_id).state is SessionState.OPEN


def test_a_former_provider_leaves_too_and_nobody_after_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = session_chain()
    session_id = chain.seated(term=2_000)
    former = chain.leg(session_id)
    chain.block(signed(CUSTOMER.stash, Sessions.hand_over(session=session_id)))
    chain.block(signed(former.owner, Sessions.leave(session=session_id)))
    chain.block()
    assert chain.session(session_id).legs[0].is_released
    chain.block(signed(CUSTOMER.stash, Sessions.close(session=session_id)))
    with monkeypatch.context() as late:
        late.setattr(Sessions, "on_initialize", lambda _: None)
        chain.blocks(SETTLE)
        chain.block(refused(chain.leg(session_id).owner, Sessions.leave(session=session_id), ev.ClaimsOver))
    chain.play_out(session_id)


def test_a_waiting_session_is_left_by_nobody() -> None:
    chain = session_chain()
    session_id = chain.open()
    chain.block(refused(chain.validators[0].stash, Sessions.leave(session=session_id), ev.NotSessionParty))


def test_the_collateral_exceeds_what_a_guess_earns() -> None:
    """The game of claims convicts a false claim with a chance of at least q, where K = 6/5 M (1 - q) / q."""
    chain = session_chain(7)
    session_id, spare = proven(chain, deposit=20 * OGPU, term=2_000)
    at_stake = SPARE_RATE * (chain.session(session_id).expires_at - spare.since)
    ratio = spare.collateral / at_stake
    q = 1.2 / (ratio + 1.2)
    assert q * ratio > (1 - q) * 1.19
