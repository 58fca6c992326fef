"""The first block of a season: some who begin with nothing come to be validators with devices, like the others.

Always: what is asked for here is signed and taken like any other step.
"""

from collections.abc import Iterator

from genesis import dev_accounts
from gpu_tasks.market.devices.devices import Devices
from runtime.frame.call import Call
from runtime.pallets.balances import Balances
from runtime.pallets.staking.trust_stake import TrustStake
from scripts.replay.cast import Actor
from scripts.replay.world import OGPU
from wallet.keypair import Keypair

GIFT, BOND = 20_000 * OGPU, 12_000 * OGPU


def founding(genesis: bytes, giver: Actor, founders: list[Actor]) -> Iterator[tuple[Keypair, Call]]:
    """Each is given money, bonds it, offers to validate, and says where its blobs are; devices come by themselves."""
    for one in founders:
        yield giver.stash, Balances.transfer_keep_alive(dest=one.stash.account, value=GIFT)
        yield giver.stash, Balances.transfer_keep_alive(dest=one.provider.account, value=10 * OGPU)
        yield one.stash, TrustStake.bond(value=BOND)
        yield (
            one.stash,
            TrustStake.validate(
                keys=dev_accounts.node_keys(one.name),
                proof=dev_accounts.keys_proof(one.name, genesis),
                provider_key=one.provider.account,
                commission_ppm=50_000,
            ),
        )
        yield one.stash, Devices.register_provider(seal_key=one.vrf, endpoint=b"http://127.0.0.1:1")
