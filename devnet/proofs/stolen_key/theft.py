"""A thief with the key of a delegate, and an accomplice with the drawn provider's key.

The thief speaks to a node directly, so no check of our programs stands in its way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from devnet.proofs.stolen_key.scenes import (
    BLOCKS_MAX,
    CAP_WORDS,
    PACE,
    SELLERS,
    SELLING,
    BudgetOwner,
    EventsSince,
    wealth_of,
)
from devnet.stage.network import CUSTOMER_KEY, Stage
from genesis import dev_accounts
from gpu_tasks.batches.sum_tree import Totals
from gpu_tasks.market.budgets.budgets import Budgets
from gpu_tasks.market.budgets.events import DelegateRevoked
from gpu_tasks.market.budgets.records import REVOKED_BLOCKS, Caps
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.inference.units import UnitTerms
from gpu_tasks.market.sessions.events import PeriodClaimed, SessionEnded, SessionOpened, SessionSeated
from gpu_tasks.market.sessions.sessions import Sessions
from gpu_tasks.market.sessions.vouchers import Voucher, voucher_payload
from runtime.blocks.extrinsic import MultiSignature
from runtime.cryptography.signatures import Scheme
from runtime.encoding.types import GRAINS_PER_OGPU
from runtime.frame.call import Call
from runtime.pallets.balances import Balances
from runtime.pallets.utility import Utility
from wallet.client import ChainClient, Outcome
from wallet.keypair import Keypair
from wallet.suri import keypair_from_suri

STOLEN, EXPIRED = f"{CUSTOMER_KEY}//stolen", f"{CUSTOMER_KEY}//expired"
THIEF = keypair_from_suri("//Thief").account
OGPU = GRAINS_PER_OGPU
UNIT_CAP, DAY_CAP, TOTAL_CAP = 2 * OGPU, 6 * OGPU, 8 * OGPU
RATE = OGPU // 20
"""The price of 1,000 tokens: the dearest that the service permits."""
TERM = 600
EXPOSED_BLOCKS = 800
"""The length of the work that a forged voucher names. The collateral covers 900 blocks."""
WIDE = Caps(TOTAL_CAP, TOTAL_CAP, TOTAL_CAP, (), 2**32 - 1)
SUCCESS = "success"


@dataclass(frozen=True, slots=True)
class Tried:
    """A call of the thief, and its outcome: the code of an error, or `success`."""

    name: str
    expected: str
    found: str


@dataclass(slots=True)
class Theft:
    """The attempts of a thief, and the money that moved. Amounts are grains."""

    tried: list[Tried] = field(default_factory=list)
    unit_cap: int = UNIT_CAP
    day_cap: int = DAY_CAP
    total_cap: int = TOTAL_CAP
    taken_in_day: int = 0
    taken: int = 0
    """All that the caps let the thief spend."""
    sessions: int = 0
    forged_in_window: int = 0
    """Grains that an accomplice claimed by forged vouchers within 30 blocks of the revocation."""
    lost: int = 0
    """The decrease of the budget's money once everything has ended."""
    to_thief: int = 0
    """Grains that reached the thief's accounts. The key's own money pays its fees alone."""


def rob(stage: Stage) -> Theft:
    """Try everything with the key of a delegate. Then revoke it, and try again."""
    owner, theft = BudgetOwner(stage), Theft()
    budget = owner.create()
    service = SELLING[stage.options.model]
    scene = _Scene(stage, bytes.fromhex(budget[2:]), service, theft)
    for key in (STOLEN, EXPIRED):
        owner.grant(budget, key, *CAP_WORDS, "--service", str(service), "--for", "1d" if key == STOLEN else "5")
    money_before, key_before, events = owner.money(budget), wealth_of(stage, STOLEN), EventsSince(stage)
    scene.try_all(_forbidden(scene))
    scene.fill(DAY_CAP, "Budgets.OverDayCap")
    theft.taken_in_day = _spent(owner, budget)
    owner.grant(budget, STOLEN, "--per-unit", "2", "--per-day", "100", "--total", "8", "--for", "1d")
    scene.fill(TOTAL_CAP, "Budgets.OverTotalCap")
    theft.taken = _spent(owner, budget)
    scene.try_all([("spend after the expiry", "Budgets.DelegateExpired", scene.opening(OGPU), EXPIRED)])
    opened = [event.session for _, event in events.of(SessionOpened)] or _opened(events)
    theft.sessions = len(opened)
    seated = {
        session: events.until(f"the draw for session 0x{session.hex()}", SessionSeated, session=session)[-1][1].owner
        for session in opened
    }
    owner.revoke(budget, STOLEN)
    [(revoked_at, _)] = events.until("the revocation", DelegateRevoked)
    scene.claim(opened[0], seated[opened[0]], SUCCESS, "forged voucher within the window")
    scene.try_all([
        ("spend after the revocation", "Budgets.UnknownDelegate", scene.opening(OGPU), STOLEN),
        ("post after the revocation", "Budgets.UnknownDelegate", scene.post(service, OGPU), STOLEN),
    ])  # fmt: skip
    events.follower.until("the end of the window", lambda: _is_over(events, revoked_at), BLOCKS_MAX)
    scene.claim(opened[1], seated[opened[1]], "late", "forged voucher after the window")
    for session in opened:
        events.until(f"the end of session 0x{session.hex()}", SessionEnded, session=session)
    theft.forged_in_window = sum(event.amount for _, event in events.of(PeriodClaimed, session=opened[0]))
    theft.lost = money_before - owner.money(budget)
    gained = wealth_of(stage, STOLEN) - key_before - OGPU  # the second grant brought money for fees
    theft.to_thief = wealth_of(stage, "//Thief") + max(0, gained)
    return theft


