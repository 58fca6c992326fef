#!/bin/sh
# Builds the wheel and the source archive into dist/, twice to see that the wheel is reproducible, and shows that the
# wheel with the wallet's locked dependencies alone gives a working `ogpu-wallet` away from this folder.
set -eu
cd "$(dirname "$0")/.."
PY=$(pwd)/${PY:-.venv/bin/python}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 315532800)
export SOURCE_DATE_EPOCH PIP_DISABLE_PIP_VERSION_CHECK=1

rm -rf dist
"$PY" -m hatchling build -d dist >/dev/null
"$PY" -m hatchling build -t wheel -d "$work/again" >/dev/null
cmp dist/*.whl "$work"/again/*.whl
if "$PY" -m zipfile -l dist/*.whl | grep -E '^(tests|scripts|simulation|benchmarks|docs)/'; then
  echo "package: the wheel holds what it must not" >&2
  exit 1
fi
if ! "$PY" -m zipfile -l dist/*.whl | grep '^gpu_tasks/models/models\.lock ' >/dev/null; then
  echo "package: the wheel lacks the list of models" >&2
  exit 1
fi

"$PY" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --quiet --require-hashes -r locks/wallet.lock
"$work/venv/bin/python" -m pip install --quiet --quiet --no-deps dist/*.whl
size=$(cat dist/*.whl | wc -c)
dependencies=$(grep -c == locks/wallet.lock)
cd "$work"
"$work/venv/bin/ogpu-wallet" --help >/dev/null
echo "package: $size bytes of wheel, reproducible; ogpu-wallet runs with $dependencies locked dependencies"
