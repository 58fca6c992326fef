"""Who may ask at all: checked from a request's headers alone, before anything that it asks for is done.

Invariant: a web page reaches a server on loopback only from an origin that the operator allows, whatever name
it gives this machine (DNS rebinding); a POST that a browser would send unasked, without a preflight, is refused.
"""

from __future__ import annotations

import re

from aiohttp import web

LOCAL_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})
# Substrate's default: this machine, where a port says which program it is, and the wallet that everybody uses.
DEFAULT_ORIGINS = (
    "http://localhost:*",
    "https://localhost:*",
    "http://127.0.0.1:*",
    "https://127.0.0.1:*",
    "https://polkadot.js.org",
)
ANY_ORIGIN = ("*",)
JSON = "application/json"


def origins_of(text: str | None) -> tuple[str, ...]:
    """What `--rpc-cors` says: origins with commas, where `:*` at the end means any port; `all`; None: the default."""
    if text is None:
        return DEFAULT_ORIGINS
    return ANY_ORIGIN if text == "all" else tuple(filter(None, text.split(",")))


class Access:
    """The rules of one server."""

    def __init__(self, host: str, origins: tuple[str, ...]) -> None:
        """`host` is where it listens; `origins` as `origins_of` gives them."""
        self._is_local = host in LOOPBACK_HOSTS
        self._is_open = "*" in origins
        self._origins = [_pattern(origin) for origin in origins]

    def check(self, request: web.Request) -> None:
        """Raise 403 unless host and origin may ask."""
        # From the header alone: for a request without one `request.host` asks the system for this machine's name.
        if self._is_local and not LOCAL_HOST.fullmatch(request.headers.get("Host", "")):
            raise web.HTTPForbidden(text="Host is not allowed")
        origin = request.headers.get("Origin")
        if origin is not None and not self.allows(origin):
            raise web.HTTPForbidden(text="Origin is not allowed")

    def check_post(self, request: web.Request) -> None:
        """Raise 403 as `check` does, and 415 for what is not JSON by its own word."""
        self.check(request)
        if request.content_type != JSON:
            raise web.HTTPUnsupportedMediaType(text=f"Content-Type: {JSON} is required")

    def allows(self, origin: str) -> bool:
        """Return whether pages of this origin may ask."""
        return self._is_open or any(pattern.fullmatch(origin) for pattern in self._origins)

    def headers(self, request: web.Request) -> dict[str, str]:
        """What a browser wants to read before it hands an answer to the page."""
        origin = request.headers.get("Origin")
        if origin is None:
            return {}
        return {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Allow-Methods": "POST, GET, OPTIONS",
            "Access-Control-Allow-Headers": "content-type",
            "Vary": "Origin",
        }


def _pattern(origin: str) -> re.Pattern[str]:
    if origin.endswith(":*"):
        return re.compile(re.escape(origin[:-2]) + r"(:[0-9]{1,5})?")
    return re.compile(re.escape(origin))
