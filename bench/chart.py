"""Charts as SVG text, without any library: bars, and lines. Must not know: what they mean."""

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
    parts = _head(title, unit, 50 + sum(30 + len(of) * (_BAR + _GAP) for _, of in groups))
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


def stacked(title: str, rows: Sequence[tuple[str, Sequence[tuple[str, float]]]], unit: str) -> str:
    """Horizontal bars of parts one behind the other, the sum at the end, and what the colours are.

    Args:
        title: Of the chart.
        rows: A bar's name and its parts (name, value), from the left.
        unit: Behind the title.
    """
    names = list(dict.fromkeys(name for _, of in rows for name, _ in of))
    most = max((sum(value for _, value in of) for _, of in rows), default=0) or 1
    parts = _head(title, unit, 90 + len(rows) * (_BAR + _GAP))
    x = 12.0
    for name, colour in zip(names, _COLOURS, strict=False):
        parts.append(f'<rect x="{x:.1f}" y="54" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 16:.1f}" y="65">{escape(name)}</text>')
        x += 36 + 8 * len(name)
    y = 80
    for name, of in rows:
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(name)}</text>')
        x = _LEFT
        for part, value in of:
            width = value / most * _WIDTH
            colour = _COLOURS[names.index(part)]
            parts.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>')
            x += width
        parts.append(f'<text x="{x + 6:.1f}" y="{y + 14}">{sum(value for _, value in of):,.0f}</text>')
        y += _BAR + _GAP
    return "\n".join([*parts, "</g></svg>", ""])


def lines(title: str, series: Sequence[tuple[str, Sequence[float], Sequence[float]]], unit: str) -> str:
    """A small chart for each series, two beside each other, from 0 up; the highest value stands at its left.

    Args:
        title: Of the whole.
        series: A name, and where each of its values stands along the chart; all share one scale there.
        unit: Behind the title.
    """
    wide, high, left = 260, 60, 90
    most_x = max((x for _, xs, _ in series for x in xs), default=0) or 1
    parts = _head(title, unit, 60 + (len(series) + 1) // 2 * (high + 40))
    for number, (name, xs, ys) in enumerate(series):
        x0, y0 = left + number % 2 * (wide + 110), 80 + number // 2 * (high + 40)
        most = max(ys, default=0) or 1
        points = " ".join(
            f"{x0 + x / most_x * wide:.1f},{y0 + high - y / most * high:.1f}" for x, y in zip(xs, ys, strict=True)
        )
        parts += [
            f'<text x="{x0}" y="{y0 - 6}" font-weight="bold">{escape(name)}</text>',
            f'<text x="{x0 - 6}" y="{y0 + 12}" text-anchor="end">{most:,.0f}</text>',
            f'<rect x="{x0}" y="{y0}" width="{wide}" height="{high}" fill="none" stroke="#cccccc"/>',
            f'<polyline points="{points}" fill="none" stroke="{_COLOURS[0]}" stroke-width="1.5"/>',
        ]
    return "\n".join([*parts, "</g></svg>", ""])


def _head(title: str, unit: str, height: int) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 110} {height}">',
        '<g font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="12" y="24" font-size="16" font-weight="bold">{escape(title)}</text>',
        f'<text x="12" y="42" fill="#555555">{escape(unit)}</text>',
    ]
