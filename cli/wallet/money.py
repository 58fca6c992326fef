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
    block_hash = await client.finalized()
    rows = []
    for account_name in accounts or session.keyring.names():
        account = session.account(account_name)
        info: AccountInfo = await client.read(System.account, account, at=block_hash)
        data = info.data
        rows.append(
            {
                "account": account_name,
                "free": Grains(data.free),
                "reserved": Grains(data.reserved),
                "frozen": Grains(data.frozen),
                **await _elsewhere(client, account, block_hash),
                "nonce": info.nonce,
            }
        )
    session.output.rows("Balances", BALANCE_COLUMNS, rows)


async def _elsewhere(client: ChainClient, account: bytes, block_hash: bytes) -> dict[str, Grains]:
    """Return the money of an account that the chain keeps: delegations, unbonding stake, unpaid rewards."""
    stake_summary: StakeSummary = await client.query("OgpuApi_stakes", account, at=block_hash)
    pending_rewards: tuple[PendingReward, ...] = await client.query("OgpuApi_pending_rewards", account, at=block_hash)
    return {
        "delegated": Grains(sum(stake.value for stake in stake_summary.stakes if stake.validator != account)),
        "unbonding": Grains(sum(stake.value for stake in stake_summary.unlocking)),
        "unpaid_rewards": Grains(sum(stake.amount for stake in pending_rewards)),
    }


def _require_sense(recipient: bytes, amount: int, sender: bytes) -> None:
    """Raise WalletError for a transfer without effect, and for a transfer to an account without a key."""
    if amount == 0:
        raise WalletError(
            "this sends 0 oGPU and costs the fee. Give a larger amount, or add --anyway", code="nothing_to_send"
        )
    if recipient == sender:
        raise WalletError(
            "the account sends to itself and pays the fee. Name another account, or add --anyway",
            code="sends_to_itself",
        )
    if recipient in WITHOUT_KEY:
        raise WalletError(
            f"{as_text(Account(recipient))} is {WITHOUT_KEY[recipient]}, an account without a key: a transfer to it "
            "is lost. Name another account, or add --anyway",
            code="account_without_key",
        )


@sends
async def send(planning: Planning, to: str, amount: int, allow_death: bool) -> PlannedCall:
    """Plan a transfer."""
    recipient = planning.session.account(to)
    if not planning.sending.is_anyway:
        _require_sense(recipient, amount, planning.payer.account)
    # A transfer of nearly everything could close the account, so that takes an option, as in Substrate's wallets.
    transfer = Balances.transfer_allow_death if allow_death else Balances.transfer_keep_alive
    return PlannedCall(
        transfer(dest=recipient, value=amount), {"to": Account(recipient), "amount": Grains(amount)}, moves=amount
    )
