"""What is locked for a task: as much as its customer holds for it, a dispute's bonds too."""

import asyncio

from gpu_tasks.client.commands.task_decisions import deposit, locked
from runtime.frame.api import Apis
from runtime.pallets.balances import Balances
from simulation.chains.market_chain import CUSTOMER, GENESIS_HASH
from state_node import StateNode
from task_chain import TaskChain, awarded
from wallet.client import ChainClient


def is_told(chain: TaskChain) -> bool:
    at = chain.height.to_bytes(32, "big")
    client = ChainClient(
        StateNode({chain.height: chain.chain.state}), Apis(chain.chain.runtime, ()), GENESIS_HASH, "Development"
    )
    found = asyncio.run(locked(client, chain.task, chain.now(), at))
    kept = asyncio.run(deposit(client, chain.task, chain.now(), at))
    return found + kept == sum(entry.amount for entry in chain.chain.now()[Balances].holds[CUSTOMER.stash])


def test_all_that_a_customer_holds_for_a_task_is_told() -> None:
    chain = TaskChain()
    chain.submit(slots=2)
    assert is_told(chain), "before anybody has a slot"
    chain, _ = awarded()
    chain.start(chain.alice)
    chain.finish(chain.alice)
    chain.dispute()
    assert is_told(chain)
