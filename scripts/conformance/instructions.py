"""Sets of processor instructions that one machine can use: the libraries obey variables of the environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CPU_FILE = Path("/proc/cpuinfo")
_NUMPY_BEYOND_AVX2 = "X86_V4 AVX512_ICL AVX512_SPR"


@dataclass(frozen=True, slots=True)
class InstructionSet:
    """A set of instructions: the flags that a processor must have, and the variables that limit the libraries to it."""

    name: str
    needed_flags: frozenset[str]
    variables: Mapping[str, str]


# OpenBLAS, NumPy's own loops, PyTorch's own loops, MKL, and oneDNN choose their code one by one.
_SETS = (
    InstructionSet(
        "sse4",
        frozenset({"sse4_2"}),
        {
            "OPENBLAS_CORETYPE": "Nehalem", "NPY_DISABLE_CPU_FEATURES": f"X86_V3 {_NUMPY_BEYOND_AVX2}",
            "ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "ONEDNN_MAX_CPU_ISA": "SSE41",
        },
    ),
    InstructionSet(
        "avx2",
        frozenset({"avx2", "fma"}),
        {
            "OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": _NUMPY_BEYOND_AVX2,
            "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2", "ONEDNN_MAX_CPU_ISA": "AVX2",
        },
    ),
    InstructionSet(
        "avx512",
        frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl"}),
        {
            "OPENBLAS_CORETYPE": "SkylakeX", "ATEN_CPU_CAPABILITY": "avx512", "MKL_ENABLE_INSTRUCTIONS": "AVX512",
            "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
        },
    ),
)  # fmt: skip


def usable_sets(cpu_file: Path = CPU_FILE) -> tuple[InstructionSet, ...]:
    """Return the sets that this processor has. Elsewhere than on Linux and x86, none can be chosen."""
    try:
        lines = cpu_file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ()
    flags = next((set(line.split()) for line in lines if line.startswith("flags")), set[str]())
    # OpenBLAS obeys a name without a look at the processor, and an instruction that is not there kills the process.
    return tuple(each for each in _SETS if each.needed_flags <= flags)