def _opened(events: EventsSince) -> list[bytes]:
    events.follower.read_on()
    return [event.session for _, event in events.of(SessionOpened)]


def _is_over(events: EventsSince, revoked_at: int) -> bool:
    return events.follower.next_height > revoked_at + REVOKED_BLOCKS + 1


def _spent(owner: BudgetOwner, budget: str) -> int:
    found = owner.status(budget)
    assert found is not None, "it is not closed"
    account = keypair_from_suri(STOLEN).account
    return next(each.spent_total for each in found.delegates if each.key == account)


ThiefCall = tuple[str, str, Call, str]
"""Name, expected outcome, call, signing key."""


@dataclass(slots=True)
class _Scene:
    """The thief's means."""

    stage: Stage
    budget: bytes
    service: int
    theft: Theft

    def spend(self, call: Call) -> Call:
        """Return the call that pays from the budget."""
        return Budgets.spend(budget=self.budget, call=call)

    def opening(self, deposit: int, *, signer: bytes | None = None) -> Call:
        """Return the call that opens a session from the budget."""
        opening = Sessions.open(
            service=self.service, deposit=deposit, term=TERM, rate=RATE,
            signer=signer or keypair_from_suri(STOLEN).account, customer_key=bytes(31) + b"\x09",
        )  # fmt: skip
        return self.spend(opening)

    def post(self, service: int, price: int) -> Call:
        """Return the call that posts a unit from the budget."""
        terms = UnitTerms(price, 1, bytes(32), bytes(32), 0, 16)
        return self.spend(InferenceMarket.post(service=service, units=(terms,)))

    def try_all(self, attempts: Sequence[ThiefCall]) -> None:
        """Send each call, and note its outcome."""

        async def sent(chain: ChainClient) -> list[Tried]:
            found = []
            for name, expected, call, key in attempts:
                outcome = await chain.submit(call, keypair_from_suri(key), until="inBlock")
                found.append(Tried(name, expected, _code(outcome)))
            return found

        for tried in self.stage.ask(sent):
            self.stage.narrator.line(f"{tried.name}: {tried.found}")
            self.theft.tried.append(tried)

    def fill(self, cap: int, refusal: str) -> None:
        """Spend up to a cap by sessions, to the grain, and be refused one grain more."""

        async def spent(chain: ChainClient) -> int:
            status = await chain.query("BudgetsApi_budget", self.budget)
            account = keypair_from_suri(STOLEN).account
            return int(next(each.spent_total for each in status.delegates if each.key == account))

        while (left := cap - self.stage.ask(spent)) > 0:
            deposit = min(UNIT_CAP, left)
            name = f"a session with a deposit of {deposit} grains"
            self.try_all([(name, SUCCESS, self.opening(deposit), STOLEN)])
            if self.theft.tried[-1].found != SUCCESS:
                return
        self.try_all([("one more session above the cap", refusal, self.opening(OGPU), STOLEN)])

    def claim(self, session: bytes, owner: bytes, expected: str, name: str) -> None:
        """Sign a voucher for work that nobody did, and let the drawn provider claim it."""
        seller = next(each for each in SELLERS if dev_accounts.stash(each) == owner)
        tokens = EXPOSED_BLOCKS * PACE

        async def claimed(chain: ChainClient) -> Outcome:
            thief = keypair_from_suri(STOLEN)
            voucher = Voucher(session, 0, Totals(1, 1, tokens, bytes(32)))
            signature = MultiSignature(thief.scheme, thief.sign(voucher_payload(chain.genesis_hash, voucher)))
            call = Sessions.claim(session=session, voucher=voucher, signature=signature, is_last=True)
            return await chain.submit(call, _provider_key(seller), until="inBlock")

        found = _code(self.stage.ask(claimed))
        if expected == "late":
            # The chain forgets a session once its providers claim nothing more.
            expected = found if found in ("Sessions.ClaimsOver", "Sessions.UnknownSession") else "Sessions.ClaimsOver"
        self.stage.narrator.line(f"{name}: {found}")
        self.theft.tried.append(Tried(name, expected, found))


