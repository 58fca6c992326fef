"""Show the lines of a file that are nearest to its last line, by the vectors that `ogpu unit post --out` wrote.

ogpu unit post sentences.txt --key KEY --service N --out vectors.jsonl
python nearest.py sentences.txt vectors.jsonl
"""

import json
import sys
from operator import mul
from pathlib import Path

SHOWN = 3

lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
answers = map(json.loads, Path(sys.argv[2]).read_text(encoding="utf-8").splitlines())
# Answers can come in another order than their requests: `index` is the number of the line, from 1.
vectors = {answer["index"]: json.loads(answer["text"]) for answer in answers}
query = vectors.pop(len(lines))
# A vector has length 1, so the sum of the products is the cosine of the angle.
cosines = {lines[number - 1]: sum(map(mul, query, vector)) for number, vector in vectors.items()}
print(f"nearest to: {lines[-1]}")
for line in sorted(cosines, key=lambda line: cosines[line], reverse=True)[:SHOWN]:
    print(f"{cosines[line]:.3f}  {line}")
