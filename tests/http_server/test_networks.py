"""The network of an address."""

import pytest

from http_server.known_callers import network_of


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("127.0.0.1", None),
        ("::1", None),
        ("::ffff:127.0.0.1", None),
        ("127.0.0.66", "127.0.0.66"),
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:ffff", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_network_of(host: str, network: str | None) -> None:
    assert network_of(host) == network
