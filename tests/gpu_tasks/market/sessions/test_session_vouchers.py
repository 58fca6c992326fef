"""Bad vouchers and wrong signers: each has its error, and nothing changes."""

from dataclasses import replace
from typing import Any

import pytest

from gpu_tasks.batches.requests import REQUESTS_MAX, TOKEN
from gpu_tasks.market.claims.claims import ResultClaim
from gpu_tasks.market.claims.result_claims import ResultClaims
from gpu_tasks.market.sessions import events as ev
from gpu_tasks.market.sessions import money
from gpu_tasks.market.sessions.records import CLAIMS_OPEN_MAX, SessionRecord
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.sessions.vouchers import Voucher, session_claim_id, voucher_payload
from runtime.blocks.extrinsic import MultiSignature
from runtime.cryptography import signatures
from runtime.cryptography.signatures import SMALL_ORDER_KEYS, Scheme
from session_chain import (
    ALWAYS,
    PACE,
    RATE,
    SIGNER,
    SessionChain,
    claims,
    offers,
    opening,
    session_chain,
    signature_of,
    totals,
)
from simulation.chains.market_chain import CUSTOMER, OGPU, Keys, refused, signed

STRANGER = Keys("stranger")
OTHER = b"o" * 32
GOOD = totals()
TOKENS_MAX = money.RUN_BLOCKS_MAX * PACE
"""The most output tokens of a claim, by the run of the slowest device."""

BAD: dict[str, tuple[dict[str, Any], Any]] = {
    "another session": ({"session": OTHER}, ev.WrongVoucher),
    "an old period": ({"period": 0}, ev.WrongVoucher),
    "a later period": ({"period": 2}, ev.WrongVoucher),
    "no request": ({"totals": totals(64, requests=0)}, ev.EmptyVoucher),
    "no token": ({"totals": totals(0)}, ev.EmptyVoucher),
    "nothing": ({"totals": totals(0, requests=0)}, ev.EmptyVoucher),
    "too many requests": ({"totals": totals(64, requests=REQUESTS_MAX + 1)}, ev.VoucherTooLarge),
    "most requests": ({"totals": totals(64, requests=2**32 - 1)}, ev.VoucherTooLarge),
    "too long a run": ({"totals": totals(TOKENS_MAX + 1)}, ev.VoucherTooLarge),
    "an overflow of tokens": ({"totals": totals(2**64 - 1, tokens_in=2**64 - 1)}, ev.VoucherTooLarge),
    "over the deposit": ({"totals": totals(2_000)}, ev.VoucherUnfunded),
}


@pytest.fixture
def chain() -> SessionChain:
    return session_chain()


def opened(chain: SessionChain, **changed: Any) -> bytes:
    """Return a session whose period 1 is the present one."""
    session_id = chain.seated(deposit=RATE, **changed)
    chain.block(chain.claim(session_id))
    return session_id


def presented(session_id: bytes, voucher: Voucher, signature: MultiSignature | None = None, **changed: Any) -> Any:
    return Sessions.claim(
        session=session_id, voucher=voucher, signature=signature or signature_of(voucher), is_last=False, **changed
    )


@pytest.mark.parametrize("name", BAD)
def test_a_bad_voucher_is_refused(chain: SessionChain, name: str) -> None:
    session_id = opened(chain)
    changed, error = BAD[name]
    voucher = replace(Voucher(session_id, 1, GOOD), **changed)
    before = chain.session(session_id)
    chain.block(refused(chain.leg(session_id).owner, presented(session_id, voucher), error))
    assert chain.session(session_id).period == before.period
    chain.block(chain.claim(session_id))


def test_the_deposit_covers_the_checks_too() -> None:
    chain = session_chain(5)
    session_id = chain.seated(deposit=4 * RATE)
    owner = chain.leg(session_id).owner
    chain.block(refused(owner, claims(session_id, 0, 2_000), ev.VoucherUnfunded), signed(owner, claims(session_id, 0)))


