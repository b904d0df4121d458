"""Sixteen writers in four processes on a few users' files, with kill -9: nothing lost, nobody reads another's."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from epic_scale import MemoryPool

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills as POSIX does")

PROCESSES, KILLS, USERS = 4, 5, 6
_WRITER = textwrap.dedent(
    """
    import random, sys, threading
    sys.path.insert(0, sys.argv[4])
    from epic_memory import Settings
    from epic_scale import MemoryPool
    from helpers import HashEncoder, KeepAll

    root, number, users = sys.argv[1], sys.argv[2], int(sys.argv[3])
    pool = MemoryPool(root, max_open=4, wait="120 s", encoder=HashEncoder(), settings=Settings(verifier=KeepAll()))
    printing = threading.Lock()

    def write(writer):
        chance = random.Random(f"{number} {writer}")
        for turn in range(10_000):
            user = f"user{chance.randrange(users)}"
            text = f"wine {user} n{number}w{writer}t{turn}"
            with pool.get(user) as memory:
                others = [item.text for item in memory.items() if f" {user} " not in item.text]
                kept = memory.add([text]).kept
            with printing:
                # After the turn: what is printed was acknowledged.
                print("OTHERS" if others else "LOST" if kept != 1 else text, flush=True)

    for writer in range(4):
        threading.Thread(target=write, args=(writer,)).start()
    """
)


def started(root: Path, number: int, written: Path) -> subprocess.Popen[bytes]:
    support = str(Path(__file__).parents[1] / "support")
    command = [sys.executable, "-c", _WRITER, str(root), str(number), str(USERS), support]
    with written.open("ab") as output:
        return subprocess.Popen(command, stdout=output, stderr=output)


def test_nothing_that_was_acknowledged_is_lost(tmp_path: Path) -> None:
    from epic_memory import Settings
    from helpers import HashEncoder, KeepAll

    root, chance = tmp_path / "users", random.Random(7)
    options = {"encoder": HashEncoder(), "settings": Settings(verifier=KeepAll())}
    with MemoryPool(root, **options) as pool:  # type: ignore[arg-type]
        for user in range(USERS):
            with pool.get(f"user{user}") as memory:
                memory.preferences.add("I like wine")
    logs = [tmp_path / f"{number}.txt" for number in range(PROCESSES)]
    running = [started(root, number, log) for number, log in enumerate(logs)]
    number = PROCESSES
    try:
        for kill in range(KILLS):
            place = kill % PROCESSES
            before, deadline = logs[place].stat().st_size, time.monotonic() + 120
            while logs[place].stat().st_size < before + 200 and time.monotonic() < deadline:
                time.sleep(0.02)
            time.sleep(chance.random() * 0.1)
            running[place].send_signal(signal.SIGKILL)
            running[place].wait()
            running[place] = started(root, number, logs[place])
            number += 1
    finally:
        for process in running:
            process.kill()
            process.wait()
    # The last line may have been cut by the kill.
    acknowledged = {
        line for log in logs for line in log.read_text().split("\n")[:-1] if len(line.split()) == 3 and "wine" in line
    }
    told = {line for log in logs for line in log.read_text().split("\n")[:-1] if not line.startswith("wine ")}
    assert not told
    with MemoryPool(root, **options) as pool:  # type: ignore[arg-type]
        held: set[str] = set()
        for user in range(USERS):
            with pool.get(f"user{user}") as memory:
                memory.file.verify()
                texts = {item.text for item in memory.items()}
                assert all(f" user{user} " in text for text in texts)
                held |= texts
    assert len(acknowledged) > KILLS
    assert acknowledged <= held
