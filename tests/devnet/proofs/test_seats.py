"""The commands that `make seats` reads from the documents."""

import pytest

from devnet.proofs.seats import ASKS_NOTHING, documented_commands


def test_the_way_to_a_seat_is_five_commands() -> None:
    commands = [command.split() for command in documented_commands("Become a validator")]
    assert [words[:2] for words in commands] == [
        ["ogpu-node", "key"],
        ["ogpu-node", "--chain"],
        ["ogpu-wallet", "stake"],
        ["ogpu-wallet", "validate"],
        ["ogpu-wallet", "candidates"],
    ]
    assert commands[-1][1] in ASKS_NOTHING
    assert all("#" not in words for words in commands), "comments are left out"


def test_a_title_that_is_gone_is_no_empty_list() -> None:
    with pytest.raises(ValueError, match="substring"):
        documented_commands("Become a bank")
