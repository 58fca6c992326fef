"""`ogpu-provider`: offer this machine's devices, and do the work that they are drawn for.

Exit codes: 0 done, 1 the chain or the node refused, 2 something to set right in what was given.
"""

from __future__ import annotations

from pathlib import Path

import click

from gpu_tasks.provider.commands import joining, leaving, offering, running, showing
from gpu_tasks.provider.commands.options import ProviderOptions
from wallet.output import Output
from wallet.rpc import DEFAULT_URL

DEFAULT_BASE = Path("~/.ogpu/provider")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--url", default=DEFAULT_URL, show_default=True, envvar="OGPU_URL", help="The node's JSON-RPC address.")
@click.option(
    "--key", "key_text", default="provider-key.json", show_default=True, envvar="OGPU_PROVIDER_KEY",
    help="The provider key: an ed25519 key file, or a development path like //Alice//provider.",
)  # fmt: skip
@click.option("--password-file", type=click.Path(path_type=Path), help="Opens the key file.")
@click.option(
    "--base-path", type=click.Path(path_type=Path, file_okay=False), default=DEFAULT_BASE, show_default=True,
    envvar="OGPU_PROVIDER_BASE", help="Where journal and blobs lie; one for each daemon.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.version_option(package_name="ogpu")
@click.pass_context
def main(
    context: click.Context, url: str, key_text: str, password_file: Path | None, base_path: Path, as_json: bool
) -> None:
    """Mine GPU work on an ogpu chain: offer devices, execute what they are drawn for, be paid."""
    output = Output(as_json=as_json)
    context.obj = ProviderOptions(url, key_text, password_file, base_path.expanduser(), output)


for command in (
    running.run, showing.devices, showing.status,
    joining.register, offering.offer, offering.withdraw_offer, offering.pause, offering.resume,
    leaving.unregister, leaving.withdraw_bond,
):  # fmt: skip
    main.add_command(command)

if __name__ == "__main__":
    main()
