"""The keys of a validator's node, with the proof that they may be registered: the output of `ogpu-node key prove`.

Invariant: returned keys were checked against the registering account and the chain, so no fee is paid for keys that the
chain refuses.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from genesis import dev_accounts
from runtime.cryptography import ss58
from runtime.encoding.codec import Codec, DecodeError, codec
from runtime.pallets.session_keys import KeysProof, SessionKeys, verify_keys
from runtime.pallets.sudo import Sudo
from wallet.client import ChainClient
from wallet.errors import WalletError

FILE_BYTES_MAX = 4_096
_KEYS: Codec[SessionKeys] = codec(SessionKeys)
_PROOF: Codec[KeysProof] = codec(KeysProof)


@dataclass(frozen=True, slots=True)
class NodeKeys:
    """Session and VRF key, and their proof for one account on one chain."""

    keys: SessionKeys
    proof: KeysProof

    def as_json(self) -> str:
        """Return the JSON form in which the node hands them to the wallet."""
        return json.dumps(
            {"keys": "0x" + _KEYS.encode(self.keys).hex(), "proof": "0x" + _PROOF.encode(self.proof).hex()}
        )


def read_node_keys(text: str, owner: bytes, client: ChainClient) -> NodeKeys:
    """Return the keys in a file, or a development chain's public keys of `//Name`.

    Raise WalletError if there are none, or if they prove nothing for `owner` on this chain.
    """
    if text.startswith("//"):
        return _well_known(text, owner, client)
    found = _parsed(Path(text))
    if not verify_keys(client.genesis_hash, owner, found.keys, found.proof):
        raise WalletError(
            f"the proof in {text} is for another account or another chain. Run `ogpu-node key prove --owner "
            f"{ss58.encode(owner)}` on the node's machine, with the node's --chain, and give its output",
            code="proof_of_another_key",
        )
    return found


def _well_known(text: str, owner: bytes, client: ChainClient) -> NodeKeys:
    # Only a development chain has Sudo. On a live chain anybody could sign with these public keys.
    if Sudo not in client.runtime.pallets:
        raise WalletError(
            f"{text} is a development key, which everybody has, and this is no development chain",
            code="development_key",
        )
    name = text.removeprefix("//")
    return NodeKeys(dev_accounts.node_keys(name), dev_accounts.keys_proof(name, client.genesis_hash, owner))


def _parsed(path: Path) -> NodeKeys:
    try:
        with path.open("rb") as file:
            # A wrong path may name a file of any size.
            fields = json.loads(file.read(FILE_BYTES_MAX))
        keys, proof = (bytes.fromhex(fields[name].removeprefix("0x")) for name in ("keys", "proof"))
        return NodeKeys(_KEYS.decode(keys), _PROOF.decode(proof))
    except OSError as error:
        raise WalletError(
            f"{path} cannot be read ({error.strerror}). Give a file with the output of `ogpu-node key prove`, or "
            "//Name on a development chain",
            code="file_unusable",
        ) from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, DecodeError):
        raise WalletError(f"{path} is not the output of `ogpu-node key prove`", code="not_node_keys") from None
