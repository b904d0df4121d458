"""Pictures of docs/concepts.md and docs/architecture.md: `draw_concepts.py docs/figures`."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #16302e; text-anchor: middle }
  .small { font-size: 12px; fill: #4a5f5d }
  rect { fill: #fff; stroke: #2a7d76; stroke-width: 1.5; rx: 6 }
  .ground { fill: #f3f8f7; stroke: none }
  .strong { fill: #cfe9e5 }
  .weak { stroke-dasharray: 5 4; stroke: #7c8f8d }
  .bad { fill: #fbe3dc; stroke: #b4512f }
  path { stroke: #4a5f5d; stroke-width: 1.5; fill: none; marker-end: url(#head) }
"""
LINE = 19


@dataclass
class Picture:
    """A picture under way: boxes with lines of text, and arrows between points."""

    width: int
    height: int
    title: str
    parts: list[str] = field(default_factory=list)

    def box(self, x: int, y: int, width: int, height: int, text: str, kind: str = "") -> None:
        self.parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}"/>')
        lines = text.split("\n")
        top = y + height / 2 - (len(lines) - 1) * LINE / 2 + 5
        for number, line in enumerate(lines):
            look = ' class="small"' if number else ""
            self.parts.append(f'<text{look} x="{x + width / 2:g}" y="{top + number * LINE:g}">{escape(line)}</text>')

    def arrow(self, *points: tuple[int, int], label: str = "", at: tuple[int, int] = (0, 0)) -> None:
        self.parts.append('<path d="M' + " L".join(f"{x},{y}" for x, y in points) + '"/>')
        if label:
            self.parts.append(f'<text class="small" x="{at[0]}" y="{at[1]}">{escape(label)}</text>')

    def svg(self) -> str:
        head = (
            '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0,0 L8,4 L0,8 z" style="fill:#4a5f5d;stroke:none;marker-end:none"/></marker>'
        )
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" role="img">',
                f"<title>{escape(self.title)}</title><style>{STYLE}</style><defs>{head}</defs>",
                f'<rect class="ground" width="{self.width}" height="{self.height}"/>',
                *self.parts,
                "</svg>\n",
            ]
        )


def stages() -> Picture:
    picture = Picture(820, 250, "The three stages: coarse filter, fine verification, steering")
    picture.box(10, 40, 130, 70, "texts\nnotes, chats, pages")
    picture.box(190, 40, 150, 70, "1  coarse filter\nnear a preference?", "strong")
    picture.box(410, 40, 170, 70, "2  fine verification\nwhat does it say about it?", "strong")
    picture.box(645, 40, 165, 70, "memory\ntext and instruction", "strong")
    picture.box(300, 170, 190, 60, "light tier\ntext only, while there is room", "weak")
    picture.box(645, 170, 165, 60, "3  steering\nwhich preference matters?", "strong")
    picture.arrow((140, 75), (188, 75))
    picture.arrow((340, 75), (408, 75), label="near", at=(374, 66))
    picture.arrow((580, 75), (643, 75), label="keep", at=(614, 66))
    picture.arrow((265, 110), (265, 200), (298, 200), label="not near", at=(232, 150))
    picture.arrow((460, 110), (460, 168), label="discard", at=(490, 146))
    picture.arrow((725, 110), (725, 168))
    picture.arrow((490, 200), (643, 200), label="searched, too", at=(569, 191))
    return picture


def tiers() -> Picture:
    picture = Picture(820, 260, "The two tiers of a memory")
    picture.box(20, 30, 380, 80, "first tier\nkept by both stages: text, instruction, stance\nleaves last", "strong")
    picture.box(20, 160, 380, 80, "light tier\nnot kept: text and its vector in four bits\nleaves first", "weak")
    picture.box(520, 30, 280, 80, "a search\nasks both; what is kept carries guidance")
    picture.box(520, 160, 280, 80, "a new preference\nlooks through the light tier first")
    picture.arrow((520, 60), (402, 60))
    picture.arrow((520, 90), (460, 90), (460, 180), (402, 180))
    picture.arrow((520, 215), (402, 215))
    picture.arrow((210, 160), (210, 112), label="moves up when a new preference fits", at=(325, 140))
    return picture


def expansion() -> Picture:
    picture = Picture(820, 270, "What an expansion adds to a preference")
    picture.box(20, 100, 240, 70, "“I only read books I can\nfinish in an evening.”", "strong")
    picture.box(380, 20, 420, 65, "questions for which it matters\nWhat should I read on the train?")
    picture.box(380, 102, 420, 65, "follows it\na slim novella · a collection of short stories", "strong")
    picture.box(380, 184, 420, 65, "breaks it\nan 800-page epic · the first volume of a trilogy", "bad")
    for y in (52, 135, 216):
        picture.arrow((260, 135), (320, 135), (320, y), (378, y))
    return picture