def test_a_voucher_counts_once_and_a_greater_one_of_its_period_no_more(chain: SessionChain) -> None:
    session_id = chain.seated()
    owner = chain.leg(session_id).owner
    chain.block(
        signed(owner, claims(session_id, 0, 64)),
        refused(owner, claims(session_id, 0, 64), ev.WrongVoucher),
        refused(owner, claims(session_id, 0, 128), ev.WrongVoucher),
    )


@pytest.mark.parametrize(
    "signed_by",
    ["the customer's account", "the provider", "another chain", "other bytes", "another scheme", "no signature"],
)
def test_only_the_signer_signs(chain: SessionChain, signed_by: str) -> None:
    session_id = chain.seated()
    voucher, provider = Voucher(session_id, 0, GOOD), chain.provider(session_id)
    payload = voucher_payload(b"\0" * 32, voucher)
    right = signature_of(voucher)
    forged = {
        "the customer's account": MultiSignature(Scheme.ED25519, CUSTOMER.sign("stash", payload)),
        "the provider": signature_of(voucher, provider),
        "another chain": signature_of(voucher, genesis=b"\0" * 32),
        "other bytes": signature_of(replace(voucher, totals=totals(63))),
        "another scheme": MultiSignature(Scheme.SR25519, right.signature),
        "no signature": MultiSignature(Scheme.ED25519, bytes(64)),
    }[signed_by]
    chain.block(refused(provider.stash, presented(session_id, voucher, forged), ev.BadVoucherSignature))
    chain.block(signed(provider.stash, presented(session_id, voucher)))


def test_an_sr25519_account_signs_too(chain: SessionChain) -> None:
    public, secret = signatures.keypair_from_seed(Scheme.SR25519, b"s" * 32)
    session_id = chain.seated(signer=public)
    voucher = Voucher(session_id, 0, GOOD)
    payload = voucher_payload(chain.now()[Sessions].system.block_hash[0], voucher)
    signature = MultiSignature(Scheme.SR25519, signatures.sign(Scheme.SR25519, public, secret, payload))
    chain.block(signed(chain.leg(session_id).owner, presented(session_id, voucher, signature)))


def test_nobody_signs_for_an_account_of_small_order(chain: SessionChain) -> None:
    session_id = chain.seated(signer=min(SMALL_ORDER_KEYS))
    forged = MultiSignature(Scheme.ED25519, bytes(64))
    call = presented(session_id, Voucher(session_id, 0, GOOD), forged)
    chain.block(refused(chain.leg(session_id).owner, call, ev.BadVoucherSignature))


def test_a_voucher_after_the_end_is_refused(chain: SessionChain) -> None:
    session_id = chain.seated()
    owner = chain.leg(session_id).owner
    chain.block(signed(SIGNER, Sessions.close(session=session_id)))
    chain.blocks(Sessions.session_settle_blocks.default)
    chain.block(refused(owner, claims(session_id, 0), ev.UnknownSession))


def test_windows_follow_the_clock_where_the_hook_is_late(chain: SessionChain, monkeypatch: pytest.MonkeyPatch) -> None:
    session_id = chain.seated(term=20)
    owner, expires_at = chain.leg(session_id).owner, chain.session(session_id).expires_at
    with monkeypatch.context() as late:
        late.setattr(Sessions, "on_initialize", lambda _: None)
        chain.blocks_to(expires_at)
        chain.block(
            refused(CUSTOMER.stash, Sessions.close(session=session_id), ev.SessionNotOpen),
            refused(CUSTOMER.stash, Sessions.hand_over(session=session_id), ev.SessionNotOpen),
            chain.claim(session_id),
        )
        chain.blocks_to(expires_at + Sessions.session_settle_blocks.default)
        chain.block(refused(owner, claims(session_id, 1), ev.ClaimsOver))
    chain.play_out(session_id)


