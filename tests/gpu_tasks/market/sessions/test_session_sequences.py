"""Sequences of calls, right and wrong: after each block all grains have an owner, and every session ends by itself.

The books of the chain compare every hold, place, claim and schedule after each step (`simulation/pallets/sessions.py`).
"""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.claims.findings import Verdict
from gpu_tasks.market.devices.records import COLLATERAL
from gpu_tasks.market.sessions.events import PeriodClaimed, PlacePaid, SessionHandedOver, SessionSeated
from gpu_tasks.market.sessions.records import SESSION_DEPOSIT, SESSION_MONEY, SPARE_PERIOD, all_legs
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.sessions.vouchers import Voucher
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from session_chain import RATE, SIGNER, Step, claims, offers, opening, proves, session_chain, signature_of
from simulation.chains.market_chain import CUSTOMER, OGPU, Keys, signed, tolerant

DONE = 700
"""Blocks after which each session of these tests is over: its term, its window, and its checks."""
ACTIONS = (
    "open", "claim", "last", "prove", "leave", "close", "hand over", "places", "forged", "blocks", "many blocks",
)  # fmt: skip
SEQUENCES = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.integers(0, 3), st.sampled_from((1, 64, 900, 20_000))),
    min_size=4,
    max_size=24,
)


@given(SEQUENCES, st.sampled_from((3, 6)), st.sampled_from((None, 0, 1)), st.sampled_from((RATE // 8, OGPU, 9 * OGPU)))
@settings(max_examples=25)
def test_any_sequence_conserves_every_grain_and_ends(
    sequence: list[tuple[str, int, int]], size: int, mute: int | None, deposit: int
) -> None:
    chain = session_chain(size, places=1, constants={"Sessions.session_settle_blocks": 30})
    chain.mute = frozenset() if mute is None else frozenset((chain.validators[mute].stash,))
    chain.verdict = Verdict.RIGHT
    for name, which, tokens in sequence:
        if "blocks" in name:
            chain.play(40 if name == "many blocks" else 2)
        else:
            chain.block(*(tolerant(step) for step in steps_of(chain.now(), name, which, tokens, deposit)))
    for _ in range(DONE):
        if not chain.room.session_count.get():
            break
        chain.play()
    bound = chain.now()
    assert not list(bound[Sessions].sessions.items())
    assert not list(bound[Sessions].period_claims.items())
    assert not list(bound[Sessions].device_sessions.items())
    # A leg is paid and freed once: the provider's, the spare's, and the one that begins with a hand-over.
    paid = Counter(each.session for each in chain.happened(PlacePaid))
    handed = {each.session for each in chain.happened(SessionHandedOver)}
    proven = {each.session for each in chain.happened(PeriodClaimed) if each.period == SPARE_PERIOD}
    seated = [each.session for each in chain.happened(SessionSeated)]
    assert all(paid[each] == 1 + (each in handed) + (each in proven) for each in seated)
    reasons = (SESSION_MONEY, SESSION_DEPOSIT, COLLATERAL)
    assert not [hold for (_, hold), _ in bound[Balances].held_cases.items() if hold.reason in reasons]


def steps_of(bound: Bound, name: str, which: int, tokens: int, deposit: int) -> list[Step]:
    """Return the calls of an action: by the right account first, and by wrong ones."""
    validators = (Keys("alice"), Keys("bob"), Keys("charlie"))
    keys, room = validators[which % 3], bound[Sessions]
    if name == "open":
        return [signed(CUSTOMER.stash, opening(deposit=deposit, term=60 + 20 * which))]
    if name == "places":
        return [signed(keys.stash, offers(keys, which))]
    known = sorted(room.sessions.keys())
    if not known:
        return []
    session_id = known[which % len(known)]
    session = room.session(session_id)
    if name in ("close", "hand over"):
        call = (Sessions.close if name == "close" else Sessions.hand_over)(session=session_id)
        return [signed((CUSTOMER.stash, SIGNER, keys.provider, b"s" * 32)[which], call)]
    owners = [leg.owner for _, leg in all_legs(session)] or [keys.stash]
    if name == "prove":
        return [signed(owner, proves(session_id)) for owner in (*owners, keys.provider)]
    if name == "leave":
        return [signed(owners[which % len(owners)], Sessions.leave(session=session_id))]
    period = max(0, session.period - which // 2)
    if name == "forged":
        voucher = Voucher(session_id, period, Totals(which, 0, tokens, bytes(32)))
        call = Sessions.claim(session=session_id, voucher=voucher, signature=signature_of(voucher, keys), is_last=True)
        return [signed(owner, call) for owner in owners]
    call = claims(session_id, period, tokens, is_last=name == "last", requests=1 + which)
    return [signed(owner, call) for owner in owners]
