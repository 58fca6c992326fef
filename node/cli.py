"""`ogpu-node`: the declarations of its flags and commands. Both have Substrate's names, which its operators know.

Exit codes: 2 bad input, 3 database, 4 disk space, 5 offline for longer than the trusting period, 1 anything else. Every
error is one message: what happened, why, and what to do next.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from cli.deferred import runs
from cli.options import (
    HELP_NAMES,
    NodeUrl,
    OneOf,
    add_options,
    json_errors_option,
    keyring_option,
    scheme_option,
    words_option,
)  # fmt: skip
from cli.program import ProgramGroup
from consensus.parameters import SAMPLE_UNITS_MAX, SAMPLE_UNITS_MIN
from genesis.preset_names import DEV_NAMES, PRESETS
from genesis.spec import SpecError
from node.errors import BadInputError
from node.ports import DEFAULT_PORT, DEFAULT_PROMETHEUS_PORT, DEFAULT_RPC_PORT

PORT = click.IntRange(0, 65535)
ACCOUNT_OPTIONS = tuple(f"--{name.lower()}" for name in DEV_NAMES)
FOREIGN_WORDS = {
    "start": "ogpu-node",
    "run": "ogpu-node",
    "init": "Make a chain spec with `ogpu-node build-spec`, and keys with `ogpu-node key insert`.",
    "generate --type": "--scheme",
    "--ws-port": "--rpc-port",
    "--rpc-addr": "--rpc-external",
    "--unsafe-rpc-external": "--rpc-external",
    "--ws-external": "--rpc-external",
    "--datadir": "--base-path",
    "--home": "--base-path",
    "--network": "--chain",
}
"""Words of other programs. A node runs without a subcommand."""
KEY_TYPE_ADVICE = "Write ogpu for the session key, which signs votes and headers, or ogvr for the VRF key of slots."
ADDRESS_OPTIONS = ("--bootnodes", "--public-addr")

base_path_option = click.option(
    "--base-path", "-d", type=click.Path(path_type=Path), help="Folder of this node's files."
)


chain_options = add_options(
    click.option("--chain", metavar="CHAIN", help=f"{', '.join(PRESETS)}, or a chain spec file."),
    click.option("--dev", is_flag=True, help="The development chain; the node runs alone, as Alice."),
    base_path_option,
)
"""The options that name a chain and the folder of its files."""
account_options = add_options(
    *(
        click.option(
            f"--{name.lower()}", "dev_account", flag_value=name, default=None,
            help=f"Run as validator {name}, with {name}'s public keys.",
        )
        for name in DEV_NAMES
    )
)  # fmt: skip


class NodeProgram(ProgramGroup):
    """`ogpu-node`, which refuses a list of addresses behind one option, and explains a chain spec without `--chain`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words."""
        _refuse_lists(args)
        _refuse_two_accounts(args)
        return super().parse_args(ctx, args)

    def suggested(self, ctx: click.Context, word: str) -> str | None:
        """Return the command that a word means; a chain spec file belongs behind `--chain`."""
        return f"{ctx.command_path} --chain {word}" if word.endswith(".json") else super().suggested(ctx, word)


@click.group("ogpu-node", cls=NodeProgram, explained=(SpecError,), foreign_words=FOREIGN_WORDS,
             invoke_without_command=True, context_settings=HELP_NAMES)  # fmt: skip
@chain_options
@account_options
@click.option("--tmp", is_flag=True, help="Use a temporary folder, removed at the end.")
@click.option("--name", help="This node's name in logs and telemetry.")
@click.option("--validator", is_flag=True, help="Validate with the keys in the keystore.")
@click.option("--bootnodes", multiple=True, metavar="ADDRESS", help="A first peer, /ip4/../tcp/../p2p/..; repeatable.")
@click.option("--node-key", metavar="HEX", help="The network key, 32 bytes. Others see it in `ps`.")
@click.option("--node-key-file", type=click.Path(path_type=Path), help="Read the network key from this file.")
@click.option("--listen-host", metavar="HOST", help="Address to listen on for peers.  [default: 0.0.0.0]")
@click.option("--port", type=PORT, default=DEFAULT_PORT, show_default=True, help="Port for peers; 0 takes a free one.")
@click.option("--public-addr", multiple=True, metavar="ADDRESS", help="This node's public address; repeatable.")
@click.option("--rpc-port", type=PORT, default=DEFAULT_RPC_PORT, show_default=True, help="Port for JSON-RPC.")
@click.option("--no-rpc", is_flag=True, help="Do not serve JSON-RPC.")
@click.option("--rpc-external", is_flag=True, help="Serve JSON-RPC to other machines.")
@click.option(
    "--rpc-methods", type=click.Choice(["auto", "safe", "unsafe"]), default="auto", show_default=True,
    help="Methods to serve; `auto`: unsafe ones on this machine only.",
)  # fmt: skip
@click.option("--rpc-cors", metavar="ORIGINS", help="Allowed browser origins, or `all`.  [default: this machine]")
@click.option(
    "--rpc-max-connections", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Most connections.",
)  # fmt: skip
@click.option(
    "--rpc-max-request-size", type=click.IntRange(1, 15), metavar="MB", help="Most MB of a message.  [default: 1]",
)  # fmt: skip
@click.option(
    "--rpc-max-batch-request-len", type=click.IntRange(1, 10_000), help="Most calls of a batch.  [default: 500]"
)
@click.option(
    "--rpc-max-subscriptions-per-connection", type=click.IntRange(1, 4_096),
    help="Most subscriptions of a connection.  [default: 1024]",
)  # fmt: skip
@click.option("--rpc-rate-limit", type=click.IntRange(1), help="Most calls a minute of a client.  [default: 120000]")
@click.option(
    "--prometheus-port", type=PORT, default=DEFAULT_PROMETHEUS_PORT, show_default=True, help="Port for metrics.",
)  # fmt: skip
@click.option("--prometheus-external", is_flag=True, help="Serve metrics to other machines.")
@click.option("--no-prometheus", is_flag=True, help="Do not serve metrics.")
@click.option(
    "--sample", type=click.IntRange(SAMPLE_UNITS_MIN, SAMPLE_UNITS_MAX), metavar="K",
    help="Units of stake in a poll.  [default: all of up to 25 validators, else 20]",
)  # fmt: skip
@click.option("--init-sign-state", is_flag=True, help="Allow a key without a sign-state. Only for a new key.")
@click.option("--checkpoint", metavar="HEIGHT:HASH", help="A final block that you trust; see `chain-info`.")
@json_errors_option
@click.option("-l", "--log", default="info", metavar="LEVELS", help="A level, or target=level pairs, with commas.")
@click.version_option(package_name="ogpu")
@click.pass_context
def ogpu_node(context: click.Context, /, **flags: Any) -> None:
    """Run a node of an ogpu chain.

    Shell completion: eval "$(_OGPU_NODE_COMPLETE=bash_source ogpu-node)" (or zsh_source, fish_source).
    """
    if context.invoked_subcommand is None:
        from node import run  # noqa: PLC0415  # the network stack takes a second to import; nothing else needs it

        run.run(flags)


def _refuse_lists(words: Sequence[str]) -> None:
    """Raise BadInputError for several addresses behind one option: click takes the second for a subcommand."""
    for option_word, first_word, second_word in zip(words, words[1:], words[2:], strict=False):
        if option_word in ADDRESS_OPTIONS and second_word.startswith("/"):
            raise BadInputError(
                f"{option_word} takes one address. Repeat it for each: {option_word} {first_word} {option_word} "
                f"{second_word}",
                code="several_addresses",
            )


def _refuse_two_accounts(words: Sequence[str]) -> None:
    """Raise BadInputError for two shortcuts such as --alice: click would take the last one silently."""
    accounts = [account_word for account_word in dict.fromkeys(words) if account_word in ACCOUNT_OPTIONS]
    if len(accounts) > 1:
        raise BadInputError(f"{' and '.join(accounts)} name several validators. Give one", code="several_accounts")


# --- the chain


@ogpu_node.command("build-spec")
@chain_options
@click.option("--raw", is_flag=True, help="Print storage keys and values.")
@runs("node.chain_commands:build_spec", with_options=False)
def build_spec() -> None:
    """Print the chain specification."""


@ogpu_node.command("purge-chain")
@chain_options
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--with-sign-state", is_flag=True, help="Remove the sign-state too. Only if the chain starts over.")
@runs("node.chain_commands:purge_chain", with_options=False)
def purge_chain() -> None:
    """Remove the chain's database, but not keys and sign-state."""


