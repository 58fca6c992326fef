"""Whether an account can pay for what it is about to send, said before it is sent.

Always: the chain judges; this only turns its terse refusal into numbers beforehand.
"""

from runtime.pallets.system import AccountInfo, System
from wallet.amounts import Grains, format_amount
from wallet.client import ChainClient
from wallet.errors import WalletError


class FundsError(WalletError):
    """The account has less than it takes."""


async def spendable(client: ChainClient, account: bytes) -> int:
    """Grains that the account can lock or pay after the final block."""
    return spendable_of(await client.read(System.account, account))


def spendable_of(info: AccountInfo) -> int:
    """Grains that an account like this can lock or pay: what is frozen is covered by reserves first."""
    return max(0, info.data.free - max(0, info.data.frozen - info.data.reserved))


def grains_of(amount: int | None) -> Grains | None:
    """Return an amount as it is shown; None for one that is not known."""
    return None if amount is None else Grains(amount)


def require(available: int, needed: int, what: str) -> None:
    """FundsError that says what there is and what `what` takes."""
    if available < needed:
        raise FundsError(
            f"the account can spend {format_amount(available)} oGPU, and {what} takes {format_amount(needed)}: "
            "send it more with `ogpu-wallet send`, or ask for less"
        )
