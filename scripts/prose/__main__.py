"""`python -m scripts.prose [PATH..]`: the clarity of help, messages and docstrings, beside another checkout's.

Writes out/prose.json. Exits with 1 when a bar does not hold. `--faults KIND` lists the texts to rewrite; `--draw N`
draws texts for a reader who has never seen the project.
"""

import argparse
import json
import random
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from scripts.house.tree import PACKAGES
from scripts.prose.code import CodeFigures, measure_code
from scripts.prose.figures import BARS, Figures, faults, measure
from scripts.prose.texts import Kind, Text, read_texts, tracked_files

ROOT = Path(__file__).parents[2]
MEASURES = ("headless_per_1000", "sentence_words", "long_percent", "question_percent")
BOUND_KINDS = (Kind.HELP, Kind.MESSAGE, Kind.DOCSTRING, Kind.TEST_DOCSTRING)


def main() -> int:
    """Count, print, write, judge."""
    parser = argparse.ArgumentParser(prog="python -m scripts.prose", description=__doc__)
    parser.add_argument("paths", nargs="*", help="count only files under these paths")
    parser.add_argument("--against", type=Path, help="another checkout, counted by the same rules")
    parser.add_argument("--faults", choices=[kind.value for kind in Kind], help="list the texts of a kind to rewrite")
    parser.add_argument("--draw", type=int, metavar="N", help="print N texts drawn at random")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    texts = chosen(read_texts(ROOT), arguments.paths)
    if arguments.faults:
        list_faults(text for text in texts if text.kind.value == arguments.faults)
        return 0
    if arguments.draw:
        bound = [text for text in texts if text.kind in BOUND_KINDS]
        show(random.Random(arguments.seed).sample(bound, arguments.draw))
        return 0
    found = by_kind(texts)
    before = by_kind(chosen(read_texts(arguments.against), arguments.paths)) if arguments.against else {}
    for name, figures in found.items():
        print(line(name, figures))
        if before:
            print(line("  before", before[name]))
    code = code_of_packages(ROOT, arguments.paths)
    print(code_line("code of the packages", code))
    if arguments.against:
        print(code_line("  before", code_of_packages(arguments.against, arguments.paths)))
    out = ROOT / "out"
    out.mkdir(exist_ok=True)
    shown = {"prose": {name: asdict(figures) for name, figures in found.items()}}
    shown["code"] = {"packages": asdict(code)}
    shown["against"] = {name: asdict(figures) for name, figures in before.items()}
    (out / "prose.json").write_text(json.dumps(shown, indent=2) + "\n", encoding="utf-8")
    wrong = problems(found)
    print("prose: " + ("; ".join(wrong) if wrong else "every bar holds"))
    return 1 if wrong else 0


def code_of_packages(root: Path, beginnings: list[str]) -> CodeFigures:
    """Return the figures of the packages' files whose path begins with one of `beginnings`."""
    paths = (path for path in tracked_files(root) if path.split("/")[0] in PACKAGES)
    return measure_code(root, (path for path in paths if not beginnings or path.startswith(tuple(beginnings))))


def chosen(texts: list[Text], beginnings: list[str]) -> list[Text]:
    """Return the texts of the files whose path begins with one of `beginnings`, or all texts if there are none."""
    return [text for text in texts if not beginnings or text.path.startswith(tuple(beginnings))]


def by_kind(texts: list[Text]) -> dict[str, Figures]:
    """Return the figures of each kind."""
    return {kind.value: measure(text.text for text in texts if text.kind is kind) for kind in Kind}


def problems(found: dict[str, Figures]) -> list[str]:
    """Return the bars that do not hold."""
    bars = asdict(BARS)
    wrong = []
    for kind in BOUND_KINDS:
        for name in MEASURES:
            is_bound = name != "question_percent" or kind in {Kind.DOCSTRING, Kind.TEST_DOCSTRING}
            value = getattr(found[kind.value], name)
            if is_bound and value > bars[name]:
                wrong.append(f"{kind.value}: {name} {value} above {bars[name]}")
    return wrong


def line(name: str, figures: Figures) -> str:
    """Return the figures as a line of a table."""
    return (
        f"{name:20} {figures.texts:6} texts {figures.words:7} words  headless {figures.headless_per_1000:5.2f}"
        f"  words a sentence {figures.sentence_words:4.1f}  long {figures.long_percent:5.2f} %"
        f"  question word {figures.question_percent:5.2f} %"
    )


def code_line(name: str, figures: CodeFigures) -> str:
    """Return the figures of code as a line of a table."""
    return (
        f"{name:20} {figures.code_lines:6} lines  comments {figures.comments_per_100} per 100 lines"
        f"  names {figures.name_letters} letters"
    )


def list_faults(texts: Iterable[Text]) -> None:
    """Print each text that a measure finds fault with, and why."""
    for text in texts:
        found = faults(text.text)
        if found:
            print(f"{text.path}:{text.line} [{'; '.join(found)}]\n    {' '.join(text.text.split())}")


def show(texts: list[Text]) -> None:
    """Print texts with their places."""
    for text in texts:
        print(f"{text.path}:{text.line} ({text.kind.value})\n    {' '.join(text.text.split())}")


if __name__ == "__main__":
    sys.exit(main())
