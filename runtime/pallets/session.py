"""Who validates, in the form that explorers read, with the SDK's names: a mirror of what TrustStake elected.

A session is an epoch.
"""

from typing import Annotated, Any

from runtime.encoding.codec import U32, Bounded
from runtime.encoding.types import AccountId
from runtime.frame.pallet import Pallet, StorageValue, event
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.trust_stake import TrustStake

VALIDATORS_MAX = 1_000
Validators = Annotated[tuple[AccountId, ...], Bounded(VALIDATORS_MAX)]


@event(0)
class NewSession:
    """A session began; sessions are epochs."""

    session_index: U32


class Session(Pallet, index=5):
    """The validators in office."""

    beacon: Beacon
    stake: TrustStake

    validators: StorageValue[Validators] = StorageValue(default=(), doc="Stashes of the validators in office.")
    current_index: StorageValue[U32] = StorageValue(default=0, doc="The session, which is the epoch.")
    queued_changed: StorageValue[bool] = StorageValue(
        default=False, doc="Whether the next session has other validators."
    )

    events = (NewSession,)

    def on_initialize(self) -> None:
        """Begin the session with its epoch; in the block that elects, say whether the next has other validators."""
        if self.beacon.is_epoch_start(self.stake.system.number.get()):
            self._begin(self.beacon.epoch())

    def genesis(self, config: dict[str, Any]) -> None:
        """Session 0, with the validators of the chain specification, whom TrustStake has seated."""
        self._begin(0)

    def _begin(self, epoch: int) -> None:
        now, following = self.stake.validators(epoch), self.stake.validators(epoch + 1)
        self.current_index.set(epoch)
        self.validators.set(tuple(seat.stash for seat in now))
        self.queued_changed.set(following not in ((), now))
        if epoch:
            self.emit(NewSession(epoch))
