"""The view of voters and parties: a dispute with the clocks of its round, and a voter's ballots."""

from typing import Any

from gpu_tasks.market.claims.disputes import DRAWN, DisputeStage, seeds_of
from gpu_tasks.market.claims.disputes_api import DisputesApi, DisputeStatus
from gpu_tasks.market.claims.disputes_pallet import Disputes
from gpu_tasks.market.claims.findings import Verdict
from runtime.frame.api import Apis
from simulation.chains.dispute_chain import SILENT, DisputeChain, commits, opens, vote_of
from simulation.chains.market_chain import GENESIS_HASH


def asked(stage: DisputeChain, name: str, data: bytes) -> Any:
    """Return an answer after its encoding and decoding."""
    apis = Apis(stage.chain.runtime, (DisputesApi,))
    raw = apis.call(stage.chain.state, GENESIS_HASH, f"DisputesApi_{name}", data)
    return apis.methods[f"DisputesApi_{name}"].output.decode(raw)


def test_a_dispute_is_shown_with_the_clocks_of_its_round() -> None:
    stage = DisputeChain()
    dispute_id = stage.open()
    assert asked(stage, "dispute", dispute_id) == DisputeStatus(stage.dispute(dispute_id), 0, 0, 0)
    stage.run(dispute_id, until=DisputeStage.VOTING)
    shown = asked(stage, "dispute", dispute_id)
    assert shown == DisputeStatus(stage.dispute(dispute_id), 0, 0, 0), "the draw is not final"
    stage.chain.block()
    shown = asked(stage, "dispute", dispute_id)
    assert (shown.commits_until, shown.opens_from, shown.opens_until) == (stage.chain.height + 30, 0, 0)
    while not shown.opens_from:
        stage.chain.block(*stage.steps())
        shown = asked(stage, "dispute", dispute_id)
    assert (shown.opens_from, shown.opens_until) == (stage.chain.height, stage.chain.height + 12)
    stage.run(dispute_id, until=DisputeStage.APPEALABLE)
    assert asked(stage, "dispute", dispute_id).dispute.appealable_until == stage.chain.height + 20
    stage.run(dispute_id)
    assert asked(stage, "dispute", dispute_id) is None


def test_a_voter_is_shown_its_ballots_with_open_ones_first() -> None:
    stage = DisputeChain(size=9, policy=lambda _keys, _dispute: SILENT)
    first, voters = stage.drawn()
    vote = vote_of(Verdict.RIGHT, seeds_of(stage.dispute(first)))
    stage.chain.block(*(commits(keys, first, DRAWN, vote) for keys in voters))
    second, _ = stage.drawn()
    third, _ = stage.drawn()
    stage.chain.block(opens(voters[0], first, vote))
    room = stage.chain.now()[Disputes]
    for keys in voters:
        shown = asked(stage, "ballots", keys.stash)
        wanted = [*sorted((second, third)), first] if keys == voters[0] else sorted((first, second, third))
        assert [each.id for each in shown] == wanted
        for each in shown:
            assert each.ballot == room.ballots[keys.stash, each.id]
            assert each.status == asked(stage, "dispute", each.id)
    assert asked(stage, "ballots", stage.parties[0].stash) == ()
