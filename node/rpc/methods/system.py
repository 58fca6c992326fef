"""`system_*`: the chain and the node, and the node's health."""

from __future__ import annotations

import json

from node.feed import messages as feed
from node.rpc.block_reads import BlockReads, to_hex
from node.rpc.jsonrpc import CLIENT_ERROR, INVALID_PARAMS, Json, JsonRpcError
from node.rpc.registry import Registry, method
from node.rpc.runtime_calls import RuntimeCalls
from runtime.cryptography import ss58


class Rpc:
    """The list of methods."""

    def __init__(self, registry: Registry) -> None:
        """Create it; `registry` is read at each call, so this method is listed too."""
        self.registry = registry

    @method("rpc_methods")
    def methods(self) -> Json:
        """Return every method that may be called."""
        return {"methods": self.registry.names()}


class SystemMethods:
    """Reads about the node."""

    def __init__(self, blocks: BlockReads, runtime: RuntimeCalls) -> None:
        """Create it; it reads from the replica and asks the node for its peers."""
        self.blocks = blocks
        self.runtime = runtime

    @property
    def _node_hello(self) -> feed.FeedHello:
        hello = self.blocks.replica.hello
        if hello is None:
            raise JsonRpcError(CLIENT_ERROR, "Client error: the node is still starting")
        return hello

    @method("system_chain")
    def chain(self) -> Json:
        """Return the chain's name."""
        return self._node_hello.chain_name

    @method("system_chainType")
    def chain_type(self) -> Json:
        """Return Development, Local or Live."""
        return self._node_hello.chain_type

    @method("system_name")
    def name(self) -> Json:
        """Return the implementation's name."""
        return "ogpu-node"

    @method("system_version")
    def version(self) -> Json:
        """Return the implementation's version."""
        return self._node_hello.node_version

    @method("system_properties")
    def properties(self) -> Json:
        """Return address prefix, decimals and symbol of the token."""
        return json.loads(self._node_hello.properties)

    @method("system_health")
    def health(self) -> Json:
        """Return the number of peers, and whether the node is syncing."""
        status = self.blocks.replica.status
        return {
            "peers": status.peers if status else 0,
            # Without a status the node has not confirmed that it is in sync.
            "isSyncing": status.is_syncing if status else True,
            "shouldHavePeers": self._node_hello.chain_type != "Development",
        }

    @method("system_syncState")
    def sync_state(self) -> Json:
        """Return heights: the start, the best block, and the highest announced one."""
        status = self.blocks.replica.status
        best_height = self.blocks.best.header.number
        highest_height = status.highest_height if status else 0
        return {"startingBlock": 0, "currentBlock": best_height, "highestBlock": max(best_height, highest_height)}

    @method("system_peers")
    async def peers(self) -> Json:
        """Return every connected peer."""
        return [{**peer, "bestHash": _hex_or_none(peer.get("bestHash"))} for peer in await self.blocks.node.peers()]

    @method("system_localPeerId")
    def local_peer_id(self) -> Json:
        """Return the node's identity in the network."""
        return self._node_hello.peer_id

    @method("system_localListenAddresses")
    def listen_addresses(self) -> Json:
        """Return the addresses at which peers can reach the node."""
        return self._node_hello.listen_addresses

    @method("system_nodeRoles")
    def roles(self) -> Json:
        """Return the node's role: authority or full node."""
        return ["Authority" if self._node_hello.is_validator else "Full"]

    @method("system_accountNextIndex", "account_nextIndex")
    async def account_next_index(self, account: str) -> Json:
        """Return the nonce for the account's next extrinsic, counting those in the pool."""
        try:
            account_id = ss58.decode(account)
        except ValueError as error:
            raise JsonRpcError(INVALID_PARAMS, "Invalid params", str(error)) from None
        state_nonce = self.runtime.nonce(await self.blocks.reader(None), account_id)
        return await self.blocks.node.next_nonce(account_id, state_nonce)


def _hex_or_none(value: feed.Value) -> Json:
    return to_hex(value) if isinstance(value, bytes) else None
