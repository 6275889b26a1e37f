"""Series drawn as SVG: how many jobs wait, and a band for each agent, filled as far as it is. `python -m jobyard.coordinator.simulation.pictures FOLDER`."""

import sys
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Final

import msgspec

from jobyard.coordinator.simulation.series import Story
from jobyard.coordinator.simulation.stories import all_of_them

_WIDTH: Final = 760
_LEFT: Final = 96
_RIGHT: Final = 28
_TITLE: Final = 24
_MARKS: Final = 50
_LINE: Final = 17
_WAITING: Final = 100
_BAND: Final = 44
_GAP: Final = 12
_LETTER: Final = 6.4
"""How wide a letter is, about."""
_STYLE: Final = (
    "text{font:12px sans-serif;fill:#333}.title{font-size:15px;font-weight:bold}.axis{stroke:#999}.tick{stroke:#ddd}.back{fill:#f0f0f0}"
    ".held{fill:#b9cde0}.busy{fill:#4878a8}.whole{fill:#7a4e9c}.waits{fill:#e3b778;stroke:#b5791d}.mark{stroke:#b03030;stroke-dasharray:4 3}"
    ".note{fill:#b03030;paint-order:stroke;stroke:#fff;stroke-width:4px;stroke-linejoin:round}"
)


def drawn(story: Story) -> str:
    """The picture as SVG: above what waits, below one band for each agent; from left to right the time."""
    names = sorted(story.slots, key=lambda name: (len(name), name))
    base = _MARKS + _LINE * len(story.marks) + _WAITING
    floor = base + len(names) * (_BAND + _GAP)
    height = floor + 72
    last = max((moment.at for moment in story.moments), default=1.0)

    def x(at: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * at / last, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(story.title)}">',
        f"<style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        f'<text class="title" x="8" y="{_TITLE}">{escape(story.title)}</text>',
    ]
    for second in range(0, int(last) + 1, 10):
        parts.append(f'<line class="tick" x1="{x(second)}" x2="{x(second)}" y1="{base - _WAITING}" y2="{floor + 4}"/>')
        parts.append(f'<text x="{x(second)}" y="{floor + 18}" text-anchor="middle">{second} s</text>')
    parts += _waiting(story, x, base)
    for number, name in enumerate(names):
        parts += _band(story, name, x, base + (number + 1) * (_BAND + _GAP))
    for row, mark in enumerate(sorted(story.marks, key=lambda one: one.at)):
        at, y = x(mark.at), _MARKS + _LINE * row
        parts.append(f'<line class="mark" x1="{at}" x2="{at}" y1="{y - 10}" y2="{floor}"/>')
    for row, mark in enumerate(sorted(story.marks, key=lambda one: one.at)):
        at, y = x(mark.at), _MARKS + _LINE * row
        fits = at + 4 + _LETTER * len(mark.what) < _WIDTH
        place = f'x="{round(at + 4, 1)}"' if fits else f'text-anchor="end" x="{round(at - 4, 1)}"'
        parts.append(f'<text class="note" {place} y="{y}">{escape(mark.what)}</text>')
    parts += _legend(story, floor + 46)
    return "\n".join([*parts, "</svg>", ""])


def _waiting(story: Story, x: Callable[[float], float], base: int) -> list[str]:
    most = max((moment.waiting for moment in story.moments), default=0) or 1
    heights = [(x(moment.at), (_WAITING - 10) * moment.waiting / most) for moment in story.moments]
    return [
        f'<text x="8" y="{base - 4}">jobs that wait</text>',
        f'<text x="{_LEFT - 6}" y="{base - _WAITING + 14}" text-anchor="end">{most}</text>',
        f'<line class="axis" x1="{_LEFT - 4}" x2="{_LEFT}" y1="{base - _WAITING + 10}" y2="{base - _WAITING + 10}"/>',
        _area("waits", heights, base),
        f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{base}" y2="{base}"/>',
        f'<line class="axis" x1="{_LEFT}" x2="{_LEFT}" y1="{base - _WAITING + 10}" y2="{base}"/>',
    ]


def _band(story: Story, name: str, x: Callable[[float], float], floor: int) -> list[str]:
    """One agent: from its first moment to its last; full height is full load."""
    parts = [
        f'<text x="8" y="{floor - _BAND / 2:g}">{escape(name)}</text>',
        f'<text x="8" y="{floor - _BAND / 2 + 14:g}">{story.slots[name]} slots</text>',
    ]
    there = [moment for moment in story.moments if name in moment.held or name in moment.busy]
    if not there:
        return parts
    first, end = x(there[0].at), x(there[-1].at)
    parts.append(f'<rect class="back" x="{first}" y="{floor - _BAND}" width="{round(end - first, 1)}" height="{_BAND}"/>')
    for style, shares in (
        ("held", [moment.held.get(name, 0.0) for moment in story.moments]),
        ("busy", [moment.busy.get(name, 0.0) for moment in story.moments]),
        ("whole", [moment.busy[name] if name in moment.whole else 0.0 for moment in story.moments]),
    ):
        if any(shares):
            parts.append(
                _area(style, [(x(one.at), _BAND * min(1.0, share)) for one, share in zip(story.moments, shares, strict=True)], floor)
            )
    return parts


def _legend(story: Story, y: int) -> list[str]:
    entries = [("waits", "waits"), ("busy", "runs"), ("held", "placed, as the leader believes"), ("back", "free")]
    if any(moment.whole for moment in story.moments):
        entries.insert(2, ("whole", "runs: the large job"))
    parts: list[str] = []
    at = float(_LEFT)
    for style, text in entries:
        parts.append(f'<rect class="{style}" x="{at:g}" y="{y - 10}" width="12" height="12"/>')
        parts.append(f'<text x="{at + 17:g}" y="{y}">{text}</text>')
        at += 17 + round(_LETTER * len(text)) + 22
    return parts


def _area(style: str, heights: Sequence[tuple[float, float]], floor: float) -> str:
    """What is filled below a line of steps."""
    points: list[str] = []
    before = 0.0
    for at, height in heights:
        if height != before:
            points += [f"{at},{round(floor - before, 1):g}", f"{at},{round(floor - height, 1):g}"]
            before = height
    if before:
        points += [f"{heights[-1][0]},{round(floor - before, 1):g}", f"{heights[-1][0]},{floor}"]
    return f'<polygon class="{style}" points="{" ".join(points)}"/>'


def main(arguments: Sequence[str]) -> int:
    """Draw the three stories, or the series in the files that are named after the folder."""
    if not arguments:
        sys.stderr.write("usage: python -m jobyard.coordinator.simulation.pictures FOLDER [SERIES.json …]\n")
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    named = [Path(name) for name in arguments[1:]]
    stories = {one.stem: msgspec.json.decode(one.read_bytes(), type=Story) for one in named} if named else all_of_them()
    for name, story in stories.items():
        path = folder / f"{name}.svg"
        path.write_text(drawn(story))
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
