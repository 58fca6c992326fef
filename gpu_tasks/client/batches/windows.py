"""How long a run may take, as people and OpenAI's programs write it: `24h`, `90m`."""

import re

from wallet.errors import WalletError

WINDOW_SECONDS_MAX = 30 * 86_400
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_WINDOW = re.compile(r"([1-9][0-9]{0,7})([smhd])")


class WindowError(WalletError):
    """What somebody wrote is no time that a run may take."""


def window_seconds(text: str) -> int:
    """The seconds of a completion window; WindowError."""
    found = _WINDOW.fullmatch(text)
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 1 <= seconds <= WINDOW_SECONDS_MAX:
        raise WindowError(f"a completion window is a number and s, m, h or d, such as 24h, up to 30d; not {text!r}")
    return seconds
