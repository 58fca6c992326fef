"""The pallet Sessions: a reserved place at a drawn provider, paid by vouchers that become claims.

A customer opens a session at a service with a deposit and a term. A beacon draws a device with a free place, and a
spare of another owner. Requests, tokens and vouchers travel off the chain. The provider presents the newest voucher of
a period, and the period becomes a claim whose items are requests. This module has the calls, the hook, and the methods
for ResultClaims. `life` carries them out.

Invariants: a session holds its deposit, less its payments, until it ends. A provider earns no more than the deposit and
than its customer's vouchers allow, beside the least pay of its place. The work of the hook is bounded.
"""

from collections.abc import Sequence
from typing import Annotated

from gpu_tasks.market.attestations.kinds import ATTESTATIONS_MAX
from gpu_tasks.market.attestations.work_source import OpenWork
from gpu_tasks.market.block_room import BlockRoom
from gpu_tasks.market.claims.claims import ClaimOutcome
from gpu_tasks.market.ids import DeviceId, ServiceId
from gpu_tasks.market.sessions import events as ev
from gpu_tasks.market.sessions import life
from gpu_tasks.market.sessions import places as of_places
from gpu_tasks.market.sessions.records import LEGS_MAX, SESSION_DEPOSIT, SESSION_MONEY
from gpu_tasks.market.sessions.storage import SessionsStorage
from gpu_tasks.market.sessions.vouchers import Voucher
from gpu_tasks.market.weights import WEIGHTS
from runtime.blocks.extrinsic import MULTI_SIGNATURE, MultiSignature
from runtime.encoding.codec import U8
from runtime.encoding.types import AccountId, BlockNumber, CompactBalance, Hash, Weight
from runtime.frame.measured import times
from runtime.frame.pallet import FREE, PostDispatch, Signed, call
from runtime.frame.weights import work
from runtime.pallets.staking.slashing import Share
from runtime.pallets.staking.stakers import PublicKey

DRAW_WEIGHT = WEIGHTS["Sessions.on_initialize draw"]
"""The weight of seating a session, once the places of its service are read."""
STEP_WEIGHT = WEIGHTS["Sessions.on_initialize step"]
"""The weight of a step: the release of both legs, and the end of a session."""
STEPS_PREPAID = 2 + LEGS_MAX
"""The most steps of a session: the end of its term, the ends of its legs' windows, and the pay of its spare."""
STEP_BUDGET = work(microseconds=8_000)
DRAW_BUDGET = work(microseconds=16_000)
VoucherSignature = Annotated[MultiSignature, MULTI_SIGNATURE]


