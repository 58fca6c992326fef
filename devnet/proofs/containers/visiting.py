"""What a customer does in its container while it runs: a shell, files there and back, a service on a port.

Always: everything is done by `ogpu`, as its customer would; what comes back is compared to the byte.
"""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from devnet.demo.task_sale import TaskSale
from devnet.demo.telling import Narrator
from devnet.launcher import programs
from devnet.launcher.errors import DevnetError
from devnet.launcher.layout import Devnet

SENT_BYTES = 3 * 1024 * 1024
PORT = 8_080
PAGE = "served from the container"
SERVE = f"mkdir -p /workspace/www; echo {PAGE} > /workspace/www/index.html; "
SERVE += f"busybox httpd -f -p 127.0.0.1:{PORT} -h /workspace/www"
HTTP_SECONDS = 10


def visit(net: Devnet, sale: TaskSale, key: str, tell: Narrator) -> list[str]:
    """Enter the container of a task; what was not as it must be."""
    try:
        return [*_shell(net, sale, key, tell), *_files(net, sale, key, tell), *_port(net, sale, key, tell)]
    except (DevnetError, OSError) as error:
        return [f"the container is not entered: {error}"]


def _words(net: Devnet, command: str, *words: str, key: str) -> list[str]:
    return ["--url", net.members[0].rpc_url, command, *words, "--key", key]


def _shell(net: Devnet, sale: TaskSale, key: str, tell: Narrator) -> Iterator[str]:
    words = _words(net, "shell", sale.name, key=key)
    said = programs.run("ogpu", *words, "--", "sh", "-c", "id -u; hostname", keyring=net.keyring, show=tell.command)
    if said.split() != ["65534", "container"]:
        yield f"a shell says {said[:80]!r}"
    try:
        programs.run("ogpu", *words, "--", "sh", "-c", "exit 5", keyring=net.keyring)
        yield "a program that fails there does not fail here"
    except DevnetError as error:
        if "status 5" not in str(error):
            yield f"the exit code is not the program's: {error}"
    stranger = _words(net, "shell", sale.name, key="//Dave")
    try:
        programs.run("ogpu", *stranger, "--", "id", keyring=net.keyring)
        yield "somebody else is let in"
    except DevnetError:
        pass


def _files(net: Devnet, sale: TaskSale, key: str, tell: Narrator) -> Iterator[str]:
    sent, back = net.folder / "sent.bin", net.folder / "back"
    sent.write_bytes(os.urandom(SENT_BYTES))
    there = f"{sale.name}:workspace/data"
    programs.run("ogpu", *_words(net, "cp", str(sent), there, key=key), keyring=net.keyring, show=tell.command)
    fetched = _words(net, "cp", f"{there}/sent.bin", str(back), key=key)
    programs.run("ogpu", *fetched, keyring=net.keyring, show=tell.command)
    if _read(back / "sent.bin") != sent.read_bytes():
        yield "a file comes back as another"


def _port(net: Devnet, sale: TaskSale, key: str, tell: Narrator) -> Iterator[str]:
    words = _words(net, "port-forward", sale.name, f"0:{PORT}", key=key)
    for row in programs.lines("ogpu", *words, keyring=net.keyring, show=tell.command):
        with urllib.request.urlopen(f"http://{row['local']}/", timeout=HTTP_SECONDS) as answer:
            if answer.read().decode().strip() != PAGE:
                yield "a service of the container says something else through its port"
        return
    yield "no port was forwarded"


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""
