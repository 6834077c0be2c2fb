"""Settings of the process, to be made before the first array exists.

JAX fixes its devices, and whether compiled programs are kept on disk, when it first computes.
Entries call `prepare`; the library itself never does.
"""

import os
import platform
import resource
import sys
import zlib
from pathlib import Path

import jax

CACHE_VARIABLE = "L2E_CACHE"
"""Environment variable: the folder of compiled programs."""


def prepare() -> Path:
    """Use every core, and keep compiled programs on disk; return their folder.

    On a CPU each core becomes a JAX device: chains side by side beat threads within one chain.
    A program compiled once is loaded by every later process on the same kind of machine. The
    folder is ``$JAX_COMPILATION_CACHE_DIR``, JAX's own setting, else ``$L2E_CACHE``, else ``l2e``
    in the user's cache folder; it may be deleted at any time.
    """
    jax.config.update("jax_num_cpu_devices", os.cpu_count() or 1)
    folder = Path(os.environ.get("JAX_COMPILATION_CACHE_DIR") or _default_folder())
    keep_programs(folder)
    return folder


def keep_programs(folder: Path) -> None:
    """Keep every compiled program in a folder, however quickly it compiled."""
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def peak_memory() -> float:
    """The most memory this process has held so far, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # The other count begins with the memory of the process that started this.
        (line,) = (row for row in status.read_text().splitlines() if row.startswith("VmHWM:"))
        return 1024.0 * int(line.split()[1])
    unit = 1 if sys.platform == "darwin" else 1024
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def _default_folder() -> Path:
    chosen = os.environ.get(CACHE_VARIABLE)
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "l2e"
    return (Path(chosen) if chosen else root) / _kind_of_machine()


def _kind_of_machine() -> str:
    """Machine code for one processor may not run on another that shares the folder."""
    cpuinfo = Path("/proc/cpuinfo")
    known = cpuinfo.read_text() if cpuinfo.exists() else ""
    features = sorted(
        {line for line in known.splitlines() if line.startswith(("flags", "Features"))}
    )
    return f"{platform.machine()}-{zlib.crc32(''.join(features).encode()):08x}"
