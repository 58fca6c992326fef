"""Secret texts: known answers, polkadot.js' vectors, and agreement with substrate-interface."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from substrateinterface import Keypair as PublicKeypair

from error_codes import raises_code
from genesis import dev_accounts
from runtime.cryptography.signatures import Scheme
from wallet.errors import PhraseError, SuriError, WalletError
from wallet.suri import MAX_JUNCTIONS, keypair_from_suri, parse

VECTORS = json.loads((Path(__file__).parent / "vectors" / "polkadot_js.json").read_text())
PHRASE = "legal winner thank year wave sausage worth useful legal winner thank yellow"
ALICE_SEED = "0xe5be9a5092b81bca64be81d212e7f2f9eba183bb7a90954f7b76361f6edb5c0a"

letters = st.characters(codec="ascii", categories=["L", "N"])
junction_names = st.text(letters, min_size=1, max_size=40).filter(
    lambda name: not (name.startswith("0x") or (name.isdigit() and len(name) > 19))  # where public tools disagree
)
paths = st.lists(st.tuples(st.sampled_from(["/", "//"]), junction_names).map("".join), max_size=4).map("".join)


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("Alice", "5GrwvaEF5zXb26Fz9rcQpDWS57CtERHpNehXCPcNoHGKutQY"),
        ("Bob", "5FHneW46xGXgs5mUiveU4sbTyGBzmstUspZC92UhjJM694ty"),
        ("Charlie", "5FLSigC9HGRKVhB9FiEo4Y3koPsNmBmLJbpXg2mp1hXcS59Y"),
        ("Dave", "5DAAnrj7VHTznn2AWBemMuyBwZWs6FNFjdyVXUeYum3PTXFy"),
        ("Eve", "5HGjWAeFDfFCWPsjFQdVV2Msvz2XtMktvgocEZcCj68kUMaw"),
        ("Ferdie", "5CiPPseXPECbkjWCa6MnjNokrgYjMqmKndv2rSnekmSK2DjL"),
    ],
)
def test_development_accounts(name: str, address: str) -> None:
    assert keypair_from_suri(f"//{name}").address == address
    assert keypair_from_suri(f"//{name}").public_key == dev_accounts.stash(name)
    assert keypair_from_suri(f"//{name}//session", Scheme.ED25519).public_key == dev_accounts.key(name, "session")


@pytest.mark.parametrize(("text", "scheme", "public_key"), VECTORS["uris"])
def test_keys_of_polkadot_js(text: str, scheme: str, public_key: str | None) -> None:
    """Null marks soft steps of ed25519, which polkadot.js refuses as well."""
    if public_key is None:
        with raises_code(SuriError, "soft_step"):
            keypair_from_suri(text, Scheme[scheme.upper()])
    else:
        assert keypair_from_suri(text, Scheme[scheme.upper()]).public_key.hex() == public_key


@given(path=paths)
@example(path="//18446744073709551615/0//007")
@settings(max_examples=40)
def test_agreement_with_substrate_interface(path: str) -> None:
    ours, theirs = keypair_from_suri(PHRASE + path), PublicKeypair.create_from_uri(PHRASE + path)
    assert ours.public_key == theirs.public_key
    assert ours.address == theirs.ss58_address
    assert theirs.verify(b"message", ours.sign(b"message"))


def test_a_seed_in_place_of_the_phrase() -> None:
    assert keypair_from_suri(ALICE_SEED) == keypair_from_suri("//Alice")
    assert keypair_from_suri(ALICE_SEED + "//x").public_key == keypair_from_suri("//Alice//x").public_key


def test_password_and_path_may_hold_what_the_form_allows() -> None:
    suri = parse("some words//hard/soft///pass/word // x")
    assert [junction.hard for junction in suri.junctions] == [True, False]
    assert suri.password == "pass/word // x"
    assert parse("//Alice").password is None
    assert parse("//Alice///").password == ""
    assert parse("///password only").password == "password only"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("0x1234", "seed_form"),
        (ALICE_SEED + "00", "seed_form"),
        (ALICE_SEED + "///password", "seed_with_password"),
        ("", "secret_empty"),
        (" \n", "secret_empty"),
        ("//Alice/", "secret_form"),
        ("//Alice//", "secret_form"),
        ("//18446744073709551616", "ambiguous_path"),
        ("//+5", "ambiguous_path"),
        ("//0x00", "ambiguous_path"),
        ("//a" * (MAX_JUNCTIONS + 1), "secret_too_long"),
        ("//" + "a" * 1100, "secret_too_long"),
        ("//a\nb", "secret_form"),
        ("//a\ud800", "secret_form"),
    ],
)
def test_malformed_secrets_are_refused(text: str, code: str) -> None:
    with raises_code(SuriError, code):
        keypair_from_suri(text)


def test_no_message_and_no_repr_shows_a_secret() -> None:
    secret = "hunter2hunter2"
    for text in (secret, secret + "//x", "0x" + secret, "//" + secret + "/", f"{PHRASE} {secret}", "//+5" + secret):
        try:
            shown = repr(keypair_from_suri(text))
        except WalletError as error:
            shown = f"{error!r} {error.__context__!r}"
        assert secret not in shown
    assert secret not in repr(parse(f"{secret}//{secret}///{secret}"))
    keypair = keypair_from_suri("//Alice")
    assert keypair.secret_key.hex() not in repr(keypair)
    assert repr(keypair.secret_key)[2:-1] not in repr(keypair)


@given(st.text(max_size=60))
def test_arbitrary_text_gives_a_key_or_a_wallet_error(text: str) -> None:
    with suppress(SuriError, PhraseError):
        keypair_from_suri(text)