def test_a_leg_has_a_bounded_number_of_open_claims() -> None:
    """A claim is free, and the hook works for it."""
    chain = session_chain(5)
    session_id = chain.seated(deposit=20 * OGPU)
    chain.block(*(signed(chain.leg(session_id).owner, claims(session_id, each, 1)) for each in range(CLAIMS_OPEN_MAX)))
    call = claims(session_id, CLAIMS_OPEN_MAX, 1)
    chain.block(refused(chain.leg(session_id).owner, call, ev.TooManyUnchecked))


def test_every_wrong_signer_is_refused(chain: SessionChain) -> None:
    session_id = chain.seated()
    session = chain.session(session_id)
    assert session.spare is not None
    spare, provider = session.spare.owner, chain.provider(session_id)
    close, hand_over = Sessions.close(session=session_id), Sessions.hand_over(session=session_id)
    chain.block(
        *(
            refused(who, claims(session_id, 0), ev.NotSessionParty)
            for who in (CUSTOMER.stash, SIGNER, spare, STRANGER.stash)
        ),
        *(refused(who, close, ev.NotSessionParty) for who in (spare, STRANGER.stash)),
        *(refused(who, hand_over, ev.NotSessionParty) for who in (provider.stash, spare, STRANGER.stash)),
    )
    unknown = (Sessions.close(session=OTHER), Sessions.hand_over(session=OTHER), claims(OTHER, 0))
    chain.block(*(refused(provider.stash, call, ev.UnknownSession) for call in unknown))


def test_a_waiting_session_is_claimed_and_handed_over_by_nobody() -> None:
    chain = session_chain(places=0)
    alice = chain.validators[0]
    session_id = chain.open()
    chain.block(
        refused(CUSTOMER.stash, Sessions.hand_over(session=session_id), ev.SessionNotOpen),
        refused(alice.stash, claims(session_id, 0), ev.NotSessionParty),
        signed(alice.stash, offers(alice, 1)),
        signed(CUSTOMER.stash, opening()),
    )


# -------------------------------------------------------------------------------------------------- terms of claims


def opened_claim(chain: SessionChain, session_id: bytes, period: int = 0) -> ResultClaim:
    return chain.now()[ResultClaims].open_claim(session_claim_id(session_id, period))


def test_the_terms_of_a_claim_let_checkers_weigh_its_items() -> None:
    chain = session_chain(7)
    session_id = chain.seated(deposit=20 * OGPU)
    session = chain.session(session_id)
    assert session.spare is not None
    chain.block(chain.claim(session_id, 600, requests=3, tokens_in=400))
    terms = opened_claim(chain, session_id).terms
    work = 400 * 250_000 + 600 * TOKEN
    floor = -(-(work // TOKEN) // 6)
    assert terms.items == 3
    assert terms.weight == terms.item_weight_max == work + 3 * floor * TOKEN
    assert terms.run_blocks == -(-work // (PACE * TOKEN))
    assert terms.rate_ppm == session.rules.check_rate_ppm == 333_333
    assert terms.price == RATE * 700 // 1_000
    assert terms.fees_held == money.fees_of(session.rules, terms.price)
    assert terms.collateral == chain.leg(session_id).engaged
    assert session.spare.owner in terms.excluded
    assert SIGNER in terms.excluded


def test_a_claim_of_the_most_requests_and_the_longest_run_opens() -> None:
    chain = session_chain(5, constants=ALWAYS, check=lambda *_: None)
    session_id = chain.seated(deposit=1_000 * OGPU)
    chain.block(lambda bound: _unbounded(bound[Sessions], session_id))
    call = claims(session_id, 0, TOKENS_MAX, requests=REQUESTS_MAX)
    chain.block(signed(chain.leg(session_id).owner, call))
    assert opened_claim(chain, session_id).terms.run_blocks == money.RUN_BLOCKS_MAX


def _unbounded(room: Sessions, session_id: bytes) -> None:
    """Give a session and its leg more collateral than any device has."""
    session: SessionRecord = room.session(session_id)
    room.sessions[session_id] = replace(session, legs=(replace(session.legs[0], collateral=10**15),))
