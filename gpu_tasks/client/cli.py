"""`ogpu`: post units of inference, watch them, read the completions, sell a service.

Exit codes: 0 done, 1 the chain or the node refused, or a unit ended without a result, 2 something to set right in what
was given.
"""

from __future__ import annotations

from pathlib import Path

import click

from wallet.deferred import add_deferred
from wallet.program_options import HELP_NAMES, json_option, keyring_option, password_option, url_option

COMMANDS = {
    "post": ("post:post", "Post a unit for each line of FILE (- is standard input)."),
    "watch": ("units:watch", "Follow UNITS (0x..), or the open units of the key, until they end."),
    "result": ("units:result", "Print what a settled UNIT (0x..) asked and the answer; with --json all about it."),
    "cancel": (
        "units:cancel",
        "Take back a UNIT (0x..) that is still queued: a tenth of its bond burns, the rest comes back.",
    ),
    "services": ("services:services", "List what can be bought."),
    "providers": ("services:providers", "List devices and what they ask."),
    "create-service": (
        "services:create_service",
        "Offer a new kind of unit; a deposit is locked until the service is closed.",
    ),
    "close-service": (
        "services:close_service",
        "Let no more units of SERVICE be posted, and take its deposit back; open units go on.",
    ),
}


@click.group(context_settings=HELP_NAMES)
@url_option
@keyring_option
@password_option
@json_option
@click.version_option(package_name="ogpu")
@click.pass_context
def main(context: click.Context, url: str, keyring: Path, password_file: Path | None, as_json: bool) -> None:
    """Have work done on an ogpu chain: post units of inference, watch them, read the completions."""
    from wallet.keyring import Keyring  # noqa: PLC0415  # here and below: the help of the program needs none of these
    from wallet.output import Output  # noqa: PLC0415
    from wallet.session import WalletSession  # noqa: PLC0415

    context.obj = WalletSession(url, Keyring(keyring), Output(as_json=as_json), password_file)


add_deferred(main, "gpu_tasks.client.commands", COMMANDS)


if __name__ == "__main__":
    main()
