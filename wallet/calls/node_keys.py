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
from wallet.errors import KeyFileError, WalletError
from wallet.private_file import read_plain

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


def read_node_keys(keys_text: str, owner: bytes, client: ChainClient) -> NodeKeys:
    """Return the keys in a file, or a development chain's public keys of `//Name`.

    Raise WalletError if there are none, or if they prove nothing for `owner` on this chain.
    """
    if keys_text.startswith("//"):
        return _well_known(keys_text, owner, client)
    node_keys = _parsed(Path(keys_text))
    if not verify_keys(client.genesis_hash, owner, node_keys.keys, node_keys.proof):
        raise WalletError(
            f"the proof in {keys_text} is for another account or another chain. Run `ogpu-node key prove --owner "
            f"{ss58.encode(owner)}` on the node's machine, with the node's --chain, and give its output",
            code="proof_of_another_key",
        )
    return node_keys


def _well_known(keys_text: str, owner: bytes, client: ChainClient) -> NodeKeys:
    # Only a development chain has Sudo. On a live chain anybody could sign with these public keys.
    if Sudo not in client.runtime.pallets:
        raise WalletError(
            f"{keys_text} is a development key, which everybody has, and this is no development chain",
            code="development_key",
        )
    account_name = keys_text.removeprefix("//")
    return NodeKeys(
        dev_accounts.node_keys(account_name), dev_accounts.keys_proof(account_name, client.genesis_hash, owner)
    )


def _parsed(keys_path: Path) -> NodeKeys:
    try:
        json_fields = json.loads(read_plain(keys_path, FILE_BYTES_MAX))
        keys_bytes, proof_bytes = (
            bytes.fromhex(json_fields[field_name].removeprefix("0x")) for field_name in ("keys", "proof")
        )
        return NodeKeys(_KEYS.decode(keys_bytes), _PROOF.decode(proof_bytes))
    except KeyFileError as error:
        raise WalletError(
            f"{error}. Give a file with the output of `ogpu-node key prove`, or //Name on a development chain",
            code=error.code,
        ) from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, DecodeError):
        raise WalletError(f"{keys_path} is not the output of `ogpu-node key prove`", code="not_node_keys") from None
