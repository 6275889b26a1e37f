"""Series drawn as SVG: how many jobs wait, and a band for each agent, filled as far as it is. `python -m jobyard.coordinator.simulation.pictures FOLDER`."""

import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

import msgspec

from jobyard.coordinator.simulation.series import Story
from jobyard.coordinator.simulation.stories import all_of_them

_WIDTH: Final = 760
_LEFT: Final = 90
_RIGHT: Final = 20
_TOP: Final = 74
_WAITING: Final = 110
_BAND: Final = 44
_GAP: Final = 12
_STYLE: Final = (
    "text{font:12px sans-serif;fill:#333}.title{font-size:15px;font-weight:bold}.axis{stroke:#bbb}.back{fill:#f3f3f3}"
    ".busy{fill:#4878a8}.waits{fill:#e3b778;stroke:#b5791d}.mark{stroke:#b03030;stroke-dasharray:4 3}.note{fill:#b03030}"
)


def drawn(story: Story) -> str:
    """The picture as SVG."""
    names = sorted(story.slots, key=lambda name: (len(name), name))
    height = _TOP + _WAITING + len(names) * (_BAND + _GAP) + 50
    last = max((moment.at for moment in story.moments), default=1.0)

    def x(at: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - _RIGHT) * at / last, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(story.title)}">',
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="{_LEFT}" y="22">{escape(story.title)}</text>',
    ]
    most = max((moment.waiting for moment in story.moments), default=0) or 1
    base = _TOP + _WAITING
    heights = [(x(moment.at), (_WAITING - 10) * moment.waiting / most) for moment in story.moments]
    parts += [
        f'<text x="8" y="{base - _WAITING / 2}">waiting</text><text x="8" y="{base - _WAITING / 2 + 15}">(at most {most})</text>',
        _area("waits", heights, base),
        f'<line class="axis" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{base}" y2="{base}"/>',
    ]
    for number, name in enumerate(names):
        floor = base + (number + 1) * (_BAND + _GAP)
        there = [moment for moment in story.moments if name in moment.room or moment.running.get(name)]
        if there:
            first, end = x(there[0].at), x(there[-1].at)
            parts.append(f'<rect class="back" x="{first}" y="{floor - _BAND}" width="{round(end - first, 1)}" height="{_BAND}"/>')
        filled = [(x(moment.at), _BAND * min(1.0, moment.running.get(name, 0) / story.slots[name])) for moment in story.moments]
        room = [(x(moment.at), _BAND * min(1.0, moment.room.get(name, 0.0))) for moment in story.moments]
        parts.append(_area("busy", [(at, max(a, b)) for (at, a), (_, b) in zip(filled, room, strict=True)], floor))
        parts.append(f'<text x="8" y="{floor - _BAND / 2 + 4}">{escape(name)}, {story.slots[name]} slots</text>')
    floor = base + len(names) * (_BAND + _GAP)
    for row, mark in enumerate(sorted(story.marks, key=lambda one: one.at)):
        at, y = x(mark.at), 38 + 14 * row
        side = 'text-anchor="end" ' if at > _WIDTH * 0.6 else ""
        parts.append(f'<line class="mark" x1="{at}" x2="{at}" y1="{y + 3}" y2="{floor}"/>')
        parts.append(f'<text class="note" {side}x="{at}" y="{y}">{escape(mark.what)}</text>')
    for second in range(0, int(last) + 1, 10):
        parts.append(f'<text x="{x(second)}" y="{floor + 18}" text-anchor="middle">{second} s</text>')
    return "\n".join([*parts, "</svg>", ""])


def _area(style: str, heights: Sequence[tuple[float, float]], floor: float) -> str:
    """What is filled below a line of steps."""
    if not heights:
        return ""
    points = [f"{heights[0][0]},{floor}"]
    before = 0.0
    for at, height in heights:
        points += [f"{at},{round(floor - before, 1)}", f"{at},{round(floor - height, 1)}"]
        before = height
    points.append(f"{heights[-1][0]},{floor}")
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
