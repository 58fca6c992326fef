"""The configuration of one node: its checked options, its chain and its files.

Invariant: a `Config` can be started, as far as this is known without network and database.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from string import hexdigits

from consensus.headers import TrustedBlock
from genesis.preset_names import PRESETS
from genesis.presets import load_spec
from genesis.spec import SPEC_BYTES_MAX, ChainSpec, SpecError
from node.errors import BadInputError
from node.ports import DEFAULT_PORT, DEFAULT_PROMETHEUS_PORT, DEFAULT_RPC_PORT
from runtime.cryptography.hashing import blake2_256
from wallet.suggestions import suggestion

NAME_LENGTH_MAX = 64
BOOTNODES_MAX = 64
PUBLIC_ADDRESSES_MAX = 4
HEIGHT_MAX = 2**32 - 1
HEIGHT_DIGITS_MAX = 10
SOCKET_PATH_BYTES_MAX = 100  # the system's limit is 107


@dataclass(frozen=True, slots=True)
class Paths:
    """The files of one chain under a base path, laid out as Substrate lays them out."""

    base: Path
    chain_id: str

    @property
    def chain(self) -> Path:
        """The folder of this chain."""
        return self.base / "chains" / self.chain_id

    @property
    def database(self) -> Path:
        """LevelDB."""
        return self.chain / "db"

    @property
    def keystore(self) -> Path:
        """Session and VRF keys."""
        return self.chain / "keystore"

    @property
    def node_key(self) -> Path:
        """The key that names this node on the network."""
        return self.chain / "network" / "secret_ed25519"

    @property
    def peers(self) -> Path:
        """Addresses of reached peers."""
        return self.chain / "network" / "peers"

    @property
    def sign_states(self) -> Path:
        """The sign-states of the session keys; never inside the database."""
        return self.chain / "sign-states"

    def sign_state(self, session: bytes) -> Path:
        """Return the sign-state of a session key, by its public half."""
        return self.sign_states / session.hex()

    @property
    def only_sign_state(self) -> Path:
        """The sign-state of nodes with a single key, which a start takes over."""
        return self.chain / "sign-state"

    @property
    def preference(self) -> Path:
        """The preferred tip, written without sync."""
        return self.chain / "preference"

    @property
    def rounds(self) -> Path:
        """Certificates of unsettled rounds."""
        return self.chain / "rounds"

    @property
    def rpc_socket(self) -> Path:
        """The socket between node and RPC process; in the temporary folder if the path is too long."""
        socket_path = self.chain.absolute() / "rpc.sock"
        if len(bytes(socket_path)) <= SOCKET_PATH_BYTES_MAX:
            return socket_path
        socket_name = blake2_256(bytes(socket_path)).hex()[:16]
        return Path(tempfile.gettempdir()) / f"ogpu-{os.getuid()}" / f"{socket_name}.sock"


@dataclass(frozen=True, slots=True)
class RpcConfig:
    """The options of the RPC process; None keeps its own default."""

    port: int = DEFAULT_RPC_PORT
    external: bool = False
    methods: str = "auto"
    cors: str | None = None
    connections_max: int = 100
    request_mebibytes: int | None = None
    batch_max: int | None = None
    subscriptions_max: int | None = None
    calls_per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """One node."""

    chain: str
    base_path: Path
    name: str
    is_validator: bool = False
    dev_account: str | None = None
    bootnodes: tuple[str, ...] = ()
    node_key: bytes | None = None
    listen_host: str = "0.0.0.0"  # noqa: S104  # peers are meant to reach it
    port: int = DEFAULT_PORT
    public_addresses: tuple[str, ...] = ()
    rpc: RpcConfig | None = RpcConfig()
    prometheus_port: int | None = DEFAULT_PROMETHEUS_PORT
    prometheus_external: bool = False
    sample_units: int | None = None
    init_sign_state: bool = False
    checkpoint: TrustedBlock | None = None
    log: str = "info"

    def __post_init__(self) -> None:
        """Raise BadInputError for options that cannot work."""
        if not 1 <= len(self.name) <= NAME_LENGTH_MAX or not self.name.isprintable():
            raise BadInputError(f"--name must be 1 to {NAME_LENGTH_MAX} printable characters", code="name_unusable")
        if len(self.bootnodes) > BOOTNODES_MAX:
            raise BadInputError(
                f"there are more than {BOOTNODES_MAX} --bootnodes. Leave some out", code="too_many_addresses"
            )
        if len(self.public_addresses) > PUBLIC_ADDRESSES_MAX:
            raise BadInputError(
                f"peers remember at most {PUBLIC_ADDRESSES_MAX} --public-addr. Leave some out",
                code="too_many_addresses",
            )
        if self.node_key is not None and len(self.node_key) != 32:
            raise BadInputError(
                f"the network key has {len(self.node_key)} bytes, and must have 32. "
                "Make one with `ogpu-node key generate-node-key --file FILE`",
                code="not_a_network_key",
            )
        if self.rpc and self.rpc.external and self.is_validator and self.rpc.methods != "unsafe":
            raise BadInputError(
                "--rpc-external exposes a validator's RPC to everyone. Serve RPC from a node that does not validate, "
                "or confirm with --rpc-methods unsafe",
                code="rpc_exposed",
            )
        wanted_ports = (self.port, self.rpc.port if self.rpc else None, self.prometheus_port)
        chosen_ports = [wanted_port for wanted_port in wanted_ports if wanted_port]  # 0 takes any free port
        if len(set(chosen_ports)) != len(chosen_ports):
            raise BadInputError(
                f"two services share one of the ports {', '.join(map(str, chosen_ports))}. Give each its own",
                code="ports_collide",
            )


def default_base_path() -> Path:
    """Return the folder of a node's files without --base-path."""
    return Path.home() / ".local" / "share" / "ogpu-node"


