"""An expensive request, limited for each peer, with memory for a bounded number of peers."""

from node.p2p.meter import PEERS_MAX, PeerRates


def test_each_peer_has_its_own_burst_and_rate() -> None:
    rates = PeerRates(per_second=2.0, burst_max=3)
    assert [rates.may(b"a", 0) for _ in range(5)] == [True] * 3 + [False] * 2
    assert rates.may(b"b", 0)
    assert [rates.may(b"a", 500) for _ in range(2)] == [True, False]
    for number in range(PEERS_MAX + 10):
        rates.may(b"%d" % number, 0)
    assert len(rates._token_buckets) == PEERS_MAX
