"""Sessions of nox: the commands of CONTRIBUTING.md, each in an environment of its own."""

from __future__ import annotations

import nox

nox.options.sessions = ["tests", "lint"]


@nox.session
def tests(session: nox.Session) -> None:
    """Run the default tests."""
    session.install("-e", ".[dev]")
    session.run("pytest", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types, which room imports which, and the links of the docs."""
    session.install("-e", ".[dev,lint]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")
    session.run("mkdocs", "build", "--strict", "--quiet", "--site-dir", "build/site")


@nox.session
def ci_tests(session: nox.Session) -> None:
    """Run what the default tests leave out."""
    session.install("-e", ".[ci]")
    session.env["HYPOTHESIS_PROFILE"] = "ci"
    session.run("pytest", "-q", "-m", "slow and not torch", "--dist", "worksteal")
    session.run("pytest", "-q", "-m", "not torch", "--dist", "worksteal", "tests/robustness", "tests/integration")