def read_checkpoint(checkpoint_text: str) -> TrustedBlock:
    """Read the HEIGHT:HASH of --checkpoint. Raise BadInputError for another form."""
    height_text, _, block_hash = checkpoint_text.partition(":")
    hash_digits = block_hash.removeprefix("0x")
    # isdecimal alone takes the digits of other scripts, and fromhex takes blanks.
    is_height = height_text.isascii() and height_text.isdecimal() and len(height_text) <= HEIGHT_DIGITS_MAX
    if (
        not is_height
        or not 0 < int(height_text) <= HEIGHT_MAX
        or len(hash_digits) != 64
        or set(hash_digits) - set(hexdigits)
    ):
        raise BadInputError(
            f"--checkpoint {checkpoint_text:.80} is not HEIGHT:HASH, as in 1234:0x and 64 hex digits. Ask an operator "
            "whom you trust for the `checkpoint` of `ogpu-node chain-info`",
            code="checkpoint_unusable",
        )
    return TrustedBlock(int(height_text), bytes.fromhex(hash_digits))


def chosen_spec(chain: str | None, *, dev: bool) -> ChainSpec:
    """Return the specification that --chain or --dev names."""
    if dev and chain not in {None, "dev"}:
        raise BadInputError(
            f"--dev means --chain dev. Leave out --chain {chain}, or --dev", code="options_exclude_each_other"
        )
    default_name = "dev" if dev else "local"
    spec_name = chain or default_name
    if spec_name in PRESETS:
        return load_spec(spec_name)
    path = Path(spec_name)  # a stranger's file is checked before anything is written
    if not path.is_file():
        raise BadInputError(_unknown_chain(spec_name), code="unknown_chain")
    if path.stat().st_size > SPEC_BYTES_MAX:
        raise BadInputError(
            f"{path} has more than {SPEC_BYTES_MAX:,} bytes, so it is no chain spec", code="chain_spec_unusable"
        )
    try:
        return load_spec(path.read_bytes())
    except SpecError as error:
        text = f"{path} is not a usable chain spec: {error}. `ogpu-node build-spec` prints a usable one"
        raise BadInputError(text, code="chain_spec_unusable") from error


def _unknown_chain(chain_name: str) -> str:
    similar_name = suggestion(chain_name, PRESETS)
    next_step = f"Did you mean --chain {similar_name}?" if similar_name else "Check the path of the chain spec file"
    return f"--chain {chain_name} is neither {' nor '.join(PRESETS)} nor a file. {next_step}"
