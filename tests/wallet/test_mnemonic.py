"""Phrases: vectors of polkadot.js and agreement with two other implementations."""

import json
from pathlib import Path

import bip39
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mnemonic import Mnemonic

from error_codes import raises_code
from wallet import mnemonic
from wallet.errors import PhraseError
from wallet.suri import keypair_from_suri

VECTORS = json.loads((Path(__file__).parent / "vectors" / "polkadot_js.json").read_text())
VALID = "legal winner thank year wave sausage worth useful legal winner thank yellow"


@pytest.mark.parametrize(("phrase", "password", "secret"), VECTORS["mini_secrets"])
def test_mini_secrets_of_polkadot_js(phrase: str, password: str, secret: str) -> None:
    assert mnemonic.mini_secret(phrase, password).hex() == secret


@given(st.sampled_from([16, 20, 24, 28, 32]).flatmap(lambda n: st.binary(min_size=n, max_size=n)), st.text(max_size=10))
@settings(max_examples=30)
def test_agreement_with_py_bip39_bindings(entropy: bytes, password: str) -> None:
    phrase = Mnemonic("english").to_mnemonic(entropy)
    assert mnemonic.entropy_of(phrase) == entropy
    assert mnemonic.mini_secret(phrase, password) == bytes(bip39.bip39_to_mini_secret(phrase, password, "en"))


@pytest.mark.parametrize("words", mnemonic.WORD_COUNTS)
def test_generated_phrases_are_valid_and_fresh(words: int) -> None:
    phrase = mnemonic.generate(words)
    assert len(phrase.split()) == words
    assert len(mnemonic.entropy_of(phrase)) == words // 3 * 4
    assert mnemonic.generate(words) != phrase


def test_capitals_are_the_same_words() -> None:
    """The checksum decides."""
    for phrase in (VALID.capitalize(), VALID.upper(), VALID.title()):
        assert mnemonic.entropy_of(phrase) == mnemonic.entropy_of(VALID)
        assert keypair_from_suri(phrase + "//0") == keypair_from_suri(VALID + "//0")
    with raises_code(PhraseError, "phrase_checksum"):
        mnemonic.entropy_of(VALID.replace("yellow", "YEAR"))


def test_any_white_space_separates_words() -> None:
    assert mnemonic.entropy_of("  " + VALID.replace(" ", "\n\t ") + " ") == mnemonic.entropy_of(VALID)


@pytest.mark.parametrize(
    ("phrase", "code", "reason"),
    [
        ("", "phrase_length", "has 0"),
        ("legal", "phrase_length", "has 1"),
        (VALID + " legal", "phrase_length", "has 13"),
        (VALID.replace("yellow", "yelow"), "phrase_word", "word 12"),
        (VALID.replace("yellow", "year"), "phrase_checksum", "checksum"),
        ("a" * 241, "phrase_length", "24"),
    ],
)
def test_refusals_name_the_place_and_not_the_word(phrase: str, code: str, reason: str) -> None:
    with pytest.raises(PhraseError, match=reason) as refused:
        mnemonic.entropy_of(phrase)
    assert refused.value.code == code
    assert "yelow" not in str(refused.value)


@pytest.mark.parametrize("words", [0, 11, 13, 25])
def test_other_lengths_are_not_generated(words: int) -> None:
    with raises_code(PhraseError, "phrase_length"):
        mnemonic.generate(words)
