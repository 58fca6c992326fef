"""The storage of Sessions: sessions, their open claims, offered and occupied places, and schedules.

Invariants: a session waits for a block, for a final height, or for the end of a claim, so each ends by itself. A device
has no place offers when it leaves the market, so it leaves no entry behind.
"""

from gpu_tasks.market.devices.devices import Devices
from gpu_tasks.market.ids import DeviceId, ServiceId
from gpu_tasks.market.inference.inference import InferenceMarket
from gpu_tasks.market.sessions.events import UnknownSession
from gpu_tasks.market.sessions.records import Occupied, PeriodClaim, PlaceOffer, SessionRecord, next_step
from runtime.encoding.codec import U32
from runtime.encoding.types import GRAINS_PER_OGPU, AccountId, Balance, BlockNumber, Hash
from runtime.frame.pallet import (
    Hasher,
    Pallet,
    Parameter,
    ScheduleItem,
    StorageDoubleMap,
    StorageMap,
    StorageValue,
    known,
)
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.trust_lock import TrustLock
from runtime.pallets.system import System

PPM = 1_000_000


class SessionsStorage(Pallet):
    """Sessions, claims, places and schedules."""

    system: System
    beacon: Beacon
    lock: TrustLock
    devices: Devices
    inference: InferenceMarket

    session_check_rate: Parameter[U32] = Parameter(
        333_333, unit="ppm", least=100_000, greatest=PPM,
        doc="Chance that an item of a session's claim is checked, as `ResultClaims.check_rate`. Sessions are paid by "
            "many small claims, so the collateral must be small.",
    )  # fmt: skip
    session_settle_blocks: Parameter[BlockNumber] = Parameter(
        600, unit="blocks", least=30, greatest=7_200,
        doc="Blocks in which a provider that has left a session may claim. It must get its last voucher into a block.",
    )  # fmt: skip
    session_deposit: Parameter[Balance] = Parameter(
        GRAINS_PER_OGPU // 10, unit="grains", least=GRAINS_PER_OGPU // 100, greatest=100 * GRAINS_PER_OGPU,
        doc="Deposit for a session's record, until the session ends. A session also occupies a place of two devices.",
    )  # fmt: skip

    sessions: StorageMap[Hash, SessionRecord | None] = StorageMap(doc="Sessions, until they end.")
    session_count: StorageValue[U32] = StorageValue(default=0, doc="The number of sessions.")
    opening_counts: StorageMap[AccountId, U32] = StorageMap(
        default=0, doc="The number of sessions that a customer has opened, ever."
    )
    customer_sessions: StorageDoubleMap[AccountId, Hash, bool] = StorageDoubleMap(
        default=False, doc="The sessions of a customer."
    )
    device_sessions: StorageDoubleMap[DeviceId, Hash, bool] = StorageDoubleMap(
        default=False, doc="The sessions that occupy a place of a device, as provider or spare."
    )
    period_claims: StorageMap[Hash, PeriodClaim | None] = StorageMap(doc="Open claims of sessions.")
    place_offers: StorageDoubleMap[ServiceId, DeviceId, PlaceOffer | None] = StorageDoubleMap(
        hashers=(Hasher.TWOX_64_CONCAT, Hasher.BLAKE2_128_CONCAT),
        doc="The places that devices offer for sessions of a service. They count beside a standing offer alone.",
    )
    place_offer_count: StorageMap[ServiceId, U32] = StorageMap(default=0, hasher=Hasher.TWOX_64_CONCAT)
    occupied: StorageMap[DeviceId, Occupied] = StorageMap(default=Occupied(), doc="The occupied places of a device.")

    due: ScheduleItem[Hash] = ScheduleItem(doc="Sessions to process at a block: the end of a term or of a window.")
    draws: ScheduleItem[Hash] = ScheduleItem("draw", doc="Sessions to draw a device for once a height is final.")

    @property
    def height(self) -> int:
        """The number of this block."""
        return self.system.number.get()

    def session(self, session_id: bytes) -> SessionRecord:
        """Return a session that is not over. Raise UnknownSession if there is none."""
        return known(self.sessions[session_id], UnknownSession)

    def period_claim(self, claim_id: bytes) -> tuple[PeriodClaim, SessionRecord]:
        """Return an open claim of a session, and the session."""
        claim = self.period_claims[claim_id]
        assert claim is not None, "an open claim of a session has a record"
        session = self.sessions[claim.session]
        assert session is not None, "a session outlives its claims"
        return claim, session

    def put(self, session_id: bytes, session: SessionRecord) -> None:
        """Store a session, and schedule its next step."""
        self.sessions[session_id] = session
        step_height = next_step(session)
        if step_height is None:
            self.due.drop(session_id)
        else:
            # Not in this block: a call that ends a session would weigh many times its charge.
            self.due.put(max(step_height, self.height + 1), session_id)
