"""One account with the powers of Root, on development chains only: `genesis` leaves it out of all others."""

from typing import Any

from runtime.cryptography.ss58 import account_from_text
from runtime.encoding.types import AccountId, MultiAddress
from runtime.frame.errors import DispatchResultField
from runtime.frame.pallet import (
    FREE,
    Call,
    DispatchError,
    Pallet,
    PostDispatch,
    Root,
    Signed,
    StorageValue,
    call,
    ensure,
    event,
)
from runtime.pallets.weights import WEIGHTS


@event(0)
class Sudid:
    """The holder of the key made a call as Root."""

    sudo_result: DispatchResultField


@event(1)
class KeyChanged:
    """Another account received the key."""

    old: AccountId | None
    new: AccountId


class RequireSudo(DispatchError):
    """Only the holder of the key may make this call."""


class Sudo(Pallet, index=12):
    """The key, and the calls of its holder."""

    key: StorageValue[AccountId | None] = StorageValue(doc="The account with the powers of Root.")

    events = (Sudid, KeyChanged)
    errors = (RequireSudo,)

    @call(index=0, weight=lambda call: call.weight + WEIGHTS["Sudo.sudo"])
    def sudo(self, origin: Signed, call: Call) -> PostDispatch:
        """Make a call as Root. It is free, and succeeds even if the inner call fails."""
        self._require(origin)
        try:
            # In a layer of its own: a failed inner call leaves nothing, while this call succeeds.
            self.dispatch(call, Root())
        except DispatchError as failure:
            self.emit(Sudid(failure.value))
        else:
            self.emit(Sudid(None))
        return FREE

    @call(index=2, weight=WEIGHTS["Sudo.set_key"])
    def set_key(self, origin: Signed, new: MultiAddress) -> PostDispatch:
        """Give the key to another account."""
        self._require(origin)
        self.emit(KeyChanged(self.key.get(), new))
        self.key.set(new)
        return FREE

    @call(index=3, weight=lambda _who, call: call.weight + WEIGHTS["Sudo.sudo_as"])
    def sudo_as(self, origin: Signed, who: MultiAddress, call: Call) -> PostDispatch:
        """Make a call as another account."""
        self._require(origin)
        try:
            self.dispatch(call, Signed(who))
        except DispatchError as failure:
            self.emit(Sudid(failure.value))
        else:
            self.emit(Sudid(None))
        return FREE

    def genesis(self, config: dict[str, Any]) -> None:
        """Set the key to `{"key": address}`, if given."""
        if "key" in config:
            self.key.set(account_from_text(config["key"]))

    def _require(self, origin: Signed) -> None:
        ensure(origin.account == self.key.get(), RequireSudo)
