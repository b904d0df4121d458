"""Builder of the bundled library of expanded preferences: `epic_memory/data/library.txt.xz` from `written/library`.

    python shared/tools/make_library.py

Each file of `written/library` holds blocks in the order `P:` a preference, `Q:` questions for which it matters, `F:`
what follows it, `B:` what breaks it, phrases parted by `|`, under lines `# domain`.
A language model wrote them, without a
view of any evaluation. A preference that is there twice, or has a part of fewer than five phrases, is left out.
"""

from __future__ import annotations

import lzma
from pathlib import Path

WRITTEN = Path(__file__).parent / "written" / "library"
DATA = Path(__file__).parents[1] / "epic_memory" / "data" / "library.txt.xz"
LEAST = 5


def blocks() -> list[dict[str, str]]:
    """Read all blocks: domain, preference and parts by their letters."""
    found: list[dict[str, str]] = []
    for path in sorted(WRITTEN.glob("*.txt")):
        domain = ""
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("# "):
                domain = line[2:].strip()
            elif line[:2] == "P:":
                found.append({"domain": domain, "P": line[2:].strip()})
            elif line[:2] in ("Q:", "F:", "B:"):
                found[-1][line[0]] = "|".join(part.strip() for part in line[2:].split("|") if part.strip())
    return found


def main() -> None:
    """Write the library and print what is in it."""
    known: set[str] = set()
    lines, domain = [], ""
    domains: set[str] = set()
    for block in blocks():
        whole = all(part in block and len(block[part].split("|")) >= LEAST for part in "QFB")
        if not whole or block["P"].casefold() in known:
            continue
        known.add(block["P"].casefold())
        if block["domain"] != domain:
            domain = block["domain"]
            domains.add(domain)
        lines += [block["P"], block["Q"], block["F"], block["B"]]
    packed = lzma.compress("\n".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME)
    DATA.write_bytes(packed)
    print(f"{len(known)} preferences of {len(domains)} domains, {len(packed)} bytes")


if __name__ == "__main__":
    main()
