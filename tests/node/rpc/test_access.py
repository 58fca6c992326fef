"""The allowed origins of requests."""

import pytest

from node.rpc.access import Access, origins_of


@pytest.mark.parametrize(
    ("origin", "is_allowed"),
    [
        ("http://localhost", True),
        ("http://localhost:3000", True),
        ("https://polkadot.js.org", True),
        ("https://polkadot.js.org.evil.example", False),
        ("https://polkadot-js.org", False),
        ("https://polkadotxjs.org", False),
        ("http://localhost:3000.evil.example", False),
        ("http://localhost.evil.example", False),
        ("http://localhost:", False),
        ("https://evil.example/http://localhost", False),
        ("null", False),
    ],
)
def test_an_origin_is_compared_whole(origin: str, *, is_allowed: bool) -> None:
    assert Access("127.0.0.1", origins_of(None)).allows(origin) == is_allowed


def test_the_operator_chooses() -> None:
    assert Access("127.0.0.1", origins_of("all")).allows("https://evil.example")
    chosen = Access("127.0.0.1", origins_of("https://mine.example"))
    assert chosen.allows("https://mine.example")
    assert not chosen.allows("http://localhost:3000")
