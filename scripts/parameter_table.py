"""The tables of docs/parameters.md, written from the declarations: `python -m scripts.parameter_table [--write]`.

A running chain's values may differ: `ogpu-wallet parameters` shows them.
"""

import argparse
import re
from collections.abc import Iterable
from pathlib import Path

from genesis.chain import runtime_for
from genesis.relations import RELATIONS

DOCUMENT = Path(__file__).parents[1] / "docs" / "parameters.md"
TABLE = re.compile(r"<!-- (?P<name>\w+) -->\n(?P<body>.*?)<!-- end -->", re.DOTALL)


def tables() -> dict[str, str]:
    """Return each table by name."""
    return {"parameters": _parameters(), "relations": _relations()}


def written(text: str) -> str:
    """Return a document with the tables of the code."""
    fresh = tables()
    return TABLE.sub(lambda match: f"<!-- {match['name']} -->\n{fresh[match['name']]}<!-- end -->", text)


def _parameters() -> str:
    devnet, mainnet = (runtime_for(name, is_development=False).parameters for name in ("devnet", "mainnet"))
    rows = []
    for name, parameter in devnet.parameters.items():
        bounds = "frozen" if parameter.is_frozen else f"{parameter.least:,} to {parameter.greatest:,}"
        here, there = devnet.items[name].default, mainnet.items[name].default
        rows.append((f"`{name}`", f"{here:,}", f"{there:,}", parameter.unit, bounds, parameter.doc))
    return _table(("parameter", "devnet", "mainnet draft", "unit", "bounds", "reason"), rows)


def _relations() -> str:
    return _table(
        ("relation", "what must hold", "reason"),
        [(relation.name, f"`{relation.formula()}`", relation.reason) for relation in RELATIONS],
    )


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    """Print the tables, or write them into the document."""
    parser = argparse.ArgumentParser(prog="python -m scripts.parameter_table", description=__doc__)
    parser.add_argument("--write", action="store_true", help="into docs/parameters.md")
    if parser.parse_args().write:
        DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
        return
    for name, table in tables().items():
        print(f"{name}\n{table}")


if __name__ == "__main__":
    main()
