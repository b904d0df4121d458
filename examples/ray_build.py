"""Memories for three people from one corpus, judged by two workers of Ray Data on this machine.

python examples/ray_build.py    # needs epic-memory[ray]: no server, no download
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import ray

from epic_memory import Item
from epic_scale import MemoryPool, build

PEOPLE = {
    "ann": ["I follow a strict vegan diet.", "I love quiet hikes in the mountains."],
    "ben": ["I avoid horror films.", "I prefer budget hotels."],
    "cas": ["I love jazz concerts."],
}
CORPUS = [
    "A vegan restaurant in Lisbon with a daily menu of lentils and beans.",
    "A mountain trail through silent forest, far from the crowds.",
    "A slasher film about a haunted house, full of horror.",
    "A hostel near the station with cheap rooms for travellers.",
    "The steam engine was improved by James Watt.",
    "The jazz club has concerts each night, with a trio from Oslo.",
]


def main() -> None:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    corpus = ray.data.from_items([{"id": Item(text=text).id, "text": text} for text in CORPUS])
    with tempfile.TemporaryDirectory() as folder:
        sink = str(Path(folder) / "built")
        report = build(corpus, PEOPLE, sink, concurrency=2, batch_size=2)
        print(f"{report.chunks} chunks, {report.entries} entries in {report.users} memories")
        with MemoryPool(f"{sink}/users") as pool:
            for user in PEOPLE:
                with pool.get(user) as memory:
                    print(user, [item.text for item in memory.items()])


if __name__ == "__main__":
    main()
