"""`ogpu`: post units of inference, watch them, read the completions, sell a service.

Exit codes: 0 done, 1 the chain or the node refused, or a unit ended without a result, 2 something to set right in what
was given.
"""

from __future__ import annotations

from pathlib import Path

import click

from gpu_tasks.client.commands.post import post
from gpu_tasks.client.commands.services import close_service, create_service, providers, services
from gpu_tasks.client.commands.units import cancel, result, watch
from wallet.keyring import DEFAULT_FOLDER, Keyring
from wallet.output import Output
from wallet.rpc import DEFAULT_URL
from wallet.session import WalletSession


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--url", default=DEFAULT_URL, show_default=True, envvar="OGPU_URL", help="The node's JSON-RPC address.")
@click.option(
    "--keyring", type=click.Path(path_type=Path, file_okay=False), default=DEFAULT_FOLDER, show_default=True,
    envvar="OGPU_KEYRING", help="The folder of the key files.",
)  # fmt: skip
@click.option("--password-file", type=click.Path(path_type=Path), help="Read the password here instead of asking.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.version_option(package_name="ogpu")
@click.pass_context
def main(context: click.Context, url: str, keyring: Path, password_file: Path | None, as_json: bool) -> None:
    """Have work done on an ogpu chain: post units of inference, watch them, read the completions."""
    context.obj = WalletSession(url, Keyring(keyring), Output(as_json=as_json), password_file)


for command in (post, watch, result, cancel, services, providers, create_service, close_service):
    main.add_command(command)


if __name__ == "__main__":
    main()
