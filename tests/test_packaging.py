"""The distributions, and the names that users of the frameworks look for: same version, and wheels that import."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
INTEGRATIONS = ("langchain-epic", "llama-index-retrievers-epic")
# Where users of LlamaIndex look for a component.
PLACES = {
    "vector_stores": "EpicVectorStore",
    "memory": "EpicMemoryBlock",
    "postprocessor": "EpicNodePostprocessor",
    "retrievers": "EpicRetriever",
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


def built(project: Path, into: Path) -> Path:
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", str(into), str(project)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = into.glob("*.whl")
    return wheel


@pytest.mark.parametrize(("place", "component"), PLACES.items())
def test_a_component_is_where_llamaindex_has_others_of_its_kind(place: str, component: str) -> None:
    plugin = pytest.importorskip("epic_llamaindex")
    module = importlib.import_module(f"llama_index.{place}.epic")
    assert component in module.__all__
    for name in module.__all__:
        assert getattr(module, name) is getattr(plugin, name)


@pytest.mark.slow
def test_the_wheel_has_the_prompts_and_adds_to_llamaindexs_namespaces_without_replacing_any(tmp_path: Path) -> None:
    with zipfile.ZipFile(built(ROOT, tmp_path)) as wheel:
        names = set(wheel.namelist())
    prompts = {f"epic_memory/data/prompts/{file.name}" for file in (ROOT / "shared/epic_memory/data/prompts").iterdir()}
    assert prompts and prompts <= names
    added = {name for name in names if name.startswith("llama_index/")}
    assert added == {f"llama_index/{place}/epic/{file}" for place in PLACES for file in ("__init__.py", "py.typed")}


@pytest.mark.slow
def test_the_integration_for_langchain_exports_what_the_plugin_exports(tmp_path: Path) -> None:
    wheel = built(ROOT / "packaging" / "langchain-epic", tmp_path)
    code = f"""
import sys
sys.path.insert(0, {str(wheel)!r})
import langchain_epic as ours, epic_langchain as theirs
assert ours.__file__.startswith({str(wheel)!r}), ours.__file__
assert ours.__all__ == theirs.__all__ and all(getattr(ours, key) is getattr(theirs, key) for key in ours.__all__)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_integration_for_llamaindex_only_depends_on_what_holds_its_module(tmp_path: Path) -> None:
    with zipfile.ZipFile(built(ROOT / "packaging" / "llama-index-retrievers-epic", tmp_path)) as wheel:
        assert not [name for name in wheel.namelist() if ".dist-info/" not in name]
        (metadata,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
        assert "Requires-Dist: epic-memory[llamaindex]==" in wheel.read(metadata).decode()


@pytest.mark.skipif(not (ROOT / ".ci").is_dir(), reason="a source distribution has no .ci")
def test_every_dependency_has_an_upper_bound_in_ci() -> None:
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[project.scripts]")[0]
    # Not installed in CI, as they are heavy or have to be compiled.
    elsewhere = {"chromadb", "lancedb", "langmem", "mem0ai"}
    names = set(
        re.findall(r'"([a-z][\w-]*)(?:\[[\w,-]+\])?(?:>=[^"]+)?"[,\]]', declared.partition("dependencies = ")[2])
    )
    bounded = re.findall(r"^([\w-]+)<\d+$", (ROOT / ".ci/upper.txt").read_text(encoding="utf-8"), re.MULTILINE)
    missing = names - set(bounded) - elsewhere - {"epic-memory", "llama-index-vector-stores-chroma"}
    assert not missing and {"numpy", "langchain-core", "mypy", "playwright"} <= names


# Modules that only some systems have: fcntl on Linux and macOS, msvcrt on Windows.
OF_ONE_SYSTEM = {"fcntl", "grp", "msvcrt", "posix", "pty", "pwd", "readline", "resource", "termios", "tty", "winreg"}


def test_no_module_needs_a_system_of_its_own() -> None:
    found = []
    for file in [*ROOT.glob("shared/epic_*/**/*.py"), *ROOT.glob("epic_*/**/*.py")]:
        # Where another system has another way, it is imported under an `if`, in a `try`, or where it is used.
        for line in ast.parse(file.read_text(encoding="utf-8")).body:
            names = [each.name for each in line.names] if isinstance(line, ast.Import) else []
            names += [line.module or ""] if isinstance(line, ast.ImportFrom) else []
            found += [f"{file.name}: {name}" for name in names if name in OF_ONE_SYSTEM]
    assert not found