class Sessions(SessionsStorage, index=22):
    """Sessions, their places and their claims."""

    open_work = OpenWork(SessionsStorage.session_count, "ogpu_open_sessions", "Sessions in progress")

    events = (
        ev.PlacesOffered, ev.SessionOpened, ev.SessionSeated, ev.PeriodClaimed, ev.SessionClosing,
        ev.SessionHandedOver, ev.PlacePaid, ev.SessionEnded,
    )  # fmt: skip
    errors = (
        ev.UnknownSession, ev.NoSessions, ev.RateOutOfBounds, ev.TermOutOfBounds, ev.SessionDepositTooSmall,
        ev.TooManySessions, ev.TooManyPlaces, ev.NotSessionParty, ev.SessionNotOpen, ev.SpareUnable, ev.WrongVoucher,
        ev.EmptyVoucher, ev.VoucherTooLarge, ev.VoucherUnfunded, ev.BadVoucherSignature, ev.ClaimsOver,
        ev.TooManyUnchecked, ev.FormerClaimsFirst,
    )  # fmt: skip
    hold_reasons = (SESSION_MONEY, SESSION_DEPOSIT)

    @call(index=0, weight=WEIGHTS["Sessions.open"] + DRAW_WEIGHT + times(STEPS_PREPAID, STEP_WEIGHT))
    def open(
        self,
        origin: Signed,
        service: ServiceId,
        deposit: CompactBalance,
        term: BlockNumber,
        rate: CompactBalance,
        signer: AccountId,
        customer_key: PublicKey,
    ) -> None:
        """Open a session: `deposit` grains and a record's deposit are held until it ends.

        A device that asks at most `rate` grains per 1,000 output tokens is drawn. `signer` signs the vouchers, and
        `customer_key` is your X25519 key for the tunnel.
        """
        life.open_session(
            self,
            origin.account,
            service_number=service,
            deposit=deposit,
            term=term,
            rate=rate,
            signer=signer,
            customer_key=customer_key,
        )

    @call(index=1, weight=WEIGHTS["Sessions.offer_places"])
    def offer_places(self, origin: Signed, device: DeviceId, service: ServiceId, places: U8) -> None:
        """Offer places of your device for sessions of a service that it offers: 1 to 64, or 0 for no new sessions.

        The signer is the stash or its provider key.
        """
        self.devices.owned(device, self.devices.operator(origin.account))
        of_places.offer(self, device, service, places)

    # ------------------------------------------------ duty calls: signed by the provider key, free if they succeed

    @call(index=2, weight=WEIGHTS["Sessions.claim"])
    def claim(
        self, origin: Signed, session: Hash, voucher: Voucher, signature: VoucherSignature, is_last: bool
    ) -> PostDispatch:
        """Claim the pay of your present period by the customer's newest voucher. Free if it succeeds.

        With `is_last` you claim nothing more in this session, and your device is free once your claims have ended.
        """
        owner = self.devices.operator(origin.account)
        life.claim(self, session, owner, voucher, signature, is_last=is_last)
        return FREE

    # ----------------------------------------------------------------------------------------------------- the parties

    @call(index=3, weight=WEIGHTS["Sessions.close"])
    def close(self, origin: Signed, session: Hash) -> None:
        """Close a session as its customer, its signer or its provider. The provider may claim for a while.

        Before the draw, the whole deposit returns at once.
        """
        life.close(self, session, origin.account)

    @call(index=4, weight=WEIGHTS["Sessions.hand_over"])
    def hand_over(self, origin: Signed, session: Hash) -> None:
        """Let the spare go on with a session, as its customer or its signer. Once a session."""
        life.hand_over(self, session, origin.account)

    # ------------------------------------------------ duty calls: signed by the provider key, free if they succeed

    @call(index=5, weight=WEIGHTS["Sessions.prove_spare"])
    def prove_spare(self, origin: Signed, session: Hash, top: Hash) -> PostDispatch:
        """Prove as the spare that you have the model loaded, within ten blocks of the draw. Free if it succeeds.

        `top` is the hash of the leaf with your answer to the standard request. Checkers may compute it. A false proof
        costs collateral from your device's bond, and without a proof you earn nothing as the spare.
        """
        life.prove_spare(self, session, self.devices.operator(origin.account), top)
        return FREE

    @call(index=6, weight=WEIGHTS["Sessions.leave"])
    def leave(self, origin: Signed, session: Hash) -> PostDispatch:
        """Claim nothing more in a session that you serve or served. Free if it succeeds.

        Your place is paid, and your device is free, once your open claims have ended.
        """
        life.leave(self, session, self.devices.operator(origin.account))
        return FREE

    # ------------------------------------------------------------------------------------------ a handler: ResultClaims

    def charge_provider(self, claim: bytes, shares: Sequence[Share]) -> None:
        """Pay the shares out of the provider's collateral for the session."""
        life.charge_provider(self, claim, shares)

    def charge_customer(self, claim: bytes, shares: Sequence[Share]) -> None:
        """Pay the shares out of the session's deposit."""
        life.charge_customer(self, claim, shares)

    def conclude(self, claim: bytes, outcome: ClaimOutcome) -> None:
        """Pay for a period, or return its amount to the deposit."""
        life.conclude(self, claim, outcome)

    # ------------------------------------------------------------------------------------------------------------- hook

    def on_initialize(self) -> Weight:
        """End terms, windows and sessions that are due. Then draw devices for sessions whose beacon is final."""
        room = BlockRoom(self.context.mandatory_left - ATTESTATIONS_MAX.ref_time)
        steps, draws = room.budget(STEP_BUDGET), room.budget(DRAW_BUDGET)
        for session_id in self.due.take(self.height, steps, STEP_WEIGHT):
            life.step(self, session_id)
        free_places = of_places.Places(self, draws)
        for session_id in self.draws.take(self.beacon.final_height(), draws, DRAW_WEIGHT):
            life.draw(self, session_id, free_places)
        return steps.spent + draws.spent
