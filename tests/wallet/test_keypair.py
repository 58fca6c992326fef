import copy

import pytest

from runtime.cryptography import signatures
from runtime.cryptography.signatures import Scheme
from wallet.keypair import Keypair

SEED = bytes(range(32))


@pytest.mark.parametrize("scheme", list(Scheme))
def test_signatures_verify_under_the_chain_s_rule(scheme: Scheme) -> None:
    keypair = Keypair.from_seed(scheme, SEED)
    assert keypair.account == keypair.public_key
    assert signatures.verify(scheme, keypair.public_key, b"message", keypair.sign(b"message"))


@pytest.mark.parametrize("scheme", list(Scheme))
def test_the_secret_stays_inside(scheme: Scheme) -> None:
    keypair = Keypair.from_seed(scheme, SEED)
    assert "secret" not in repr(keypair)
    with pytest.raises(TypeError, match="not pickled"):  # copying uses pickling
        copy.copy(keypair)


def test_equality_is_that_of_the_public_half() -> None:
    ours = Keypair.from_seed(Scheme.SR25519, SEED)
    assert ours == Keypair(Scheme.SR25519, ours.public_key, bytes(64))
    assert ours != Keypair.from_seed(Scheme.ED25519, SEED)