def steering() -> Picture:
    picture = Picture(820, 300, "How preferences change the order of what was found")
    picture.box(20, 20, 300, 60, "“Where should I stay in Las Vegas?”")
    picture.box(20, 120, 300, 60, "“I avoid hotels with casinos.”\nmatters to this question", "strong")
    picture.box(20, 220, 300, 60, "“I follow a vegan diet.”\ndoes not: changes nothing", "weak")
    picture.box(420, 20, 380, 60, "near the topic\nthe casino hotel, the quiet hotel")
    picture.box(420, 120, 380, 60, "for and against\nthe quiet hotel follows, the casino hotel breaks", "strong")
    picture.box(420, 220, 380, 60, "what comes back\n1  the quiet hotel   2  the casino hotel, “steer clear”", "strong")
    picture.arrow((320, 50), (418, 50))
    picture.arrow((320, 150), (418, 150))
    picture.arrow((610, 80), (610, 118))
    picture.arrow((610, 180), (610, 218))
    return picture


def adding() -> Picture:
    picture = Picture(820, 390, "The way of an item: add")
    picture.box(20, 20, 160, 56, "add(items)\nin batches")
    picture.box(240, 20, 220, 56, "held, waiting, in the ledger?")
    picture.box(560, 20, 240, 56, "skipped", "weak")
    picture.box(240, 116, 220, 56, "coarse filter\nnear a preference?", "strong")
    picture.box(240, 212, 220, 56, "verification\ncached verdict, else verifier", "strong")
    picture.box(20, 312, 200, 56, "retry queue", "weak")
    picture.box(240, 312, 220, 56, "commit: one transaction\nunder a budget: room first", "strong")
    picture.box(560, 164, 240, 56, "light tier while there is room\nledger; sample in not_kept", "weak")
    picture.box(560, 312, 240, 56, "SQLite file\nthen the namespace in RAM")
    picture.arrow((180, 48), (238, 48))
    picture.arrow((460, 48), (558, 48), label="yes", at=(509, 40))
    picture.arrow((350, 76), (350, 114), label="no", at=(366, 100))
    picture.arrow((350, 172), (350, 210), label="yes", at=(368, 196))
    picture.arrow((460, 144), (510, 144), (510, 180), (558, 180), label="no", at=(486, 136))
    picture.arrow((460, 240), (510, 240), (510, 204), (558, 204), label="Discard", at=(484, 256))
    picture.arrow((350, 268), (350, 310), label="Keep: embed the instruction", at=(250, 294))
    picture.arrow((240, 240), (120, 240), (120, 310), label="Undecided", at=(180, 232))
    picture.arrow((220, 340), (238, 340))
    picture.arrow((680, 220), (680, 268), (500, 268), (500, 330), (462, 330))
    picture.arrow((460, 350), (558, 350))
    return picture


def searching() -> Picture:
    picture = Picture(820, 380, "The way of a query: search")
    picture.box(20, 120, 140, 60, "search(query)\nembed: E(q)")
    picture.box(220, 30, 230, 60, "by text\ncosine with E(x), of title and text")
    picture.box(220, 210, 230, 60, "by exact words\nshare of the telling words")
    picture.box(540, 120, 250, 60, "candidates by topic\nany above the floor of relevance?", "strong")
    picture.box(540, 220, 250, 60, "rank\nsteering's evidence, stances", "strong")
    picture.box(540, 300, 250, 60, "context\npreferences that matter, then hits", "strong")
    picture.box(540, 20, 250, 60, "no hits\nthe fallback is asked, if any", "weak")
    picture.arrow((160, 140), (190, 140), (190, 60), (218, 60))
    picture.arrow((160, 160), (190, 160), (190, 240), (218, 240))
    picture.arrow((450, 60), (490, 60), (490, 140), (538, 140))
    picture.arrow((450, 240), (490, 240), (490, 160), (538, 160))
    picture.arrow((665, 180), (665, 218), label="yes", at=(683, 204))
    picture.arrow((665, 120), (665, 82), label="no", at=(681, 106))
    picture.arrow((665, 280), (665, 298))
    return picture


PICTURES = (stages, tiers, expansion, steering, adding, searching)


def main() -> None:
    folder = Path(sys.argv[1])
    for make in PICTURES:
        (folder / f"concept_{make.__name__}.svg").write_text(make().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
