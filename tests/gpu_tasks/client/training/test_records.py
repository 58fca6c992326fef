"""Bids as rows: nothing is said of a place before it is decided."""

from gpu_tasks.client.training.records import auction_rows
from gpu_tasks.market.training.bids import auction_id
from gpu_tasks.market.training.tasks import TaskState
from scripts.chains.market_chain import OGPU
from task_chain import TaskChain, with_offers


def test_a_bid_has_a_fate_once_the_beacon_has_spoken() -> None:
    chain = TaskChain()
    chain.submit()
    bids = with_offers(chain.keys, 6 * OGPU, 7 * OGPU)
    for keys, offer in bids.items():
        chain.do(keys, chain.commit_call(keys, offer))

    def fates() -> set[str]:
        auction = auction_id(chain.task, 1)
        known = {device: bid for device, bid in chain.market.bids.under(auction) if bid is not None}
        return {row["fate"] for row in auction_rows(chain.now(), 1, chain.market.awards[auction], known)}

    assert fates() == {"sealed"}
    chain.until(TaskState.REVEALING)
    for keys, offer in bids.items():
        chain.do(keys, chain.reveal_call(keys, offer))
    assert fates() == {"opened"}
    chain.until(TaskState.AWARDING)
    assert fates() == {"opened"}, "who wins is known to nobody before the beacon is"
    chain.until(TaskState.STARTING)
    assert fates() == {"won", "standby"}
