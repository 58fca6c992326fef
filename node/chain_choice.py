"""Which chain the command line means."""

from __future__ import annotations

from pathlib import Path

from genesis.presets import PRESETS, load_spec
from genesis.spec import SPEC_BYTES_MAX, ChainSpec, SpecError
from node.errors import BadInputError


def chosen_spec(chain: str | None, *, dev: bool) -> ChainSpec:
    """The specification that --chain or --dev means."""
    if dev and chain not in {None, "dev"}:
        raise BadInputError(f"--dev is --chain dev: leave out --chain {chain}, or leave out --dev")
    name = chain or "dev" if dev else chain or "local"
    if name in PRESETS:
        return load_spec(name)
    path = Path(name)
    if not path.is_file():
        raise BadInputError(f"--chain {name} is neither {', '.join(PRESETS)} nor a file: check the path")
    if path.stat().st_size > SPEC_BYTES_MAX:
        raise BadInputError(f"{path} is larger than {SPEC_BYTES_MAX:,} bytes: it is no chain spec")
    try:
        return load_spec(path.read_bytes())
    except SpecError as error:
        raise BadInputError(f"{path} is not a usable chain spec: {error}") from error
