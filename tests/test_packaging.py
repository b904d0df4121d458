"""The distributions beside `epic-memory`: same version, same names, and wheels that import."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
INTEGRATIONS = {
    "langchain-epic": ("langchain_epic", "epic_langchain"),
    "llama-index-retrievers-epic": ("llama_index.retrievers.epic", "epic_llamaindex"),
}
VERSION = re.compile(r'^version\s*[=:]\s*"?([^"\n]+)"?$', re.MULTILINE)


def version_of(file: Path) -> str:
    (version,) = VERSION.findall(file.read_text(encoding="utf-8"))
    return str(version)


def test_all_versions_are_the_same() -> None:
    files = [ROOT / "CITATION.cff", *(ROOT / "packaging" / name / "pyproject.toml" for name in INTEGRATIONS)]
    version = version_of(ROOT / "pyproject.toml")
    assert {version_of(file) for file in files} == {version}
    for file in files[1:]:
        assert f"=={version}" in file.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("name", INTEGRATIONS)
def test_an_integration_builds_and_exports_what_the_plugin_exports(name: str, tmp_path: Path) -> None:
    module, plugin = INTEGRATIONS[name]
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", str(tmp_path)]
    subprocess.run([*build, str(ROOT / "packaging" / name)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    # `llama_index.retrievers` is a namespace to which the wheel adds, as an installed one does.
    code = f"""
import importlib, sys, zipfile
zipfile.ZipFile({str(wheel)!r}).extractall({str(tmp_path)!r})
sys.path.append({str(tmp_path)!r})
ours, theirs = importlib.import_module({module!r}), importlib.import_module({plugin!r})
assert ours.__file__.startswith({str(tmp_path)!r}), ours.__file__
assert ours.__all__ == theirs.__all__ and all(getattr(ours, key) is getattr(theirs, key) for key in ours.__all__)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
