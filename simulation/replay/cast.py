"""Who acts on a recorded chain: the accounts of the development phrase, with keys of both kinds."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from runtime.cryptography.signatures import Scheme
from wallet.keypair import Keypair
from wallet.suri import keypair_from_suri

VALIDATORS = ("Alice", "Bob", "Charlie", "Dave")
OUTSIDERS = ("Eve", "Ferdie")
NODES = tuple(f"Node{number}" for number in range(7, 15))
"""Who sits besides on a chain of more validators, by the names that presets give; elsewhere they come as walkers do."""
WALKERS = tuple(f"Walker{number}" for number in range(4))


@dataclass(frozen=True)
class Actor:
    """One of them: `//name`, and the ed25519 keys that a provider or validator has besides."""

    name: str
    scheme: Scheme = Scheme.SR25519

    @cached_property
    def stash(self) -> Keypair:
        """The account itself."""
        return keypair_from_suri(f"//{self.name}", self.scheme)

    @cached_property
    def provider(self) -> Keypair:
        """The key of its provider daemon."""
        return keypair_from_suri(f"//{self.name}//provider", Scheme.ED25519)

    @cached_property
    def session(self) -> Keypair:
        """The key that seals blocks."""
        return keypair_from_suri(f"//{self.name}//session", Scheme.ED25519)

    @cached_property
    def vrf(self) -> bytes:
        """The public key of its lots."""
        return keypair_from_suri(f"//{self.name}//vrf", Scheme.ED25519).public_key


ACTORS: Sequence[Actor] = (
    *(Actor(name) for name in VALIDATORS + OUTSIDERS + NODES),
    *(Actor(name, Scheme(place % 2)) for place, name in enumerate(WALKERS)),
)
BY_STASH = {actor.stash.account: actor for actor in ACTORS}
