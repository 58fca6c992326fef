"""The rules of allowed hosts and origins, checked from a request's headers before any other work.

Invariant: a web page reaches a server on loopback only from an origin that the operator allows, under any name that it
gives this machine (DNS rebinding). A POST that a browser sends without a preflight is refused.
"""

from __future__ import annotations

import re

from aiohttp import web

LOCAL_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})
# Substrate's default: this machine, on any port, and the common wallet.
DEFAULT_ORIGINS = (
    "http://localhost:*",
    "https://localhost:*",
    "http://127.0.0.1:*",
    "https://127.0.0.1:*",
    "https://polkadot.js.org",
)
ANY_ORIGIN = ("*",)
JSON = "application/json"


def origins_of(origins_text: str | None) -> tuple[str, ...]:
    """Return the origins of `--rpc-cors`: a comma-separated list (`:*` is any port), `all`, or None for the default."""
    if origins_text is None:
        return DEFAULT_ORIGINS
    return ANY_ORIGIN if origins_text == "all" else tuple(filter(None, origins_text.split(",")))


class Access:
    """The rules of one server."""

    def __init__(self, host: str, allowed_origins: tuple[str, ...]) -> None:
        """Create them; `host` is the listening host, `allowed_origins` come from `origins_of`."""
        self._is_loopback = host in LOOPBACK_HOSTS
        self._allows_any_origin = "*" in allowed_origins
        self._origin_patterns = [_origin_pattern(origin) for origin in allowed_origins]

    def check(self, request: web.Request) -> None:
        """Raise 403 unless host and origin are allowed."""
        # From the header alone: without the header, `request.host` would ask the system for this machine's name.
        if self._is_loopback and not LOCAL_HOST.fullmatch(request.headers.get("Host", "")):
            raise web.HTTPForbidden(text="Host is not allowed")
        origin = request.headers.get("Origin")
        if origin is not None and not self.allows(origin):
            raise web.HTTPForbidden(text="Origin is not allowed")

    def check_post(self, request: web.Request) -> None:
        """Raise 403 as `check` does, and 415 if the content type is not JSON."""
        # A browser sends other content types across origins without a preflight.
        self.check(request)
        if request.content_type != JSON:
            raise web.HTTPUnsupportedMediaType(text=f"Content-Type: {JSON} is required")

    def allows(self, origin: str) -> bool:
        """Return whether pages of this origin may send requests."""
        return self._allows_any_origin or any(
            origin_pattern.fullmatch(origin) for origin_pattern in self._origin_patterns
        )

    def headers(self, request: web.Request) -> dict[str, str]:
        """Return the headers that a browser requires before it passes an answer to a page."""
        origin = request.headers.get("Origin")
        if origin is None:
            return {}
        return {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Allow-Methods": "POST, GET, OPTIONS",
            "Access-Control-Allow-Headers": "content-type",
            "Vary": "Origin",
        }


def _origin_pattern(origin: str) -> re.Pattern[str]:
    if origin.endswith(":*"):
        return re.compile(re.escape(origin[:-2]) + r"(:[0-9]{1,5})?")
    return re.compile(re.escape(origin))
