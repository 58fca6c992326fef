"""`ogpu-provider`: the declarations of its commands. Each body is a function of `commands`.

Exit codes: 0 done (of `run`: stopped, or its provider has left), 1 the chain or the node refused, 2 the user can
correct the input.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from cli.deferred import runs
from cli.options import (
    AMOUNT,
    DEFAULT_FOLDER,
    HELP_NAMES,
    KEYRING_VARIABLE,
    add_options,
    checkpoint_option,
    dry_run_option,
    genesis_option,
    json_option,
    trust_option,
    url_option,
    yes_option,
)
from cli.program import ProgramGroup
from wallet.trust import Trust

PLACES_MAX = 64
"""As the chain's (`market.sessions.records`), which help and completion must not load."""

Command = TypeVar("Command", bound=Callable[..., Any])
DEFAULT_BASE = Path("~/.ogpu/provider")
DEVICE_BOND = 10_000_000_000
"""Grains: the default of `--device-bond`."""


FOREIGN_WORDS = {
    "start": "ogpu-provider run",
    "stop": "ogpu-provider drain",
    "setup": "ogpu-provider register",
    "login": "There is no login: a key signs. Make one with `ogpu-wallet new NAME --scheme ed25519`.",
    "run --gpus": "Leave it out: the daemon works with the devices that `ogpu-provider register` registered.",
    "earnings --since": "Leave it out: `ogpu-provider earnings --by day` adds payments up by day.",
    "bench --device": "Leave it out: the command measures every device.",
}
"""Words of other systems, and the commands that do the same."""


