"""`python -m scripts.house [ROOT] [--against ROOT]`: the codebase in figures, of one checkout or of two side by side.

It writes out/house.json, and exits with 1 if the first checkout has an import cycle or a class name with two meanings.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from scripts.house.imports import circles, import_graph
from scripts.house.tree import names_of_several_classes, read_modules

ROOT = Path(__file__).parents[2]
SMALL_FILE_LINES = 40
MADE_FOLDER = "out"
Figures = dict[str, Any]


def main() -> int:
    """Count, print, write, judge."""
    parser = argparse.ArgumentParser(prog="python -m scripts.house", description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, default=ROOT)
    parser.add_argument("--against", type=Path, help="another checkout, counted by the same rules")
    arguments = parser.parse_args()
    found = figures(arguments.root)
    other = figures(arguments.against) if arguments.against else {}
    out = ROOT / "out"
    out.mkdir(exist_ok=True)
    (out / "house.json").write_text(json.dumps({"house": found, "against": other}, indent=2) + "\n", encoding="utf-8")
    for name, value in found.items():
        print(f"{name:32} {_shown(value):>28} {_shown(other[name]) if other else '':>28}".rstrip())
    wrong = problems(found)
    print("house: " + ("; ".join(wrong) if wrong else f"in order: {found['files']} files, no circle"))
    return 1 if wrong else 0


def figures(root: Path) -> Figures:
    """Count one checkout."""
    modules, sizes = read_modules(root), sizes_of(root)
    small = [
        module for module in modules.values() if module.lines <= SMALL_FILE_LINES and module.path.stem != "__init__"
    ]
    return {
        "lines_outside_tests": sum(sizes[True]),
        "files_outside_tests": len(sizes[True]),
        "lines_of_tests": sum(sizes[False]),
        "files": len(modules),
        f"files_of_{SMALL_FILE_LINES}_lines_at_most": len(small),
        "circles": [len(group) for group in circles(import_graph(modules))],
        "class_names_with_two_meanings": len(names_of_several_classes(modules)),
    }


def sizes_of(root: Path) -> dict[bool, list[int]]:
    """Return the lines of each Python file of a checkout, tools included: under True those outside `tests/`."""
    sizes: dict[bool, list[int]] = {True: [], False: []}
    for path in root.glob("[a-z]*/**/*.py"):
        folder = path.relative_to(root).parts[0]
        if folder != MADE_FOLDER:
            sizes[folder != "tests"].append(len(path.read_bytes().splitlines()))
    return sizes


def problems(found: Figures) -> list[str]:
    """Return the problems."""
    wrong = []
    if found["circles"]:
        wrong.append(f"circles of {found['circles']} files")
    if found["class_names_with_two_meanings"]:
        wrong.append(f"{found['class_names_with_two_meanings']} class names mean two things")
    return wrong


def _shown(value: object) -> str:
    return json.dumps(value) if isinstance(value, list) else str(value)


if __name__ == "__main__":
    sys.exit(main())
