"""A signing key. Its secret appears in no print, log or comparison."""

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
        """Return the 64-byte signature of exactly `message`; other code builds payloads of extrinsics and domains."""
        return signatures.sign(self.scheme, self.public_key, self.secret_key, message)

    def __reduce__(self) -> tuple[object, ...]:
        """Refuse pickling: a secret leaves the process only in a key file."""
        raise TypeError("a key is not pickled; write it to a key file")
