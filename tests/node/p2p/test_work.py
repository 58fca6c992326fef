"""The cost of serving a message: the peer that pays, and the peers that wait."""

from node.p2p.frames import MessageClass
from node.p2p.work import (
    BURST_SECONDS,
    MAX_ACCOUNTS,
    PEER_SHARES,
    READING_BURST_SECONDS,
    RECORD_SECONDS,
    STRANGERS_READING_BURST_SECONDS,
    STRANGERS_SHARES,
    ReadingAccounts,
    WorkAccounts,
)

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


def reading() -> ReadingAccounts:
    return ReadingAccounts(lambda peer: peer.startswith("validator"), 0.0)


def test_an_address_pays_for_all_that_come_from_it() -> None:
    known = reading()
    known.spend("203.0.113.7", "name1", 2 * READING_BURST_SECONDS, 0.0)
    for same in ("203.0.113.7", "::ffff:203.0.113.7"):
        assert known.wait(same, "name2", 0.0) > 0.0
    assert known.wait("203.0.113.8", "name2", 0.0) == 0.0
    known.spend("2001:db8:1:2::1", "name1", 1.5 * READING_BURST_SECONDS, 0.0)
    assert known.wait("2001:db8:1:2:ffff::9%eth0", "name3", 0.0) > 0.0
    assert known.wait("2001:db8:1:3::1", "name3", 0.0) == 0.0


def test_a_member_of_the_set_pays_for_itself_wherever_it_is() -> None:
    known = reading()
    known.spend("203.0.113.7", "stranger", 100.0, 0.0)
    assert known.wait("203.0.113.7", "validator1", 0.0) == 0.0
    known.spend("127.0.0.1", "validator1", 100.0, 0.0)
    assert known.wait("203.0.113.7", "validator1", 0.0) > 0.0
    assert known.wait("127.0.0.1", "validator2", 0.0) == 0.0


def test_nodes_of_one_machine_have_what_all_strangers_have() -> None:
    for loopback in ("127.0.0.1", "::1", "::ffff:127.0.0.1"):
        known = reading()
        known.spend(loopback, "name1", STRANGERS_READING_BURST_SECONDS, 0.0)
        assert known.wait(loopback, "name2", 0.0) == 0.0
        known.spend(loopback, "name1", 0.1, 0.0)
        assert known.wait(loopback, "name2", 0.0) > 0.0
        assert len(known) == 0


def test_addresses_are_remembered_up_to_a_number() -> None:
    known = reading()
    for number in range(MAX_ACCOUNTS + 100):
        known.spend(f"10.1.{number // 256}.{number % 256}", "name", 1e-6, 0.0)
    assert len(known) == MAX_ACCOUNTS


def test_who_is_heard_is_not_forgotten_for_those_who_come_after_it() -> None:
    """Otherwise a flood from one address would lose its debt through 4,096 others with one record each."""
    known = reading()
    known.spend("203.0.113.7", "name", 2 * READING_BURST_SECONDS, 0.0)
    for number in range(MAX_ACCOUNTS):
        known.spend(f"10.1.{number // 256}.{number % 256}", "name", 1e-9, 0.0)
        assert known.wait("203.0.113.7", "name", 0.0) > 0.0


def test_a_devnet_of_sixteen_nodes_on_one_machine_never_waits() -> None:
    """None of them is a validator yet. Each sends 100 frames a second, and a megabyte of blocks and extrinsics."""
    known = reading()
    for tick in range(1_000):
        now = tick / 100
        for peer in range(15):
            assert known.wait("127.0.0.1", f"node{peer}", now) == 0.0
            known.spend("127.0.0.1", f"node{peer}", RECORD_SECONDS + 25e-6 + 0.01 * 0.00075, now)
