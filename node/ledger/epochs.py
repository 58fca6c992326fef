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
        self, runtime: Runtime, final_state: StateReader, handed: Callable[[int], tuple[Seat, ...] | None]
    ) -> None:
        """Create it; `final_state` always reads the newest final state, `handed` returns an epoch's set by its handoff.

        The state drops the sets for which no evidence counts any more. Without handoffs a restart would lose them.
        """
        self._runtime = runtime
        self._final_state = final_state
        self._handed = handed
        self._known: dict[int, Epoch] = {}

    def __call__(self, number: int) -> Epoch | None:
        """Return the epoch with a number; None while the final chain does not determine it."""
        found = self._known.get(number)
        if found is None and (found := self._read(number)) is not None:
            self._known[number] = found
            if len(self._known) > KEPT_MAX:
                del self._known[next(iter(self._known))]
        return found

    def seated(self) -> frozenset[bytes]:
        """Return the session keys of the active and the elected set, by the last final state."""
        bound = self._runtime.at(self._final_state)
        stake, epoch = bound[TrustStake], bound[Beacon].epoch()
        in_office = {seat.session_key for number in (epoch, epoch + 1) for seat in stake.validators(number)}
        elected = (stake.candidates[standing.stash] for standing in stake.elected.get())
        return frozenset(in_office | {candidate.session_key for candidate in elected if candidate is not None})

    def _read(self, number: int) -> Epoch | None:
        bound = self._runtime.at(self._final_state)
        beacon = bound[Beacon]
        # All slots of a past epoch are final: only the signers of its certificates are still needed, not its seed.
        seed = UNKNOWN_SEED if number < beacon.epoch() else beacon.seed_of(number)
        if seed is None:
            return None
        seats = self._handed(number) or bound[TrustStake].validators(number)
        if not seats:  # a set that is not elected yet, or so old that its signatures no longer count
            return None
        members = tuple(Validator(seat.stash, seat.session_key, seat.vrf_key, seat.weight) for seat in seats)
        return Epoch(ValidatorSet(number, members), seed)
