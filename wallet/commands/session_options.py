"""The options before the commands of a program that works with keys, and the session that they open.

Light: command lines import it first, and the session only when a command is called.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import click

from wallet.program_options import json_option, keyring_option, password_option, url_option
from wallet.trust import Trust, checkpoint_option, genesis_option, trust_option


def session_options(program: Callable[[], None]) -> Callable[..., None]:
    """Which node, which keys, what the node has to prove, and how results are shown: a `WalletSession` for commands."""

    @functools.wraps(program)
    def opened(
        url: str, keyring: Path, password_file: Path | None, as_json: bool, genesis: bytes | None,
        checkpoint: bytes | None, trust_node: bool,
    ) -> None:  # fmt: skip
        from wallet.keyring import Keyring  # noqa: PLC0415  # here and below: the help of the program needs none of these
        from wallet.output import Output  # noqa: PLC0415
        from wallet.session import WalletSession  # noqa: PLC0415

        trust = Trust(keyring.expanduser(), genesis, trust_node, checkpoint)
        session = WalletSession(url, Keyring(keyring), Output(as_json=as_json), password_file, trust)
        click.get_current_context().obj = session
        program()

    options = (
        url_option,
        keyring_option,
        password_option,
        json_option,
        genesis_option,
        checkpoint_option,
        trust_option,
    )
    return functools.reduce(lambda command, option: option(command), reversed(options), opened)