@ogpu_node.command("chain-info")
@chain_options
@click.option("--url", type=NodeUrl(), help="Ask the running node at this JSON-RPC address.")
@runs("node.chain_commands:chain_info", with_options=False)
def chain_info() -> None:
    """Print the last final block as JSON.

    Without --url it reads the database of a stopped node. `checkpoint` is the value for --checkpoint of another node.
    """


@ogpu_node.group()
def genesis() -> None:
    """Check a chain specification."""


@genesis.command("check")
@chain_options
@runs("node.chain_commands:check_genesis", with_options=False)
def check_genesis() -> None:
    """Check the chain's numbers, and build its block 0."""


# --- keys


@ogpu_node.group()
def key() -> None:
    """Make, show and store keys."""


output_option = click.option(
    "--output-type", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form of the output.",
)  # fmt: skip
key_chain_option = click.option(
    "--chain", metavar="CHAIN", help=f"{', '.join(PRESETS)}, or a chain spec file.  [default: the base path's chain]"
)
owner_option = click.option(
    "--owner", required=True, metavar="STASH", help="The stash: a stored name, an address, or //Eve."
)


@key.command()
@scheme_option
@output_option
@words_option
@runs("node.key_commands:generate", with_options=False)
def generate() -> None:
    """Make a secret phrase, and show its account."""


