"""Bar charts as SVG text, without any library. Must not know: what the bars mean."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_COLOURS = ("#2a6f97", "#89c2d9", "#e09f3e", "#9e2a2b", "#6a994e", "#7b5ea7")
_LEFT, _WIDTH, _BAR, _GAP = 250, 420, 18, 6


def bars(title: str, groups: Sequence[tuple[str, Sequence[tuple[str, float]]]], unit: str) -> str:
    """Horizontal bars in groups; one colour for each name, the value at the bar's end.

    Args:
        title: Of the chart.
        groups: A heading and its bars (name, value), from the top.
        unit: Behind the title.
    """
    names = list(dict.fromkeys(name for _, of in groups for name, _ in of))
    most = max((value for _, of in groups for _, value in of), default=0) or 1
    height = 50 + sum(30 + len(of) * (_BAR + _GAP) for _, of in groups)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 110} {height}">',
        '<g font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="12" y="24" font-size="16" font-weight="bold">{escape(title)}</text>',
        f'<text x="12" y="42" fill="#555555">{escape(unit)}</text>',
    ]
    y = 50
    for heading, of in groups:
        parts.append(f'<text x="12" y="{y + 20}" font-weight="bold">{escape(heading)}</text>')
        y += 30
        for name, value in of:
            colour = _COLOURS[names.index(name) % len(_COLOURS)]
            width = max(1.0, value / most * _WIDTH)
            parts += [
                f'<text x="{_LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(name)}</text>',
                f'<rect x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>',
                f'<text x="{_LEFT + width + 6:.1f}" y="{y + 14}">{value:,.0f}</text>',
            ]
            y += _BAR + _GAP
    return "\n".join([*parts, "</g></svg>", ""])
