"""A mistyped word suggests the name that was meant, and an unrelated word suggests none."""

import pytest

from wallet.suggestions import LENGTH_MAX, suggestion, suggestions


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("dvnet", ["devnet", "dev"], "devnet"),
        ("DATACENTRE", ["cpu", "datacenter"], "datacenter"),
        ("job", ["Job", "Lease"], "Job"),
        ("devnet", ["dev", "testnet"], "dev"),
        ("meta", ["spec", "metadata"], "metadata"),
        ("gpu", ["cpu"], None),
        ("H1", ["h100"], None),
        ("frobnicate", ["unit", "task"], None),
        ("", ["unit"], None),
    ],
)
def test_the_most_similar_name_or_one_that_begins_the_other(word: str, known: list[str], meant: str | None) -> None:
    assert suggestion(word, known) == meant


def test_several_are_in_the_order_of_their_similarity() -> None:
    known = ["transfer_keep_alive", "transfer_all", "set_code"]
    assert suggestions("transfer_al", known) == ["transfer_all"]
    assert suggestions("transfer", known) == ["transfer_all", "transfer_keep_alive"]
    assert suggestions("transfer", known, 1) == ["transfer_all"]


def test_a_word_of_any_length_is_compared_in_its_beginning() -> None:
    assert suggestion("spec" + "x" * 10_000_000, ["spec", "y" * LENGTH_MAX]) == "spec"


def test_a_known_name_of_any_length_is_left_out() -> None:
    assert suggestion("spec", ["spec" + "x" * LENGTH_MAX, "specs"]) == "specs"
    assert suggestion("spec", ["spec" + "x" * LENGTH_MAX]) is None
