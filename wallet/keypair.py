"""A key that signs: what the parts of the wallet hand around. Its secret shows in no print, log or comparison."""

from dataclasses import dataclass, field
from typing import Self

from runtime.cryptography import signatures, ss58
from runtime.cryptography.signatures import Scheme


@dataclass(frozen=True, slots=True)
class Keypair:
    """A public key (32 bytes, also the account id) and its secret key (64 bytes, as in `cryptography.signatures`)."""

    scheme: Scheme
    public_key: bytes
    secret_key: bytes = field(repr=False, compare=False)

    @classmethod
    def from_seed(cls, scheme: Scheme, seed: bytes) -> Self:
        """Return the key of a 32-byte seed."""
        return cls(scheme, *signatures.keypair_from_seed(scheme, seed))

    @property
    def account(self) -> bytes:
        """The 32-byte account id."""
        return self.public_key

    @property
    def address(self) -> str:
        """The account as SS58 text of this chain."""
        return ss58.encode(self.public_key)

    def sign(self, message: bytes) -> bytes:
        """The 64-byte signature of `message` as it is; what an extrinsic or a domain signs is built elsewhere."""
        return signatures.sign(self.scheme, self.public_key, self.secret_key, message)

    def __reduce__(self) -> tuple[object, ...]:
        """No pickling: a secret leaves the process in a key file or not at all."""
        raise TypeError("a key is not pickled; write it to a key file")