@key.command()
@scheme_option
@output_option
@click.argument("uri")
@runs("node.key_commands:inspect", with_options=False)
def inspect() -> None:
    """Show the account of a secret phrase or seed.

    URI is a phrase, or 0x and 64 hex digits, with an optional path such as //stash.
    """


@key.command("generate-node-key")
@click.option("--file", "path", type=click.Path(path_type=Path), help="Write the key to this new file.")
@runs("node.key_commands:generate_node_key", with_options=False)
def generate_node_key() -> None:
    """Make a network key. The peer id goes to standard error."""


@key.command("inspect-node-key")
@click.option(
    "--file", "path", type=click.Path(path_type=Path, allow_dash=True), default="-",
    help="The key file.  [default: standard input]",
)  # fmt: skip
@runs("node.key_commands:inspect_node_key", with_options=False)
def inspect_node_key() -> None:
    """Show the peer id of a network key."""


@key.command()
@base_path_option
@key_chain_option
@click.option(
    "--key-type", type=OneOf(["ogpu", "ogvr"], KEY_TYPE_ADVICE), required=True, help="ogpu: session key; ogvr: VRF key."
)
@click.option("--suri", help="The secret phrase or seed. Others see it in `ps`.")
@click.option(
    "--suri-file",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Read the secret from this file; -: standard input.",
)
@runs("node.key_commands:insert", with_options=False)
def insert() -> None:
    """Put an ed25519 key into a chain's keystore."""


@key.command()
@base_path_option
@key_chain_option
@owner_option
@keyring_option
@runs("node.key_commands:rotate", with_options=False)
def rotate() -> None:
    """Make session and VRF keys, and print them with their proof.

    A running node takes them up by itself. Register them with `ogpu-wallet set-keys FILE`, or for a new candidate with
    `ogpu-wallet validate FILE PROVIDER_KEY`. Keep the old keys: they sign until the next election.
    """


@key.command()
@base_path_option
@key_chain_option
@owner_option
@keyring_option
@click.option("--session", metavar="KEY", help="The session key, 0x.., if there are several.")
@click.option("--vrf", metavar="KEY", help="The VRF key, 0x.., if there are several.")
@runs("node.key_commands:prove", with_options=False)
def prove() -> None:
    """Print the stored keys with their proof for the stash."""


def main(words: Sequence[str] | None = None) -> None:
    """Run the program with `words` in place of the command line."""
    ogpu_node(words, prog_name="ogpu-node")


if __name__ == "__main__":
    main()
