"""Sequences of calls, right and wrong: no delegate exceeds its caps, and all money returns to the owners.

The books of the chain compare every hold, deposit and list after each step (`simulation/pallets/budgets.py`).
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from budget_chain import APP, OWNER, SESSION_RECORD, UNIT_RECORD, BudgetChain, budget_chain, caps, post, spend
from gpu_tasks.market.budgets.budgets import Budgets
from gpu_tasks.market.budgets.purchases import POST
from gpu_tasks.market.budgets.records import BUDGET_DEPOSIT, DAY_BLOCKS, REVOKED_BLOCKS, budget_account
from gpu_tasks.market.inference.units import UNIT_DEPOSIT, UNIT_MONEY
from gpu_tasks.market.sessions.records import SESSION_DEPOSIT, SESSION_MONEY, SessionState
from gpu_tasks.market.sessions.sessions import Sessions
from runtime.frame.call import Call
from runtime.frame.runtime import Bound
from runtime.pallets.balances import Balances
from session_chain import Step, claims, opening
from simulation.chains.market_chain import OGPU, Keys, signed, terms, tolerant

OWNERS = (OWNER.stash, Keys("dave").stash)
KEYS = (APP, Keys("second app").stash, Keys("third app").stash)
ACTIONS = ("create", "grant", "open", "post", "revoke", "withdraw", "close", "claim", "end", "gift", "blocks")
SEQUENCES = st.lists(
    st.tuples(
        st.sampled_from(ACTIONS), st.integers(0, 5), st.sampled_from((0, 1, OGPU // 10, OGPU, 3 * OGPU, 50 * OGPU))
    ),
    min_size=6,
    max_size=30,
)
SHORT = {
    "Sessions.session_settle_blocks": 60,
    "InferenceMarket.queue_blocks": 8,
    "InferenceMarket.unit_keep": 1,
}
REASONS = (BUDGET_DEPOSIT, UNIT_MONEY, UNIT_DEPOSIT, SESSION_MONEY, SESSION_DEPOSIT)
DONE = 900
"""Blocks after which each unit and session of these tests is over."""


@given(SEQUENCES)
@settings(max_examples=30)
def test_any_sequence_keeps_caps_and_returns_all_money(sequence: list[tuple[str, int, int]]) -> None:
    chain = budget_chain(4, places=2, constants=SHORT)
    chain.create(20 * OGPU)
    budget_id = chain.create(20 * OGPU)
    chain.block(*(signed(OWNER.stash, Budgets.grant(budget=budget_id, delegate=key, caps=caps())) for key in KEYS[:2]))
    for name, which, amount in sequence:
        if name == "blocks":
            chain.play(2 + 8 * which)
        else:
            chain.block(*(tolerant(step) for step in steps_of(chain, name, which, amount)))
        _check_revoked(chain)
    _end(chain)


def budget(deposit: int) -> Call:
    return Budgets.create(deposit=deposit)


def steps_of(chain: BudgetChain, name: str, which: int, amount: int) -> list[Step]:
    """Return the calls of an action: by a key, by an owner, and by wrong ones."""
    owner, key = OWNERS[which % 2], KEYS[which % 3]
    known = sorted(chain.budgets.budgets.keys())
    if name == "create" or not known:
        return [signed(owner, budget(amount))]
    budget_id = known[which % len(known)]
    account = chain.budget(budget_id).account
    if name == "gift":
        return [signed(OWNERS[1], Balances.transfer_allow_death(dest=account, value=amount))]
    if name in ("claim", "end"):
        sessions = [each for each, _ in chain.room.customer_sessions.under(account)]
        return [step for session_id in sessions[:1] for step in _session_steps(chain, name, session_id, which)]
    limits = caps(unit=3 * OGPU, day=amount, total=2 * amount, services=(0,) if which else (), expires_at=DAY_BLOCKS)
    calls: dict[str, Call] = {
        "grant": Budgets.grant(budget=budget_id, delegate=key, caps=limits),
        "open": spend(budget_id, opening(signer=key, deposit=amount, term=60 + 20 * which)),
        "post": spend(budget_id, post(*(terms(max(OGPU // 100, amount // 3)),) * (1 + which % 2))),
        "revoke": revoke(budget_id, key),
        "withdraw": Budgets.withdraw(budget=budget_id, amount=amount),
        "close": Budgets.close(budget=budget_id),
    }
    return [_checked(budget_id, who, calls[name]) for who in (key, owner, *OWNERS)]


def _session_steps(chain: BudgetChain, name: str, session_id: bytes, which: int) -> list[Step]:
    session = chain.session(session_id)
    if name == "end":
        return [signed(who, Sessions.close(session=session_id)) for who in KEYS]
    call = claims(session_id, session.period, 64 * (1 + which), is_last=which == 0)
    return [signed(leg.owner, call) for leg in session.legs]


def _checked(budget_id: bytes, who: bytes, call: Call) -> Step:
    """Return a call, and a comparison of the caps with the money that left the account."""

    def step(bound: Bound) -> None:
        room, account = bound[Budgets], budget_account(budget_id)
        before, free_before = room.delegates[budget_id, who], bound[Balances].free_balance(account)
        signed(who, call)(bound)
        after = room.delegates[budget_id, who]
        if call.name != "Budgets.spend":
            return
        assert before is not None
        assert after is not None
        (inner,) = call.arguments[1:]
        deposits = UNIT_RECORD * len(inner.arguments[1]) if inner.name == POST else SESSION_RECORD
        amount = free_before - bound[Balances].free_balance(account) - deposits
        assert amount > 0
        assert after.spent == before.spent + amount <= after.caps.total
        assert amount <= after.spent_in_day <= after.caps.day

    return step


def _check_revoked(chain: BudgetChain) -> None:
    """Check that keys which are no delegates have nothing open."""
    room = chain.budgets
    accounts = {record.account: budget_id for budget_id, record in room.budgets.items() if record is not None}
    for session_id in list(chain.room.sessions.keys()):
        session = chain.session(session_id)
        if session.customer not in accounts:
            continue
        if (accounts[session.customer], session.signer) not in room.delegates:
            assert session.state is SessionState.CLOSING
            assert 0 < session.claims_end <= chain.height + REVOKED_BLOCKS


def _end(chain: BudgetChain) -> None:
    """Revoke all delegates, wait for the ends of units and sessions, and close all budgets."""
    room = chain.budgets
    named = [(room.budgets[budget_id], budget_id, key) for (budget_id, key), _ in room.delegates.items()]
    chain.block(*(signed(who.owner, revoke(budget_id, key)) for who, budget_id, key in named if who is not None))
    _check_revoked(chain)
    for _ in range(DONE):
        if not _in_use(chain):
            break
        chain.play()
    records = [(budget_id, record) for budget_id, record in chain.budgets.budgets.items() if record is not None]
    chain.block(*(signed(record.owner, Budgets.close(budget=budget_id)) for budget_id, record in records))
    bound, room = chain.now(), chain.budgets
    for item in (room.budgets, room.delegates, room.owner_budgets, room.key_budgets, room.devices.principals):
        assert not list(item.items())
    assert not [hold for (_, hold), _ in bound[Balances].held_cases.items() if hold.reason in REASONS]
    assert not [record for _, record in records if chain.owned(record.account)]


def _in_use(chain: BudgetChain) -> bool:
    balances = chain.now()[Balances]
    records = [record for _, record in chain.budgets.budgets.items() if record is not None]
    return any(balances.reserved_balance(record.account) for record in records)


def revoke(budget_id: bytes, key: bytes) -> Call:
    """Return the call that revokes a delegate."""
    return Budgets.revoke(budget=budget_id, delegate=key)
