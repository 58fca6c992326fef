"""The diagrams of ARCHITECTURE.md, drawn from the imports: `python -m scripts.house.picture [--write]`.

An arrow from A to B means that A imports B. An arrow is left out if a longer path leads there, so a diagram has the
fewest arrows with the same meaning. A room imports, directly or indirectly, all rooms that its arrows reach.
"""

import argparse
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from scripts.house.imports import Graph, arrows_between, import_graph, without_shortcuts
from scripts.house.tree import Module, read_modules

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "ARCHITECTURE.md"
SPLIT = {"gpu_tasks": ("batches", "client", "data", "market", "models", "provider", "traces", "workloads")}
"""Packages that the whole diagram shows in parts."""
HOUSES = ("runtime", "node", "gpu_tasks.market", "gpu_tasks.provider", "devnet")
"""Packages with a diagram of their rooms."""
PICTURE = re.compile(r"```mermaid\n%% (?P<name>[\w.]+)\n(?P<body>.*?)```", re.DOTALL)


def pictures(modules: Mapping[str, Module]) -> dict[str, str]:
    """Return each diagram by name: `house`, and the packages of `HOUSES`."""
    graph = import_graph(modules)
    tops = sorted({name.split(".")[0] for name in modules})
    rooms = [name for top in tops for name in ([f"{top}.{part}" for part in SPLIT[top]] if top in SPLIT else [top])]
    return {"house": drawn(graph, rooms)} | {package: drawn(graph, _rooms(package, modules)) for package in HOUSES}


def drawn(graph: Graph, rooms: Iterable[str]) -> str:
    """Return Mermaid text, importers first."""
    arrows = without_shortcuts(arrows_between(graph, rooms))
    order = _from_the_top(arrows)
    lines = ["flowchart TD"]
    for upper in order:
        lower = [room for room in order if (upper, room) in arrows]
        if lower:
            lines.append(f"    {upper} --> {' & '.join(lower)}")
    return "\n".join(lines) + "\n"


def written(text: str) -> str:
    """Return a document with its diagrams redrawn."""
    fresh = pictures(read_modules(ROOT))
    return PICTURE.sub(lambda match: f"```mermaid\n%% {match['name']}\n{fresh[match['name']]}```", text)


def _rooms(package: str, modules: Mapping[str, object]) -> list[str]:
    """Return the folders of a package."""
    depth = package.count(".") + 2
    inner = [name for name in modules if name.startswith(f"{package}.") and name.count(".") >= depth]
    return sorted({".".join(name.split(".")[:depth]) for name in inner})


def _from_the_top(arrows: set[tuple[str, str]]) -> list[str]:
    """Return the rooms, each before those that it imports."""
    rooms = sorted({room for arrow in arrows for room in arrow})
    floors: dict[str, int] = dict.fromkeys(rooms, 0)
    for _ in rooms:
        for upper, lower in arrows:
            floors[upper] = max(floors[upper], floors[lower] + 1)
    return sorted(rooms, key=lambda room: (-floors[room], room))


def main() -> None:
    """Print the diagrams, or write them into the document."""
    parser = argparse.ArgumentParser(prog="python -m scripts.house.picture", description=__doc__)
    parser.add_argument("--write", action="store_true", help="into ARCHITECTURE.md")
    if parser.parse_args().write:
        DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
        return
    for name, picture in pictures(read_modules(ROOT)).items():
        print(f"%% {name}\n{picture}")


if __name__ == "__main__":
    main()
