"""Picture of `epic demo` in a terminal, written as SVG: python shared/tools/record_terminal.py docs/figures/demo.svg"""

from __future__ import annotations

import io
import re
import sys
from itertools import takewhile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from epic_apps.cli.demo import run_demo

_WIDTH = 116
# Background, text, and red, green and yellow among the eight colours.
_INK = (40, 44, 52)
_COLOURS = [_INK, (176, 42, 48), (28, 120, 64), (150, 104, 0), _INK, _INK, _INK, _INK]
_PAPER = TerminalTheme((252, 252, 250), _INK, _COLOURS)
# Fonts that a browser would fetch from another host.
_FONTS = re.compile(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", re.DOTALL)


def main() -> None:
    """Record the demo up to what a model is given."""
    out = Console(record=True, width=_WIDTH, force_terminal=True, file=io.StringIO(), highlight=False, markup=False)
    out.print(Text.assemble(("$ ", "dim"), ("epic demo\n", "bold")))
    for part in takewhile(lambda part: "What a model is given" not in str(part), run_demo()):
        out.print(part)
    svg = _FONTS.sub("", out.export_svg(title="epic demo", theme=_PAPER)).replace("Fira Code", "Menlo, Consolas")
    Path(sys.argv[1]).write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