@click.group("ogpu-provider", cls=ProgramGroup, context_settings=HELP_NAMES, foreign_words=FOREIGN_WORDS)
@url_option
@click.option(
    "--provider-key", "key_text", default="provider-key.json", show_default=True, envvar="OGPU_PROVIDER_KEY",
    help="An ed25519 key file, or a path like //Alice//provider.",
)  # fmt: skip
@click.option("--password-file", type=click.Path(path_type=Path), help="Read the key file's password from this file.")
@click.option(
    "--base-path", type=click.Path(path_type=Path, file_okay=False), default=DEFAULT_BASE, show_default=True,
    envvar="OGPU_PROVIDER_BASE", help="The daemon's folder. Each daemon needs its own.",
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
    """Offer this machine's GPUs on an ogpu chain, and earn with them.

    DEVICE is a device's id, or a beginning of it that no other device of yours has: `status` lists them. UNIT and TASK
    are 0x and 64 hex digits. An amount is in oGPU, with or without the unit.

    Shell completion: eval "$(_OGPU_PROVIDER_COMPLETE=bash_source ogpu-provider)" (or zsh_source, fish_source).
    """
    from cli.output import Output  # noqa: PLC0415
    from gpu_tasks.provider.commands.options import ProviderOptions  # noqa: PLC0415  # the help needs none of these
    from wallet.private_file import forbid_core_dumps  # noqa: PLC0415

    forbid_core_dumps()
    base = base_path.expanduser()
    trust = Trust(base, genesis, trust_node, checkpoint)
    context.obj = ProviderOptions(url, key_text, password_file, base, Output(as_json=as_json), trust)


# --- options of several commands

_KEYRING = click.option(
    "--keyring", type=click.Path(path_type=Path, file_okay=False), default=DEFAULT_FOLDER, show_default=True,
    envvar=KEYRING_VARIABLE, help="The folder with the stash's key file.",
)  # fmt: skip


def stash_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--stash`, which names the stash without its key, as the argument `stash`."""

    @functools.wraps(command)
    def with_stash(*arguments: Any, stash_text: str | None, keyring: Path, **given: Any) -> Any:
        from gpu_tasks.provider.commands.options import StashOptions  # noqa: PLC0415  # here and below: not for the help

        return command(*arguments, stash=StashOptions(stash_text, keyring), **given)

    told = "The stash: a stored name, an address, or //Eve."
    return click.option("--stash", "stash_text", metavar="STASH", help=told)(_KEYRING(with_stash))


def stash_key_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--key`, the stash's key that signs, as the argument `stash`."""

    @functools.wraps(command)
    def with_stash(
        *arguments: Any, stash_text: str | None, keyring: Path, key_password_file: Path | None, **given: Any
    ) -> Any:
        from gpu_tasks.provider.commands.options import StashOptions  # noqa: PLC0415

        return command(*arguments, stash=StashOptions(stash_text, keyring, key_password_file), **given)

    return add_options(
        click.option("--key", "stash_text", metavar="KEY",
                     help="The stash's key: a stored name, its address, or //Eve."),
        _KEYRING,
        click.option("--key-password-file", type=click.Path(path_type=Path),
                     help="The password of --key, if not --password-file."),
    )(with_stash)  # fmt: skip


def _known_backend(_context: click.Context, _option: click.Parameter, wish: str | None) -> str | None:
    if wish is None:
        return None
    from gpu_tasks.provider.commands.options import known_backend  # noqa: PLC0415

    return known_backend(wish)


def backend_option(command: Command) -> Command:
    """Add `--backend`, one of those that are installed."""
    return click.option(
        "--backend", callback=_known_backend,
        help="numpy, reference, torch-cpu or torch-cuda.  [default: torch-cuda on GPUs with PyTorch, else numpy]",
    )(command)  # fmt: skip


def _roll_call_work(_context: click.Context, _option: click.Parameter, wish: str | None) -> Any:
    """Return the work that a text names, or None."""
    if wish is None:
        return None
    from gpu_tasks.provider.commands.bench import shape_of  # noqa: PLC0415

    return shape_of(wish)


sandbox_option = click.option(
    "--sandbox", "wish", type=click.Choice(["auto", "bubblewrap", "none"]), default="auto", show_default=True,
    help="Isolation of workers; `bubblewrap` refuses to run without.",
)  # fmt: skip
engine_option = click.option(
    "--engine", "engine_address", default="unix:///var/run/docker.sock", show_default=True, envvar="DOCKER_HOST",
    help="Address of the container engine for customers' programs.",
)  # fmt: skip


def broker_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the broker, as the argument `broker`."""

    @functools.wraps(command)
    def with_broker(
        *arguments: Any, mqtt: str | None, mqtt_public: str | None, mqtt_login_file: Path | None, **given: Any
    ) -> Any:
        from gpu_tasks.provider.commands.run import BrokerOptions  # noqa: PLC0415

        return command(*arguments, broker=BrokerOptions(mqtt, mqtt_public, mqtt_login_file), **given)

    return add_options(
        click.option("--mqtt", metavar="URL", envvar="OGPU_PROVIDER_MQTT",
                     help="A broker, mqtt(s)://HOST:PORT, for progress messages."),
        click.option("--mqtt-public", metavar="URL", help="The broker's address for customers.  [default: --mqtt]"),
        click.option("--mqtt-login-file", type=click.Path(path_type=Path),
                     help="A private file with NAME:PASSWORD for the broker."),
    )(with_broker)  # fmt: skip


# --- the daemon and its machine


@main.command()
@stash_option
@backend_option
@click.option("--device", "numbers", type=int, multiple=True, help="Only this device number of `devices`; repeatable.")
@click.option("--workload", "workloads", multiple=True, help="Only this workload; repeatable.  [default: all]")
@click.option("--blob-host", default="127.0.0.1", show_default=True, help="Address on which the blob store listens.")
@click.option(
    "--blob-port", type=click.IntRange(0, 65_535), help="Its port.  [default: that of the endpoint on the chain]"
)
@click.option(
    "--input-mib", type=click.IntRange(0), default=1_024, show_default=True, help="MiB of disk for copies of inputs.",
)  # fmt: skip
@sandbox_option
@engine_option
@broker_options
@click.option("--keep-paused", is_flag=True, help="Do not resume paused devices.")
@click.option(
    "--roll-call-work", metavar="SIZExROWSxROUNDS", callback=_roll_call_work,
    help="Work of each device at roll calls.  [default: measured]",
)  # fmt: skip
@click.option("--no-roll-calls", is_flag=True, help="Prove nothing at roll calls.")
@runs("gpu_tasks.provider.commands.run:run")
def run() -> None:
    """Run the daemon until it is stopped.

    It works with every registered device of this machine. It pauses registered devices that are elsewhere, or that
    --device or --workload leaves out. --stash refuses to start if the provider key works for another stash.
    """


@main.command()
@backend_option
@sandbox_option
@engine_option
@click.option("--offline", is_flag=True, help="Check this machine alone, without a node.")
@runs("gpu_tasks.provider.commands.doctor:doctor")
def doctor() -> None:
    """Check whether machine, key and chain are ready to earn.

    The exit code is 1 if the check finds a problem.
    """


@main.command()
@runs("gpu_tasks.provider.commands.status:devices")
def devices() -> None:
    """List this machine's GPUs, or its CPU."""


@main.command()
@backend_option
@click.option(
    "--slot-ms", type=click.IntRange(100, 60_000), default=2_000, show_default=True, help="The chain's slot, in ms.",
)  # fmt: skip
@runs("gpu_tasks.provider.commands.bench:bench")
def bench() -> None:
    """Measure this machine's devices as for roll calls.

    The daemon measures them itself before a roll call. All devices compute at once. A rate is in thousand millions of
    operations a slot. Classes follow the chain's defaults: the command asks no node.
    """


@main.command()
@runs("gpu_tasks.provider.commands.inventory:inventory")
def inventory() -> None:
    """Show the hardware and policy that the daemon publishes.

    The daemon signs them with the provider key, and customers search offers by them.
    """


@main.command()
@stash_option
@runs("gpu_tasks.provider.commands.status:status")
def status() -> None:
    """Show devices, their work, duties, votes and earnings.

    For a provider that has left, --stash shows the rest of its bond and when it is free.
    """


@main.command()
@click.option(
    "--by", type=click.Choice(["device", "service", "day"]), default="day", show_default=True,
    help="Add payments up by this. Days are UTC.",
)  # fmt: skip
@click.option("--csv", "as_text", is_flag=True, help="Print lines for a spreadsheet, amounts in grains.")
@click.option("--losses", "are_lost", is_flag=True, help="List losses: amount, case, appeal deadline.")
@runs("gpu_tasks.provider.commands.earnings:earnings")
def earnings() -> None:
    """Show payments after fees, and losses of bonds."""


@main.command()
@runs("gpu_tasks.provider.commands.sessions:sessions")
def sessions() -> None:
    """List your open sessions and their unclaimed pay."""


@main.command()
@click.option(
    "--by", type=click.Choice(["device", "day"]), default="device", show_default=True,
    help="Add times up by this. Days are UTC.",
)  # fmt: skip
@runs("gpu_tasks.provider.commands.utilisation:utilisation")
def utilisation() -> None:
    """Show how long devices computed, and why they were idle."""


# --- registration


@main.command()
@stash_key_option
@click.option("--endpoint", help="Public URL of the blob store.  [default: as before, or http://127.0.0.1:9750]")
@click.option("--device", "number", type=int, default=0, show_default=True, help="The device's number in `devices`.")
@click.option(
    "--device-bond", type=AMOUNT, default=DEVICE_BOND,
    help="oGPU to bond; a unit holds 21 times its price.  [default: 100]",
)  # fmt: skip
@click.option("--service", type=int, default=0, show_default=True, help="The service to offer.")
@click.option(
    "--ask", type=AMOUNT, help="Lowest price of 1,000 output tokens, in oGPU.  [default: as before, or 0.01]",
)  # fmt: skip
@click.option("--bond", type=AMOUNT, help="Bond the stash up to this many oGPU.")
@click.option("--node-keys", metavar="FILE", help="Output of `ogpu-node key rotate`, for a new candidate.")
@click.option(
    "--commission", type=click.IntRange(0, 100), default=5, show_default=True,
    help="Your part of delegators' rewards, in %, for a new candidate.",
)  # fmt: skip
@dry_run_option
@yes_option
@runs("gpu_tasks.provider.commands.register:register")
def register() -> None:
    """Register provider, device and offer, and bond for them.

    Run `register` again to update. It shows the current registration, changes only the options you pass, tops the bond
    up to --bond, and asks for confirmation. Use another --device to add a device.
    """


@main.command()
@click.argument("device")
@stash_key_option
@dry_run_option
@yes_option
@runs("gpu_tasks.provider.commands.leave:unregister")
def unregister() -> None:
    """Unregister a device: end its offers, and free its bond.

    A device that works, or secures an unsettled unit, cannot leave. Pause it first.
    """


@main.command("withdraw-bond")
@stash_key_option
@dry_run_option
@yes_option
@runs("gpu_tasks.provider.commands.leave:withdraw_bond")
def withdraw_bond() -> None:
    """Leave: end provider and candidacy, and unbond the stash.

    The bond is free after the unbonding time. Run the command again then, or `ogpu-wallet withdraw`.
    """


# --- work


@main.command()
@click.argument("device")
@click.option("--service", type=int, required=True, help="The service to work for.")
@click.option("--ask", type=AMOUNT, required=True, help="Lowest price of 1,000 output tokens, in oGPU.")
@click.option(
    "--places", type=click.IntRange(0, PLACES_MAX), help="Sessions at once on the device; 0 for no new ones.",
)  # fmt: skip
@dry_run_option
@runs("gpu_tasks.provider.commands.offers:offer")
def offer() -> None:
    """Offer a device to a service, or change price or places.

    For a new offer the stash locks a deposit, which `withdraw-offer` frees.
    """


@main.command("withdraw-offer")
@click.argument("device")
@click.option("--service", type=int, required=True, help="The service to leave.")
@dry_run_option
@runs("gpu_tasks.provider.commands.offers:withdraw_offer")
def withdraw_offer() -> None:
    """End a device's offer to a service, and free its deposit.

    The device finishes the work that it has.
    """


@main.command()
@click.argument("device")
@click.argument("units", type=click.IntRange(0, 15))
@dry_run_option
@runs("gpu_tasks.provider.commands.offers:queue")
def queue() -> None:
    """Set how many units a device queues while it works.

    UNITS is 0 to 15. Each queued unit holds a part of the device's bond. If the device misses one, the units behind it
    go to other devices at once.
    """


@main.command()
@click.argument("device", required=False)
@dry_run_option
@runs("gpu_tasks.provider.commands.offers:pause")
def pause() -> None:
    """Pause a device, or all: take no new work.

    Paused devices finish the work that they have.
    """


@main.command()
@click.argument("device", required=False)
@dry_run_option
@yes_option
@runs("gpu_tasks.provider.commands.offers:resume")
def resume() -> None:
    """Resume a paused device, or all.

    If the chain refuted a device's result, the command states the risk and asks.
    """


@main.command()
@click.option("-w", "--watch", is_flag=True, help="Keep running, and print each change.")
@runs("gpu_tasks.provider.commands.auctions:auctions")
def auctions() -> None:
    """List tasks at auction, with your bids, or why you have none.

    Some reasons appear only when the daemon tries the task: see the log of `run`.
    """


@main.command()
@click.option("--kind", "kinds", multiple=True, help="Bid for tasks of this workload; repeatable.")
@click.option("--none", "is_none", is_flag=True, help="Bid for nothing.")
@click.option("--least-price", help="Least income of a device after the fee: `0.5 oGPU/h`.")
@click.option(
    "--schedule", "spans", multiple=True, help="Bid at these UTC times: `mon-fri 22:00-06:00`; repeatable.",
)  # fmt: skip
@click.option("--only-when-idle/--also-when-busy", default=None, help="Bid only while the machine has no other work.")
@click.option("--gangs/--no-gangs", default=None, help="Work together with other devices, and wait for them.")
@click.option(
    "--image", "images", multiple=True, help="Run this repository, or archive sha256:…; repeatable.",
)  # fmt: skip
@click.option("--any-archive/--no-any-archive", default=None, help="Run images that customers send as archives.")
@click.option("--outbound/--no-outbound", default=None, help="Let containers reach public addresses.")
@runs("gpu_tasks.provider.commands.auctions:policy")
def policy() -> None:
    """Show or change the policy of the daemon's bids.

    Without a policy the daemon bids for nothing. `--schedule always` ends the schedule. The policy is in `policy.json`
    of the base path, together with the limits of containers. Container settings apply from the daemon's next start, all
    others from its next block.
    """


@main.command()
@click.option("--off", "is_off", is_flag=True, help="Take new work again.")
@runs("gpu_tasks.provider.commands.auctions:drain")
def drain() -> None:
    """Finish the present work, and take no new work.

    `run` says when nothing is left. A restart keeps this, until you run `drain --off`.
    """


@main.command()
@click.argument("work", metavar="UNIT|TASK")
@dry_run_option
@yes_option
@runs("gpu_tasks.provider.commands.appeal:appeal")
def appeal() -> None:
    """Appeal against a decision of voters about a unit or a task.

    The provider key signs. An appeal needs no bond. The daemon itself appeals against decisions that contradict its own
    computation.
    """


if __name__ == "__main__":
    main()
