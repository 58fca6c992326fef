"""`ogpu-provider`: offer this machine's devices, and do the work that they are drawn for.

Exit codes: 0 done (of `run`: stopped, or its provider has left), 1 the chain or the node refused, 2 something to set
right in what was given.
"""

from __future__ import annotations

from pathlib import Path

import click

from cli.deferred import add_deferred
from cli.options import HELP_NAMES, checkpoint_option, genesis_option, json_option, trust_option, url_option
from cli.program import ProgramGroup
from wallet.trust import Trust

DEFAULT_BASE = Path("~/.ogpu/provider")
COMMANDS = {
    "run": (
        "run:run",
        "Work until stopped (SIGINT, SIGTERM): race, attest, judge, with every registered device of this machine.",
    ),
    "doctor": (
        "doctor:doctor",
        "Say what machine, key and chain lack for the daemon to earn, and what to do; exits with 1 if anything.",
    ),
    "devices": ("status:devices", "List this machine's devices; without a GPU the reason stands beside the CPU."),
    "inventory": (
        "inventory:inventory",
        "Show what the daemon publishes: devices, drivers, processor, memory, disk, policy.",
    ),
    "status": (
        "status:status",
        "Show devices, what they are at, duties, disputes and seats, the sums of the journal, and what was earned.",
    ),
    "register": (
        "register:register",
        "Register provider, device and offer; bonds and offers to validate first, where that is missing.",
    ),
    "bench": (
        "bench:bench",
        "Measure what each device here computes at roll calls, all at once, and name the work to enrol with.",
    ),
    "enrol": (
        "bench:enrol",
        "Have DEVICE (0x.., or the beginning of it) answer roll calls, from the next one on; a bond is held for it.",
    ),
    "withdraw": (
        "bench:withdraw",
        "Have DEVICE answer no roll calls any more, and take its bond back; what it had proven is over.",
    ),
    "offer": ("offers:offer", "Have DEVICE (0x.., or the beginning of it) work for a service, or change its price."),
    "withdraw-offer": (
        "offers:withdraw_offer",
        "Have DEVICE work for a service no more, and take the offer's deposit back; what is assigned stays.",
    ),
    "queue": (
        "offers:queue",
        "Have DEVICE (0x.., or the beginning of it) be drawn for so many UNITS while it works on one: 0 to 15.",
    ),
    "pause": (
        "offers:pause",
        "Take no new work with a device (0x.., or the beginning of it), or with all; what is assigned goes on.",
    ),
    "resume": ("offers:resume", "Take work again with a paused device (0x.., or the beginning of it), or with all."),
    "auctions": (
        "auctions:auctions",
        "List the tasks at auction, which of them have a bid of this provider's, and why the others have none.",
    ),
    "policy": (
        "auctions:policy",
        "Show what the daemon of this base path bids for, or change what is given; it goes by it from its next block.",
    ),
    "drain": (
        "auctions:drain",
        "Take nothing new: no bids, units with no device; what there is, is ended. `run` says when nothing is left.",
    ),
    "earnings": (
        "earnings:earnings",
        "Show what units, tasks, judging, auditing and standing by have paid, after fees, and what bonds have lost.",
    ),
    "utilisation": (
        "utilisation:utilisation",
        "Show how long each device computed, for what, why it stood still, and what an hour of it brought.",
    ),
    "appeal": (
        "appeal:appeal",
        "Appeal against what judges have said of UNIT (0x..); the provider key signs, the bond is the stash's.",
    ),
    "prove": (
        "prove:prove",
        "Compute TASK (0x..) again, and show a fraud proof if its result is wrong; the provider key signs.",
    ),
    "unregister": (
        "leave:unregister",
        "Take DEVICE (0x.., or the beginning of it) and its offers out of the market; its bond comes back at once.",
    ),
    "withdraw-bond": ("leave:withdraw_bond", "Stop being a provider and a candidate, and take the stash's bond out."),
}


@click.group(cls=ProgramGroup, context_settings=HELP_NAMES)
@url_option
@click.option(
    "--provider-key", "key_text", default="provider-key.json", show_default=True, envvar="OGPU_PROVIDER_KEY",
    help="The provider key: an ed25519 key file, or a development path like //Alice//provider.",
)  # fmt: skip
@click.option("--password-file", type=click.Path(path_type=Path), help="Opens the key file.")
@click.option(
    "--base-path", type=click.Path(path_type=Path, file_okay=False), default=DEFAULT_BASE, show_default=True,
    envvar="OGPU_PROVIDER_BASE", help="Where journal and blobs lie; one for each daemon.",
)  # fmt: skip
@json_option
@genesis_option
@checkpoint_option
@trust_option
@click.version_option(package_name="ogpu")
@click.pass_context
def main(
    context: click.Context, url: str, key_text: str, password_file: Path | None, base_path: Path, as_json: bool,
    genesis: bytes | None, checkpoint: bytes | None, trust_node: bool,
) -> None:  # fmt: skip
    """Mine GPU work on an ogpu chain: offer devices, execute what they are drawn for, bid for tasks, be paid.

    Shell completion: eval "$(_OGPU_PROVIDER_COMPLETE=bash_source ogpu-provider)" (or zsh_source, fish_source).
    """
    from cli.output import Output  # noqa: PLC0415
    from gpu_tasks.provider.commands.options import ProviderOptions  # noqa: PLC0415  # the help needs none of these
    from wallet.private_file import forbid_core_dumps  # noqa: PLC0415

    forbid_core_dumps()
    base = base_path.expanduser()
    trust = Trust(base, genesis, trust_node, checkpoint)
    context.obj = ProviderOptions(url, key_text, password_file, base, Output(as_json=as_json), trust)


add_deferred(main, "gpu_tasks.provider.commands", COMMANDS)

if __name__ == "__main__":
    main()
