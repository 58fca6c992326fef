"""Who pays for what serving a message cost, and who waits for it."""

from node.p2p.frames import MessageClass
from node.p2p.work import BURST_SECONDS, PEER_SHARES, STRANGERS_SHARES, WorkAccounts

VOTES = MessageClass.CONSENSUS


def accounts() -> WorkAccounts:
    return WorkAccounts(lambda peer: peer.startswith("validator"), 0.0)


def test_what_strangers_cost_no_validator_waits_for() -> None:
    known = accounts()
    for number in range(10):
        known.charge(f"stranger{number}", VOTES, 1.0, 0.0)
    assert known.wait_seconds("validator", VOTES, 0.0) == 0.0
    assert known.wait_seconds("a new stranger", VOTES, 0.0) > 0.0


def test_what_a_validator_costs_is_its_own_affair() -> None:
    known = accounts()
    known.charge("validator1", VOTES, 100.0, 0.0)
    assert known.wait_seconds("validator1", VOTES, 0.0) > 0.0
    assert known.wait_seconds("validator2", VOTES, 0.0) == 0.0
    assert known.wait_seconds("stranger", VOTES, 0.0) == 0.0


def test_the_burst_of_a_share_is_free_and_the_rest_is_waited_for() -> None:
    known = accounts()
    share = PEER_SHARES[VOTES]
    known.charge("validator", VOTES, share * BURST_SECONDS, 0.0)
    assert known.wait_seconds("validator", VOTES, 0.0) == 0.0
    known.charge("validator", VOTES, share, 0.0)
    assert abs(known.wait_seconds("validator", VOTES, 0.0) - 1.0) < 1e-9
    assert known.wait_seconds("validator", MessageClass.GOSSIP, 0.0) == 0.0


def test_all_strangers_together_have_one_share() -> None:
    known = accounts()
    most = STRANGERS_SHARES[VOTES] * BURST_SECONDS
    for number in range(64):
        known.charge(f"stranger{number}", VOTES, most / 128, 0.0)
    assert known.wait_seconds("stranger0", VOTES, 0.0) == 0.0
    for number in range(64, 192):
        known.charge(f"stranger{number}", VOTES, most / 128, 0.0)
    assert known.wait_seconds("stranger0", VOTES, 0.0) > 0.0
