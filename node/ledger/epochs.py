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

    def __call__(self, epoch_number: int) -> Epoch | None:
        """Return the epoch with a number; None while the final chain does not determine it."""
        known_epoch = self._known_epochs.get(epoch_number)
        if known_epoch is None and (known_epoch := self._read_epoch(epoch_number)) is not None:
            self._known_epochs[epoch_number] = known_epoch
            if len(self._known_epochs) > KEPT_MAX:
                del self._known_epochs[next(iter(self._known_epochs))]
        return known_epoch

    def seated(self) -> frozenset[bytes]:
        """Return the session keys of the active and the elected set, by the last final state."""
        bound_state = self._runtime.at(self._final_state)
        trust_stake, current_epoch = bound_state[TrustStake], bound_state[Beacon].epoch()
        in_office = {
            seat.session_key
            for epoch_number in (current_epoch, current_epoch + 1)
            for seat in trust_stake.validators(epoch_number)
        }
        elected_candidates = (trust_stake.candidates[standing.stash] for standing in trust_stake.elected.get())
        return frozenset(
            in_office | {candidate.session_key for candidate in elected_candidates if candidate is not None}
        )

    def _read_epoch(self, epoch_number: int) -> Epoch | None:
        bound_state = self._runtime.at(self._final_state)
        beacon = bound_state[Beacon]
        # All slots of a past epoch are final: only the signers of its certificates are still needed, not its seed.
        epoch_seed = UNKNOWN_SEED if epoch_number < beacon.epoch() else beacon.seed_of(epoch_number)
        if epoch_seed is None:
            return None
        epoch_seats = self._handed_seats(epoch_number) or bound_state[TrustStake].validators(epoch_number)
        if not epoch_seats:  # a set that is not elected yet, or so old that its signatures no longer count
            return None
        epoch_members = tuple(
            Validator(seat.stash, seat.session_key, seat.vrf_key, seat.weight) for seat in epoch_seats
        )
        return Epoch(ValidatorSet(epoch_number, epoch_members), epoch_seed)