def _provider_key(name: str) -> Keypair:
    return keypair_from_suri(f"//{name}//provider", Scheme.ED25519)


def _code(outcome: Outcome) -> str:
    return SUCCESS if outcome.is_success else str(outcome.error_code)


def _forbidden(scene: _Scene) -> list[ThiefCall]:
    """Return the calls that the chain must refuse."""
    stolen, budget = keypair_from_suri(STOLEN).account, scene.budget
    transfer = Balances.transfer_all(dest=THIEF, keep_alive=False)
    raised = Budgets.grant(budget=budget, delegate=stolen, caps=WIDE)
    calls: dict[str, tuple[str, Call]] = {
        "a transfer from the budget": ("Budgets.NotAllowed", scene.spend(transfer)),
        "a batch of a transfer": ("Budgets.NotAllowed", scene.spend(Utility.batch_all(calls=(transfer,)))),
        "a batch of an opening": (
            "Budgets.NotAllowed", scene.spend(Utility.batch(calls=(scene.opening(OGPU).named_arguments["call"],))),
        ),
        "a purchase inside a purchase": ("Budgets.NotAllowed", scene.spend(scene.opening(OGPU))),
        "a session whose vouchers another key signs": ("Budgets.NotAllowed", scene.opening(OGPU, signer=THIEF)),
        "a burn": ("Budgets.NotAllowed", scene.spend(Balances.burn(value=OGPU, keep_alive=False))),
        "a cancellation": ("Budgets.NotAllowed", scene.spend(InferenceMarket.cancel(unit=bytes(32)))),
        "a withdrawal": ("Budgets.NotBudgetOwner", Budgets.withdraw(budget=budget, amount=1)),
        "a withdrawal as the budget": (
            "Budgets.NotAllowed", scene.spend(Budgets.withdraw(budget=budget, amount=1)),
        ),
        "the close of the budget": ("Budgets.NotBudgetOwner", Budgets.close(budget=budget)),
        "a rise of its own caps": ("Budgets.NotBudgetOwner", raised),
        "a rise of its own caps as the budget": ("Budgets.NotAllowed", scene.spend(raised)),
        "a further delegate": (
            "Budgets.NotBudgetOwner", Budgets.grant(budget=budget, delegate=THIEF, caps=WIDE),
        ),
        "the revocation of another delegate": (
            "Budgets.NotBudgetOwner", Budgets.revoke(budget=budget, delegate=keypair_from_suri(EXPIRED).account),
        ),
        "a unit of another service": ("Budgets.ServiceNotAllowed", scene.post(0, OGPU)),
        "a unit above the cap of a unit": ("Budgets.OverUnitCap", scene.post(scene.service, UNIT_CAP + 1)),
        "a session above the cap of a unit": ("Budgets.OverUnitCap", scene.opening(UNIT_CAP + 1)),
        "four sessions in a batch, above the cap of a day": (
            "Budgets.OverDayCap", Utility.batch_all(calls=(scene.opening(UNIT_CAP),) * 4),
        ),
    }  # fmt: skip
    return [(name, expected, call, STOLEN) for name, (expected, call) in calls.items()]


def failures_of(theft: Theft) -> Iterator[str]:
    """Yield every failed requirement."""
    for tried in theft.tried:
        if tried.found != tried.expected:
            yield f"{tried.name}: {tried.found} instead of {tried.expected}"
    if (theft.taken_in_day, theft.taken) != (theft.day_cap, theft.total_cap):
        yield f"the thief spent {theft.taken_in_day} in a day and {theft.taken} in all, and the caps are others"
    if theft.to_thief:
        yield f"{theft.to_thief} grains reached the thief"
    if theft.lost > theft.taken:
        yield f"the owner lost {theft.lost} grains, more than the {theft.taken} of the caps"
