"""What the package costs: `import epic_memory`, the demo, and the built wheel."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    for statement in ("pass", "import epic_memory", "from epic_memory import EpicMemory"):
        print(f"python -c {statement!r}: {_seconds([sys.executable, '-c', statement], 11):.3f} s")
    print(f"epic demo: {_seconds([sys.executable, '-m', 'epic_apps.cli.main', 'demo'], 5):.2f} s (at most 5)")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "build", "--wheel", "--outdir", folder, str(ROOT)]
        subprocess.run(command, check=True, capture_output=True)
        (wheel,) = Path(folder).glob("*.whl")
        print(f"wheel: {wheel.stat().st_size / 1e6:.2f} MB (at most 10)")
    encoder = ROOT / "shared" / "epic_memory" / "data" / "static_encoder"
    print(f"static encoder, unpacked: {sum(f.stat().st_size for f in encoder.iterdir()) / 1e6:.2f} MB")


def _seconds(command: list[str], runs: int) -> float:
    taken = []
    for _ in range(runs + 1):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken[1:])


if __name__ == "__main__":
    main()
