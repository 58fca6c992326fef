"""A dispute from opening to ruling: who is drawn, what each voter loses, and who is owed a fee."""

from gpu_tasks.market.claims.disputes import DisputeStage, seeds_of
from gpu_tasks.market.claims.findings import Verdict
from simulation.chains.dispute_chain import DisputeChain, vote_of


def test_nine_voters_decide_and_nobody_loses() -> None:
    stage = DisputeChain()
    dispute_id = stage.open()
    stage.run(dispute_id, until=DisputeStage.APPEALABLE)
    dispute = stage.dispute(dispute_id)
    right = vote_of(Verdict.RIGHT, seeds_of(dispute))
    assert dispute.vote == right
    ruling = stage.run(dispute_id)
    assert ruling is not None
    assert (ruling.vote, ruling.is_appealed) == (right, False)
    assert (set(ruling.voters), ruling.appeal_voters) == (set(dispute.voters), ())
    assert len(ruling.voters) == 9
