"""Balances and transfers."""

from __future__ import annotations

from cli.calls import PlannedCall, Planning, sends
from cli.output import Account, as_text
from cli.session import WalletSession, reads
from runtime.interface.staking_api import PendingReward, StakeSummary
from runtime.pallets.balances import Balances
from runtime.pallets.pots import PROVIDER_REWARDS, RESERVE, STAKES, STAKING_REWARDS, TREASURY
from runtime.pallets.system import AccountInfo, System
from wallet.amounts import Grains
from wallet.client import ChainClient
from wallet.errors import WalletError

BALANCE_COLUMNS = ("account", "free", "reserved", "frozen", "delegated", "unbonding", "unpaid_rewards", "nonce")
WITHOUT_KEY = {
    bytes(32): "the account of 32 zero bytes",
    RESERVE: "the chain's reserve",
    TREASURY: "the chain's treasury",
    STAKING_REWARDS: "where the chain keeps unclaimed rewards",
    PROVIDER_REWARDS: "where the chain keeps providers' rewards",
    STAKES: "where the chain keeps delegated stake",
}


@reads
async def balance(session: WalletSession, client: ChainClient, accounts: tuple[str, ...]) -> None:
    """Print final balances."""
    at = await client.finalized()
    rows = []
    for name in accounts or session.keyring.names():
        who = session.account(name)
        info: AccountInfo = await client.read(System.account, who, at=at)
        data = info.data
        rows.append(
            {
                "account": name,
                "free": Grains(data.free),
                "reserved": Grains(data.reserved),
                "frozen": Grains(data.frozen),
                **await _elsewhere(client, who, at),
                "nonce": info.nonce,
            }
        )
    session.output.rows("Balances", BALANCE_COLUMNS, rows)


async def _elsewhere(client: ChainClient, who: bytes, at: bytes) -> dict[str, Grains]:
    """Return the money of an account that the chain keeps: delegations, unbonding stake, unpaid rewards."""
    summary: StakeSummary = await client.query("OgpuApi_stakes", who, at=at)
    pending: tuple[PendingReward, ...] = await client.query("OgpuApi_pending_rewards", who, at=at)
    return {
        "delegated": Grains(sum(each.value for each in summary.stakes if each.validator != who)),
        "unbonding": Grains(sum(each.value for each in summary.unlocking)),
        "unpaid_rewards": Grains(sum(each.amount for each in pending)),
    }


def _require_sense(dest: bytes, amount: int, sender: bytes) -> None:
    """Raise WalletError for a transfer without effect, and for a transfer to an account without a key."""
    if amount == 0:
        raise WalletError(
            "this sends 0 oGPU and costs the fee. Give a larger amount, or add --anyway", code="nothing_to_send"
        )
    if dest == sender:
        raise WalletError(
            "the account sends to itself and pays the fee. Name another account, or add --anyway",
            code="sends_to_itself",
        )
    if dest in WITHOUT_KEY:
        raise WalletError(
            f"{as_text(Account(dest))} is {WITHOUT_KEY[dest]}, an account without a key: a transfer to it is lost. "
            "Name another account, or add --anyway",
            code="account_without_key",
        )


@sends
async def send(by: Planning, to: str, amount: int, allow_death: bool) -> PlannedCall:
    """Plan a transfer."""
    dest = by.session.account(to)
    if not by.sending.is_anyway:
        _require_sense(dest, amount, by.payer.account)
    transfer = Balances.transfer_allow_death if allow_death else Balances.transfer_keep_alive
    return PlannedCall(transfer(dest=dest, value=amount), {"to": Account(dest), "amount": Grains(amount)}, moves=amount)
