"""Two connections between two nodes: in any order, both sides keep the same one. Bans end and are bounded."""

from dataclasses import dataclass
from typing import Any

import pytest

from node.p2p.peer_table import MAX_BANS, SIMULTANEOUS_SECONDS, PeerTable

LOW, HIGH = "12D3KooWA", "12D3KooWB"


@dataclass
class OneEnd:
    """A substitute for a connection, seen from one end."""

    peer_id: str
    initiator: bool


@dataclass
class OneLink:
    """A substitute for a link."""

    connection: OneEnd
    connected_at: float

    @property
    def peer_id(self) -> str:
        return self.connection.peer_id


def link(peer: str, *, dialled_by_us: bool, since: float = 0.0) -> Any:
    return OneLink(OneEnd(peer, dialled_by_us), since)


@pytest.mark.parametrize("own", [LOW, HIGH])
@pytest.mark.parametrize("first_by_low", [True, False])
def test_of_two_at_once_the_one_that_the_lower_id_dialled_stays(own: str, first_by_low: bool) -> None:
    table = PeerTable(own)
    other = HIGH if own == LOW else LOW
    we_are_low = own == LOW
    table.put(link(other, dialled_by_us=first_by_low == we_are_low))
    keeps_first = table.keeps_old(other, dialled_by_us=(not first_by_low) == we_are_low, now=1.0)
    assert keeps_first is first_by_low


@pytest.mark.parametrize("own", [LOW, HIGH])
def test_a_later_connection_or_one_in_the_same_direction_replaces_the_first(own: str) -> None:
    table = PeerTable(own)
    other = HIGH if own == LOW else LOW
    for first_by_us in (True, False):
        table.put(link(other, dialled_by_us=first_by_us))
        assert not table.keeps_old(other, dialled_by_us=first_by_us, now=0.0)
        assert not table.keeps_old(other, dialled_by_us=not first_by_us, now=SIMULTANEOUS_SECONDS + 1)


def test_a_replaced_link_cannot_take_out_its_successor() -> None:
    table = PeerTable(LOW)
    first: Any = link(HIGH, dialled_by_us=True)
    second: Any = link(HIGH, dialled_by_us=True)
    assert table.put(first) is None
    assert id(table.put(second)) == id(first)
    assert not table.remove(first)
    assert id(table.get(HIGH)) == id(second)
    assert table.remove(second)
    assert len(table) == 0


def test_bans_end_and_are_bounded() -> None:
    table = PeerTable(LOW)
    table.ban(HIGH, 10.0)
    table.ban(HIGH, 5.0)
    assert table.is_banned(HIGH, 9.9)
    assert not table.is_banned(HIGH, 10.0)
    for number in range(MAX_BANS + 10):
        table.ban(f"peer{number}", float(number))
    assert len(table._banned_until) == MAX_BANS
    assert not table.is_banned("peer0", -1.0)
