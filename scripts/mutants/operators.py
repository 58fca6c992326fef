"""Change Python as Cosmic Ray's operators do; runs in its own environment (`.venv-mutants`).

It reads JSON from standard input, `{"files": {file: lines or null}, "count": N, "seed": S}`, and writes a list of
`{"file", "line", "operator", "text"}`. These are N places on the given lines (null: any), drawn by the seed, each with
the whole text of its changed file. An operator is drawn first, then one of its places. Otherwise comparisons would
outnumber all others.
"""

import json
import random
import sys
from collections import defaultdict
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

OPERATORS = (
    "AddNot", "NumberReplacer", "ReplaceAndWithOr", "ReplaceBinaryOperator_Add_Sub",
    "ReplaceBinaryOperator_FloorDiv_Mul", "ReplaceBinaryOperator_Mul_FloorDiv", "ReplaceBinaryOperator_Sub_Add",
    "ReplaceBreakWithContinue", "ReplaceComparisonOperator_Eq_NotEq", "ReplaceComparisonOperator_GtE_Gt",
    "ReplaceComparisonOperator_Gt_GtE", "ReplaceComparisonOperator_IsNot_Is",
    "ReplaceComparisonOperator_Is_IsNot", "ReplaceComparisonOperator_LtE_Lt", "ReplaceComparisonOperator_Lt_LtE",
    "ReplaceComparisonOperator_NotEq_Eq", "ReplaceContinueWithBreak", "ReplaceFalseWithTrue", "ReplaceOrWithAnd",
    "ReplaceTrueWithFalse", "ReplaceUnaryOperator_Delete_Not", "ZeroIterationForLoop",
)  # fmt: skip
Place = tuple[str, str, int, int]
"""File, operator, index of its occurrence in the file, line."""


def main() -> None:
    """Draw places, and write them."""
    asked = json.load(sys.stdin)
    chance = random.Random(asked["seed"])
    by_operator: dict[str, list[Place]] = defaultdict(list)
    for file, lines in asked["files"].items():
        for place in places_in(file):
            if lines is None or place[3] in lines:
                by_operator[place[1]].append(place)
    drawn: list[Place] = []
    while by_operator and len(drawn) < asked["count"]:
        name = chance.choice(sorted(by_operator))
        places = by_operator[name]
        drawn.append(places.pop(chance.randrange(len(places))))
        if not places:
            del by_operator[name]
    json.dump([changed(*place) for place in drawn], sys.stdout)


def places_in(file: str) -> list[Place]:
    """Return each place of a file that an operator can change."""
    tree = get_ast(Path(file).read_text(encoding="utf-8"))
    found: list[Place] = []
    for name in OPERATORS:
        operator = get_operator(f"core/{name}")()
        lines = [start[0] for node in ast_nodes(tree) for start, _ in operator.mutation_positions(node)]
        found += [(file, name, occurrence, line) for occurrence, line in enumerate(lines)]
    return found


def changed(file: str, name: str, occurrence: int, line: int) -> dict[str, object]:
    """Return a place with the text of its changed file."""
    text = mutate_code(Path(file).read_text(encoding="utf-8"), get_operator(f"core/{name}")(), occurrence)
    return {"file": file, "line": line, "operator": name, "text": text}


if __name__ == "__main__":
    main()
