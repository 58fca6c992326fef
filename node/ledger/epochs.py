"""Validators and seed of each epoch, from the final state and the handoffs of ended epochs.

Invariant: the answer for an epoch never changes, because it follows from final blocks only.
"""

from __future__ import annotations

from collections.abc import Callable

from consensus.validators import Epoch, Validator, ValidatorSet
from runtime.frame.runtime import Runtime
from runtime.pallets.beacon import Beacon
from runtime.pallets.staking.stakers import Seat
from runtime.pallets.staking.trust_stake import TrustStake
from runtime.state.overlay import StateReader

KEPT_MAX = 256
UNKNOWN_SEED = bytes(32)


class EpochTable:
    """The `Epochs` of a consensus machine, over the state of the last final block."""

    def __init__(
        self, runtime: Runtime, final_state: StateReader, handed_seats: Callable[[int], tuple[Seat, ...] | None]
    ) -> None:
        """Create it; `final_state` reads the newest final state, `handed_seats` returns an epoch's set by its handoff.

        The state drops the sets for which no evidence counts any more. Without handoffs a restart would lose them.
        """
        self._runtime = runtime
        self._final_state = final_state
        self._handed_seats = handed_seats
        self._known_epochs: dict[int, Epoch] = {}

    def __call__(self, epoch: int) -> Epoch | None:
        """Return the epoch with a number; None while the final chain does not determine it."""
        known_epoch = self._known_epochs.get(epoch)
        if known_epoch is None and (known_epoch := self._read_epoch(epoch)) is not None:
            self._known_epochs[epoch] = known_epoch
            if len(self._known_epochs) > KEPT_MAX:
                del self._known_epochs[next(iter(self._known_epochs))]
        return known_epoch

    def seated(self) -> frozenset[bytes]:
        """Return the session keys of the active and the elected set, by the last final state."""
        bound = self._runtime.at(self._final_state)
        stake, current_epoch = bound[TrustStake], bound[Beacon].epoch()
        in_office = {
            seat.session_key for epoch in (current_epoch, current_epoch + 1) for seat in stake.validators(epoch)
        }
        elected_candidates = (stake.candidates[standing.stash] for standing in stake.elected.get())
        return frozenset(
            in_office | {candidate.session_key for candidate in elected_candidates if candidate is not None}
        )

    def _read_epoch(self, epoch: int) -> Epoch | None:
        bound = self._runtime.at(self._final_state)
        beacon = bound[Beacon]
        # All slots of a past epoch are final: only the signers of its certificates are still needed, not its seed.
        epoch_seed = UNKNOWN_SEED if epoch < beacon.epoch() else beacon.seed_of(epoch)
        if epoch_seed is None:
            return None
        seats = self._handed_seats(epoch) or bound[TrustStake].validators(epoch)
        if not seats:  # a set that is not elected yet, or so old that its signatures no longer count
            return None
        members = tuple(Validator(seat.stash, seat.session_key, seat.vrf_key, seat.weight) for seat in seats)
        return Epoch(ValidatorSet(epoch, members), epoch_seed)
