"""Names out of a catalogue: those that it has, in the order given; a name that it lacks is refused by name."""

import argparse

import pytest

from devnet.measuring.choice import chosen_from


def test_entries_in_the_order_given() -> None:
    assert chosen_from({"a": 1, "b": 2, "c": 3}, "letter")("c,a") == [3, 1]


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="no letter is called x, : there are a, b"):
        chosen_from({"a": 1, "b": 2}, "letter")("a,x,")
