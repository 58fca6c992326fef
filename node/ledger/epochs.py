"""Validators and seed of each epoch, as the final state and the handoffs of ended epochs determine them.

Invariant: an answer for an epoch never changes once it was given, because it follows from final blocks only.
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
        """`final_state` reads the newest final state, also after it moved; `handed` the handoff to an epoch.

        The state forgets the sets of which no evidence counts any more: a restart would give no answer there.
        """
        self._runtime = runtime
        self._final_state = final_state
        self._handed = handed
        self._known: dict[int, Epoch] = {}

    def __call__(self, number: int) -> Epoch | None:
        """Return the epoch of that number; None while the final chain does not determine it."""
        found = self._known.get(number)
        if found is None and (found := self._read(number)) is not None:
            self._known[number] = found
            if len(self._known) > KEPT_MAX:
                del self._known[next(iter(self._known))]
        return found

    def seated(self) -> frozenset[bytes]:
        """Session keys of the set in office and of the one elected, as of the last final state."""
        bound = self._runtime.at(self._final_state)
        stake, epoch = bound[TrustStake], bound[Beacon].epoch()
        in_office = {seat.session_key for number in (epoch, epoch + 1) for seat in stake.validators(number)}
        elected = (stake.candidates[standing.stash] for standing in stake.elected.get())
        return frozenset(in_office | {candidate.session_key for candidate in elected if candidate is not None})

    def _read(self, number: int) -> Epoch | None:
        bound = self._runtime.at(self._final_state)
        beacon = bound[Beacon]
        # The slots of a past epoch are all final: what is still needed of it is who signed its certificates.
        seed = UNKNOWN_SEED if number < beacon.epoch() else beacon.seed_of(number)
        if seed is None:
            return None
        seats = self._handed(number) or bound[TrustStake].validators(number)
        if not seats:  # of a set that is not elected yet, or so old that nothing said by it counts
            return None
        members = tuple(Validator(seat.stash, seat.session_key, seat.vrf_key, seat.weight) for seat in seats)
        return Epoch(ValidatorSet(number, members), seed)
