"""The active set in the form that explorers read, with the SDK's names: a mirror of TrustStake's elections.

A session is an epoch.
"""

from typing import Annotated, Any

from runtime.encoding.codec import U32, Bounded
from runtime.encoding.types import AccountId
from runtime.frame.pallet import DispatchError, Pallet, Signed, StorageValue, call, event, known
from runtime.pallets.beacon import Beacon
from runtime.pallets.session_keys import KeysProof, SessionKeys
from runtime.pallets.staking.stakers import Candidate
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.pallets.weights import WEIGHTS

VALIDATORS_MAX = 1_000
Validators = Annotated[tuple[AccountId, ...], Bounded(VALIDATORS_MAX)]


@event(0)
class NewSession:
    """A session began. Sessions are epochs."""

    session_index: U32


class NoAssociatedValidator(DispatchError):
    """The account is no candidate. Register its first keys with `TrustStake.validate`."""


class Session(Pallet, index=5):
    """The active set, and the call that changes a validator's keys.

    The SDK's `purge_keys` is missing: a candidate always has keys, and withdraws with `TrustStake.chill`.
    """

    beacon: Beacon
    stake: TrustStake

    validators: StorageValue[Validators] = StorageValue(default=(), doc="Stashes of the active set.")
    current_index: StorageValue[U32] = StorageValue(default=0, doc="The session: the number of the epoch.")
    queued_changed: StorageValue[bool] = StorageValue(
        default=False, doc="True if the next session has different validators."
    )

    events = (NewSession,)
    errors = (NoAssociatedValidator,)

    @call(index=0, weight=WEIGHTS["Session.set_keys"])
    def set_keys(self, origin: Signed, keys: SessionKeys, proof: KeysProof) -> None:
        """Replace the session and VRF key of the signer's node, from the next elected set on.

        Until then the old keys stay in use. A session key that was in an active set belongs to the signer for ever.
        """
        stash = origin.account
        candidate = known(self.stake.candidates[stash], NoAssociatedValidator)
        self.stake.check_keys(stash, keys, proof)
        commission_ppm = known(self.stake.commission_of(stash), NoAssociatedValidator)
        changed_candidate = Candidate(keys.session, keys.vrf, candidate.provider_key, commission_ppm)
        self.stake.set_candidate(stash, changed_candidate)

    def on_initialize(self) -> None:
        """Begin a session with its epoch, and note whether the next one has other validators."""
        if self.beacon.is_epoch_start(self.stake.system.number.get()):
            self._begin(self.beacon.epoch())

    def genesis(self, config: dict[str, Any]) -> None:
        """Start session 0 with the validators of the chain specification, which TrustStake has seated."""
        self._begin(0)

    def _begin(self, epoch: int) -> None:
        current_set, next_set = self.stake.validators(epoch), self.stake.validators(epoch + 1)
        self.current_index.set(epoch)
        self.validators.set(tuple(seat.stash for seat in current_set))
        # () means that the next set is not elected yet.
        self.queued_changed.set(next_set not in ((), current_set))
        if epoch:
            self.emit(NewSession(epoch))
