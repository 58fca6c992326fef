"""The connection that yields to a newcomer, step by step."""

from dataclasses import dataclass

import pytest

from http_server.places import NoPlaceError, PlaceLimits, who_yields

HERE = None


@dataclass(eq=False)
class Seated:
    """A guest as a test sets it."""

    network: str | None
    is_idle: bool
    active_at: float
    name: str = ""


def guests(text: str) -> list[Seated]:
    """Return connections: `A1` is busy and of network A, `a1` idle, `H1` and `h1` local.

    The digit is the last activity.
    """
    return [
        Seated(HERE if word[0] in "hH" else word[0].upper(), word[0].islower(), float(word[1]), word)
        for word in text.split()
    ]


LIMITS = PlaceLimits(total=6, of_network=3, kept_for_this_machine=2)


@pytest.mark.parametrize(
    ("inside", "newcomer", "yields"),
    [
        ("", "A", ""),
        ("A1 A2", "A", ""),
        ("A1 A2 a4 b3", "A", "a4"),  # its share is used: only one of its own leaves
        ("A1 A2 A4 b3", "A", None),
        ("A1 A2 B3 b4", "C", "b4"),  # two places are kept for this machine
        ("A1 A2 b3 a4", "C", "b3"),
        ("A1 A2 A3 B4", "C", "A1"),  # all are busy: the network with the most loses the quietest
        ("A1 B2 C3 D4", "E", None),
        ("A1 A2 B3 B4", "A", None),  # to replace one would only turn the two around
        ("A1 A2 A3 B4", "B", "A1"),
        ("H1 H2 A3 A4 B5 B6", "C", "A3"),  # never one of this machine
        ("A1 B2 C3 D4", HERE, ""),
        ("A1 B2 C3 D4 H5 H6", HERE, None),
        ("A1 B2 C3 D4 H5 h6", HERE, "h6"),
        ("A1 B2 C3 d4 H5 H6", HERE, "d4"),
        ("H1 H2 H3 H4 H5 H6", "A", None),  # strangers have no claim on the places of this machine
        ("H1 H2 H3 h4 H5 H6", "A", None),
        ("H1 H2 H3 H4 H5 a6", "B", "a6"),
    ],
)
def test_who_yields(inside: str, newcomer: str | None, yields: str | None) -> None:
    seated = guests(inside)
    if yields is None:
        with pytest.raises(NoPlaceError):
            who_yields(seated, newcomer, LIMITS)
        return
    found = who_yields(seated, newcomer, LIMITS)
    assert (found.name if found is not None else "") == yields


def test_a_server_for_one_network_behind_a_proxy_uses_every_place() -> None:
    assert who_yields(guests("H1 H2 H3 H4 H5"), HERE, LIMITS) is None
