"""Whether what the chain has of a provider fits this daemon, looked at before it takes work.

A daemon that cannot open inputs would give every race back, and two such providers make the market take a unit's input
for bad, at the customer's cost; one that has another model than its offers promise would miss every race.
"""

from __future__ import annotations

from gpu_tasks.provider.chain.port import ChainPort, Identity
from gpu_tasks.provider.execution.executor import Executor


class StandingError(Exception):
    """The provider as registered is not the one that runs; the text says what to change."""


async def check_standing(chain: ChainPort, identity: Identity, executor: Executor) -> None:
    """StandingError if seal key or offers do not fit; ChainError if the chain cannot be asked."""
    provider = (await chain.providers()).get(identity.stash)
    if provider is None:
        raise StandingError("the stash is not registered as provider; run `ogpu-provider register`")
    if provider.seal_key != identity.seal_key.public:
        raise StandingError(
            "inputs are sealed to another key than this one's; run `ogpu-provider register` to change it"
        )
    numbers = {number for one in await chain.own_devices() for number, _ in one.offers}
    for number in sorted(numbers):
        terms = (await chain.service(number)).terms
        if (terms.workload, terms.model) != (executor.workload_id, executor.model_id):
            raise StandingError(
                f"a device offers service {number}, whose model 0x{terms.model.hex()[:8]}.. this daemon does not have "
                f"(it has 0x{executor.model_id.hex()[:8]}..): withdraw the offer, or install the release with it"
            )
