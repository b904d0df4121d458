"""The first minutes of a user, timed: install, answer a few questions, give a chat, accept three proposals, ask.

Each step is the command that a user types, in a fresh virtual environment and an empty folder; the package is installed
from this checkout, and what it needs from the index that pip is configured for. Printed are the seconds of each step,
and what the last one answers. The aim is less than three minutes together.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ANSWERS = {
    "tone": "Short answers, please. I can't stand jargon.",
    "work": "I'm a nurse and I work night shifts.",
    "taste": "I love crime novels and I hate horror films.",
}
CHAT = [
    ("user", "Hi! Can you find me a hotel in Porto for the first week of June?", "2026-05-03T19:02:00Z"),
    ("assistant", "Gladly. The Grand Casino Hotel by the river has rooms.", "2026-05-03T19:02:10Z"),
    ("user", "No, I avoid hotels with a casino. And I'm allergic to feathers.", "2026-05-03T19:03:00Z"),
    ("assistant", "Then the Torel, in a quiet street; its pillows are made of cotton.", "2026-05-03T19:03:10Z"),
    ("user", "That sounds right. I follow a vegan diet, is there breakfast for me?", "2026-05-03T19:04:00Z"),
    ("assistant", "Yes: oats, fruit, and scrambled tofu on request.", "2026-05-03T19:04:10Z"),
    ("user", "Perfect. My sister lives in Braga, we'll visit her by train.", "2026-05-03T19:05:00Z"),
    ("assistant", "The train from Sao Bento takes an hour.", "2026-05-03T19:05:10Z"),
]
QUESTION = "Which hotel suits me?"
WANTED = 3
AIM = 180.0


def timed(name: str, command: list[str | Path], folder: Path) -> tuple[float, str]:
    """Run a command in a folder; its seconds, which are printed, and its output."""
    outside = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    started = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=outside, check=False, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    if done.returncode:
        sys.exit(f"{name} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    print(f"{seconds:7.2f} s  {name}", flush=True)
    return seconds, done.stdout


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        binaries = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        epic = binaries / "epic"
        (folder / "answers.json").write_text(json.dumps(ANSWERS), encoding="utf-8")
        lines = [json.dumps({"role": role, "content": text, "time": at}) for role, text, at in CHAT]
        (folder / "chat.jsonl").write_text("\n".join(lines), encoding="utf-8")
        steps: list[tuple[str, list[str | Path]]] = [
            ("python -m venv venv", [sys.executable, "-m", "venv", "venv"]),
            ("pip install epic-memory", [binaries / "python", "-m", "pip", "install", "--quiet", str(ROOT)]),
            ("epic onboard me.epic --answers answers.json", [epic, "onboard", "me.epic", "--answers", "answers.json"]),
            ("epic build --out me.epic chat.jsonl", [epic, "build", "--out", "me.epic", "--quiet", "chat.jsonl"]),
            ("epic import me.epic chat.jsonl", [epic, "import", "me.epic", "chat.jsonl"]),
            ("epic proposals me.epic", [epic, "proposals", "me.epic"]),
        ]
        total = 0.0
        for step, command in steps:
            seconds, output = timed(step, command, folder)
            total += seconds
        ids = [line.split()[0] for line in output.splitlines() if line[:8].isalnum() and line[8:10] == "  "][:WANTED]
        assert len(ids) == WANTED, output
        accepted = timed(
            f"epic proposals me.epic accept {' '.join(ids)}", [epic, "proposals", "me.epic", "accept", *ids], folder
        )
        asked = timed(f"epic ask me.epic {QUESTION!r}", [epic, "ask", "me.epic", QUESTION, "--context"], folder)
        total += accepted[0] + asked[0]
        print(f"{total:7.2f} s  together (aim: {AIM:.0f})\n\n{output}\n{accepted[1]}\n{asked[1]}")


if __name__ == "__main__":
    main()
