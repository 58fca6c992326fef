"""Ids by their first digits, as tables and logs print them."""

import pytest

from cli.ids import AmbiguousIdError, first_digits, only_match
from error_codes import raises_code

IDS = [bytes.fromhex("ab" * 32), bytes.fromhex("abcd" + "00" * 30)]


@pytest.mark.parametrize("text", ["0xABCD", "abcd", "0xabcd..", "0xabcd...", "0xabcd…", "0xabcd" + "00" * 30])
def test_one_id_is_found_as_it_is_printed(text: str) -> None:
    digits = first_digits(text, 1)
    assert digits is not None
    assert only_match(text, digits, IDS) == IDS[1]


def test_a_beginning_of_none_or_of_several_is_none() -> None:
    assert only_match("0xff", "ff", IDS) is None
    with raises_code(AmbiguousIdError, "id_ambiguous"):
        only_match("0xab", "ab", IDS)


@pytest.mark.parametrize("text", ["", "0x", "0xab", "0xabcg", "last", "0x" + "a" * 65])
def test_other_texts_and_too_few_digits_are_no_beginning(text: str) -> None:
    assert first_digits(text, 4) is None
