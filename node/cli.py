"""`ogpu-node`: the command line.  Flags and subcommands have Substrate's names, so that its operators are at home.

What always holds: whatever goes wrong is one message that says what, why and what to do next, and an exit code:
2 bad input, 3 database, 4 disk space, 5 away for longer than the trusting period, 1 anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from cli.deferred import add_deferred
from cli.options import HELP_NAMES, json_errors_option
from cli.program import ProgramGroup
from consensus.parameters import SAMPLE_UNITS_MAX, SAMPLE_UNITS_MIN
from genesis.preset_names import DEV_NAMES
from genesis.spec import SpecError
from node.chain_options import chain_options
from node.errors import BadInputError
from node.ports import DEFAULT_PORT, DEFAULT_PROMETHEUS_PORT, DEFAULT_RPC_PORT

PORT = click.IntRange(0, 65535)
ADDRESS_OPTIONS = ("--bootnodes", "--public-addr")
COMMANDS = {
    "build-spec": ("chain_commands:build_spec", "Print the chain specification."),
    "purge-chain": ("chain_commands:purge_chain", "Remove the chain's database; keys and sign-state stay."),
    "chain-info": (
        "chain_commands:chain_info",
        "Print number and hash of the last final block, as JSON: of a stopped node's database, or of a node that runs.",
    ),
    "genesis": ("chain_commands:genesis", "Look at the genesis of a chain specification."),
    "key": ("key_commands:key", "Make, look at and store keys."),
}


def _account_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for name in reversed(DEV_NAMES):
        text = f"Shortcut for --name {name} --validator with {name}'s well-known keys."
        function = click.option(f"--{name.lower()}", "dev_account", flag_value=name, default=None, help=text)(function)
    return function


class NodeProgram(ProgramGroup):
    """`ogpu-node`, which refuses a list of addresses behind one option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words."""
        _refuse_lists(args)
        return super().parse_args(ctx, args)


@click.group(cls=NodeProgram, explained=(SpecError,), invoke_without_command=True, context_settings=HELP_NAMES)
@chain_options
@_account_options
@click.option("--tmp", is_flag=True, help="Keep files in a temporary folder that goes with the node.")
@click.option("--name", help="What this node is called in logs and telemetry.")
@click.option("--validator", is_flag=True, help="Take part in consensus with the keys in the keystore.")
@click.option("--bootnodes", multiple=True, metavar="ADDRESS", help="Peers to begin with: /ip4/../tcp/../p2p/..")
@click.option("--node-key", metavar="HEX", help="The 32-byte secret that names this node on the network.")
@click.option("--listen-host", metavar="HOST", help="Address for peers to connect to.  [default: 0.0.0.0]")
@click.option("--port", type=PORT, default=DEFAULT_PORT, show_default=True, help="Port for peers; 0: any free one.")
@click.option(
    "--public-addr", multiple=True, metavar="ADDRESS", help="Where peers reach this node: /ip4/../tcp/.. (repeatable)."
)
@click.option(
    "--rpc-port", type=PORT, default=DEFAULT_RPC_PORT, show_default=True, help="JSON-RPC, HTTP and WebSocket."
)
@click.option("--no-rpc", is_flag=True, help="Do not start the RPC process.")
@click.option("--rpc-external", is_flag=True, help="Serve RPC to other machines.")
@click.option("--rpc-methods", type=click.Choice(["auto", "safe", "unsafe"]), default="auto", show_default=True)
@click.option("--rpc-cors", metavar="ORIGINS", help="Browser origins that may connect, or `all`; this machine.")
@click.option("--rpc-max-connections", type=click.IntRange(1, 10_000), default=100, show_default=True)
@click.option("--rpc-max-request-size", type=click.IntRange(1, 15), metavar="MB", help="The longest message; 1.")
@click.option("--rpc-max-batch-request-len", type=click.IntRange(1, 10_000), help="Calls in one batch; 500.")
@click.option("--rpc-max-subscriptions-per-connection", type=click.IntRange(1, 4_096), help="1024.")
@click.option("--rpc-rate-limit", type=click.IntRange(1), help="Calls of one client in a minute; 120,000.")
@click.option("--prometheus-port", type=PORT, default=DEFAULT_PROMETHEUS_PORT, show_default=True)
@click.option("--prometheus-external", is_flag=True, help="Serve metrics to other machines.")
@click.option("--no-prometheus", is_flag=True, help="Do not serve metrics.")
@click.option(
    "--sample",
    type=click.IntRange(SAMPLE_UNITS_MIN, SAMPLE_UNITS_MAX),
    metavar="K",
    help="Poll K units of stake each time.  [default: every validator, or 20 units where more than 25 sit]",
)
@click.option(
    "--init-sign-state",
    is_flag=True,
    help="Begin a sign-state on a chain that has begun: only for a key that never signed.",
)
@click.option(
    "--checkpoint",
    metavar="HEIGHT:HASH",
    help="A final block known from a source that you trust: for a node that is new or was away for long.",
)
@json_errors_option
@click.option("-l", "--log", default="info", metavar="LEVELS", help="A level, or target=level pairs, with commas.")
@click.version_option(package_name="ogpu")
@click.pass_context
def ogpu_node(context: click.Context, /, **flags: Any) -> None:
    """A node of an ogpu chain.  Without a subcommand: run it.

    Shell completion: eval "$(_OGPU_NODE_COMPLETE=bash_source ogpu-node)" (or zsh_source, fish_source).
    """
    if context.invoked_subcommand is None:
        from node import run  # noqa: PLC0415  # the network stack takes a second to import; nothing else needs it

        run.run(flags)


add_deferred(ogpu_node, "node", COMMANDS)


def _refuse_lists(words: Sequence[str]) -> None:
    """Raise BadInputError for several addresses behind one option: click takes the second for a subcommand."""
    for option, first, second in zip(words, words[1:], words[2:], strict=False):
        if option in ADDRESS_OPTIONS and second.startswith("/"):
            raise BadInputError(
                f"{option} takes one address: give it again before each, {option} {first} {option} {second}"
            )


def main(words: Sequence[str] | None = None) -> None:
    """The `ogpu-node` program; `words` stand in for the command line."""
    ogpu_node(words, prog_name="ogpu-node")


if __name__ == "__main__":
    main()
