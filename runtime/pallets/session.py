"""Who validates, in the form that explorers read: SDK names, filled in by the pallet that elects.

Keys are linked to validators in TrustStake; this pallet only mirrors who holds office in which session.
"""

from typing import Annotated

from runtime.encoding.codec import U32, Bounded
from runtime.encoding.types import AccountId
from runtime.frame.pallet import Pallet, StorageValue, event

VALIDATORS_MAX = 1_000
Validators = Annotated[tuple[AccountId, ...], Bounded(VALIDATORS_MAX)]


@event(0)
class NewSession:
    """A session began; sessions are epochs."""

    session_index: U32


class Session(Pallet, index=5):
    """The validators in office."""

    validators: StorageValue[Validators] = StorageValue(default=(), doc="Stashes of the validators in office.")
    current_index: StorageValue[U32] = StorageValue(default=0, doc="The session, which is the epoch.")
    queued_changed: StorageValue[bool] = StorageValue(
        default=False, doc="Whether the next session has other validators."
    )

    events = (NewSession,)

    def begin(self, index: int, validators: tuple[bytes, ...], next_differs: bool = False) -> None:
        """Note that session `index` began with these validators."""
        self.current_index.set(index)
        self.validators.set(validators)
        self.queued_changed.set(next_differs)
        if index:
            self.emit(NewSession(index))
