"""Print one hash of all conformance vectors of `textgen-int8` as this machine computes them.

Run it under any Python, NumPy or backend and compare the lines. `--print` lists what to put into
`conformance.py` and `request.py` when the operations or the model have changed on purpose.

    python -m scripts.textgen_conformance [numpy|reference|torch-cpu|torch-cuda:0]
"""

from __future__ import annotations

import argparse
import platform
import sys
from hashlib import blake2b

import numpy as np

from gpu_tasks.workloads.textgen_int8 import conformance
from gpu_tasks.workloads.textgen_int8.backends import arithmetic
from gpu_tasks.workloads.textgen_int8.model import decode_model, model_id
from gpu_tasks.workloads.textgen_int8.request import COMPLETIONS, MODEL_ID, model_file
from gpu_tasks.workloads.textgen_int8.transformer import load


def main() -> int:
    """Compute, print, and fail if anything differs from what is published."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("backend", nargs="?", default="numpy")
    parser.add_argument("--print", action="store_true", help="list every vector")
    args = parser.parse_args()
    use = arithmetic(args.backend)
    data = model_file()
    vectors = conformance.operation_hashes(use)
    vectors["MODEL_ID"] = model_id(data).hex()
    vectors["COMPLETIONS"] = conformance.completions(load(use, decode_model(data))).hex()
    if args.print:
        print("\n".join(f"{name} {value}" for name, value in vectors.items()))
    expected = conformance.OPERATIONS | {"MODEL_ID": MODEL_ID, "COMPLETIONS": COMPLETIONS}
    whole = blake2b("".join(vectors.values()).encode(), digest_size=16).hexdigest()
    versions = f"python {platform.python_version()} numpy {np.__version__} {use.name}"
    print(f"textgen-int8 {whole} {'conforms' if vectors == expected else 'DIFFERS'} ({versions})")
    return 0 if vectors == expected else 1


if __name__ == "__main__":
    sys.exit(main())
