"""For which platforms the index has wheels of all that the light install needs, so that nothing is compiled.

    python tests/benchmarks/bench_wheels.py [--python 3.10 ...]

pip is asked by name (`--only-binary=:all: --no-deps --platform ...`), with the versions that are needed, and only looks
(`--dry-run`); shown is the newest with a wheel. What is pure Python, one wheel for all, is listed once. The answers are
those of the index that pip is configured for, and hold for what is installed here.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from importlib import metadata

from epic_apps.sizes import sizes

PLATFORMS = {
    "manylinux x86_64": ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux2014_x86_64"),
    "manylinux aarch64": ("manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux2014_aarch64"),
    "musllinux x86_64": ("musllinux_1_2_x86_64", "musllinux_1_1_x86_64"),
    "musllinux aarch64": ("musllinux_1_2_aarch64", "musllinux_1_1_aarch64"),
    "macOS arm64": ("macosx_14_0_arm64", "macosx_12_0_arm64", "macosx_11_0_arm64"),
    "Windows amd64": ("win_amd64",),
}
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")


def wheel(wanted: str, platforms: tuple[str, ...], python: str) -> str:
    """Return the file name of the wheel that pip would install; empty for none."""
    asked = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet"]
    asked += ["--only-binary=:all:", "--report=-", f"--python-version={python}", wanted]
    with tempfile.TemporaryDirectory() as folder:
        asked += [f"--target={folder}", *(f"--platform={each}" for each in platforms)]
        done = subprocess.run(asked, check=False, capture_output=True, text=True)
    if done.returncode:
        if "No matching distribution" not in done.stderr:
            sys.exit(done.stderr)
        return ""
    (found,) = json.loads(done.stdout)["install"]
    return str(found["download_info"]["url"].rpartition("/")[2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="append", choices=PYTHONS)
    pythons = parser.parse_args().python or PYTHONS
    needed = [one.part for one in sizes() if one.kind == "needed"]
    lines = [line for name in ("epic-memory", *needed) for line in metadata.distribution(name).requires or ()]
    ranges = {re.split(r"[^\w.-]", line)[0].replace("_", "-").lower(): line.partition(";")[0] for line in lines[::-1]}
    pure = []
    print(f"{'':32}" + "".join(f"{python:>10}" for python in pythons))
    for name in sorted(needed):
        if wheel(ranges[name], ("any",), pythons[0]):
            pure.append(name)
            continue
        for label, platforms in PLATFORMS.items():
            found = [wheel(ranges[name], platforms, python) for python in pythons]
            print(f"{name:14}{label:18}" + "".join(f"{version(each):>10}" for each in found), flush=True)
    print("one wheel for all:", ", ".join(pure))


def version(file: str) -> str:
    """Return a wheel's version; a dash for none."""
    return file.split("-")[1] if file else "-"


if __name__ == "__main__":
    main()
