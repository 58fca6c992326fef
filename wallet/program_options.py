"""What `ogpu-wallet`, `ogpu` and `ogpu-provider` are told in the same words. Light: command lines import it first."""

from __future__ import annotations

import os
from pathlib import Path

import click

DEFAULT_URL = "ws://127.0.0.1:9944"
DEFAULT_FOLDER = Path("~/.ogpu/wallet")
KEYRING_VARIABLE = "OGPU_KEYRING"
HELP_NAMES = {"help_option_names": ["-h", "--help"]}
WEB_SOCKETS = {"http": "ws", "https": "wss"}


def socket_url(address: str) -> str:
    """Return the WebSocket address of a node for an HTTP or a WebSocket address, or for one without a scheme."""
    scheme, is_parted, rest = address.partition("://")
    return f"{WEB_SOCKETS.get(scheme.lower(), scheme)}://{rest}" if is_parted else f"ws://{address}"


class NodeUrl(click.ParamType[str]):
    """The address of a node's JSON-RPC, as a WebSocket address: HTTP has the same port."""

    name = "URL"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the address with `ws://` or `wss://`."""
        return socket_url(value)


def keyring_folder() -> Path:
    """Return the keyring's folder for a command without the option `--keyring`."""
    return Path(os.environ.get(KEYRING_VARIABLE) or DEFAULT_FOLDER)


url_option = click.option(
    "--url",
    type=NodeUrl(),
    default=DEFAULT_URL,
    show_default=True,
    envvar="OGPU_URL",
    help="The node's JSON-RPC address.",
)
keyring_option = click.option(
    "--keyring",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_FOLDER,
    show_default=True,
    envvar=KEYRING_VARIABLE,
    help="The folder of the key files.",
)
password_option = click.option(
    "--password-file", type=click.Path(path_type=Path), help="Read the password here instead of asking."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
