#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Puts the figures that were kept (bench/figures/*.json) into docs/batching.md and its plots.

  bench/batching_plot.py

Each measurement with --keep writes one of the files; this needs no server. A table of the page stands between
`<!-- figures NAME -->` and `<!-- end -->`, and stays as it is when there is no such file.
"""
import json
import math
import os
import re

from batching_lab import FIGURES, ROOT

DOCS = os.path.join(ROOT, "docs")
COLOURS = ("#888888", "#d08000", "#0060c0", "#208020", "#b02060", "#6040a0")
# torchpipe's documentation, docs/benchmark.mdx: TP50 of its own echo model and of Triton, other machines.
PUBLISHED = {"torchpipe, published": {"1": 0.25, "2": 10.25, "4": 0.34, "10": 0.82},
             "Triton, published by torchpipe": {"1": 10.5, "2": 10.57, "4": 0.5, "10": 0.97}}


def read_figures(name):
    with open(os.path.join(FIGURES, name + ".json"), encoding="ascii") as file:
        return json.load(file)


# ---- tables -------------------------------------------------------------------------------------


def table(title, columns, rows):
    lines = [f"| {title} | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    return lines + [f"| {name} | " + " | ".join(cells) + " |" for name, cells in rows]


def cells_of(figures, row, form):
    return [form.format(**figures["cells"][row][column]) for column in figures["columns"]]


def plain_rows(figures, form):
    return [(f"`{row}`", cells_of(figures, row, form)) for row in figures["cells"]]


def ratio_row(figures, key, row, against):
    cells = figures["cells"]
    return f"{row} / {against}", [f"{cells[row][column][key] / cells[against][column][key]:.2f}"
                                  for column in figures["columns"]]


def adaptive_table(figures):
    published = [(row, [f"{cells[column]:.2f}" if column in cells else "–"
                        for column in figures["columns"]]) for row, cells in PUBLISHED.items()]
    return (table("clients; p50, ms (mean batch)", figures["columns"],
                  plain_rows(figures, "{p50_ms:.2f} ({batch:.2f})") + published) + [""] +
            table("clients; requests/s", figures["columns"], plain_rows(figures, "{rate:.0f}") +
                  [ratio_row(figures, "rate", "flow", "off")]))


def poisson_table(figures):
    return table("load; p99, ms (mean batch)", figures["columns"],
                 plain_rows(figures, "{p99_ms:.2f} ({batch:.2f})") +
                 [ratio_row(figures, "p99_ms", "flow", other) for other in ("off", "idle")])


def composite_table(figures):
    return (table("clients; requests/s (mean batch)", figures["columns"],
                  plain_rows(figures, "{rate:.0f} ({batch:.2f})") +
                  [ratio_row(figures, "rate", "composite", "one group")]) + [""] +
            table("clients; p50, ms", figures["columns"], plain_rows(figures, "{p50_ms:.2f}")) + [""] +
            table("clients; CPU time of a request, us", figures["columns"],
                  plain_rows(figures, "{cpu_us:.0f}")))


def kinds_table(figures):
    return table("clients; p50, ms (mean batch)", figures["columns"],
                 plain_rows(figures, "{p50_ms:.2f} ({batch:.2f})"))


TABLES = {"kinds": kinds_table, "adaptive": adaptive_table, "poisson": poisson_table,
          "composite_convolution": composite_table, "composite_dense": composite_table}


def fill_page(path):
    with open(path, encoding="utf-8") as file:
        page = file.read()

    def filled(match):
        if not os.path.exists(os.path.join(FIGURES, match[1] + ".json")):
            return match[0]
        figures = read_figures(match[1])
        turns = f"{figures['rounds']} turns of {figures['seconds']:g} s each, medians over the turns"
        return "\n".join([f"<!-- figures {match[1]} -->", *TABLES[match[1]](figures), "",
                          f"({turns}.)", "<!-- end -->"])

    page = re.sub(r"<!-- figures (\w+) -->.*?<!-- end -->", filled, page, flags=re.DOTALL)
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)


# ---- plots --------------------------------------------------------------------------------------


def plot(path, figures, key, axis, ticks):
    """A line for each row over the columns, which are at equal distances; the other axis is logarithmic."""
    left, top, width, height = 60, 20, 520, 280
    columns, low, high = figures["columns"], math.log10(ticks[0]), math.log10(ticks[-1])

    def x(i):
        return left + width * i / (len(columns) - 1)

    def y(value):
        return top + height * (high - math.log10(value)) / (high - low)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 170} {top + height + 50}" '
           'font-family="sans-serif" font-size="13">',
           f'<rect width="{left + width + 170}" height="{top + height + 50}" fill="white"/>']
    for tick in ticks:
        out.append(f'<path d="M{left} {y(tick):.1f}h{width}" stroke="#dddddd"/>'
                   f'<text x="{left - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick}</text>')
    for i, column in enumerate(columns):
        out.append(f'<text x="{x(i):.1f}" y="{top + height + 18}" text-anchor="middle">{column}</text>')
    out.append(f'<text x="{left + width / 2}" y="{top + height + 40}" text-anchor="middle">'
               'clients that send again at once</text>'
               f'<text x="14" y="{top + height / 2}" text-anchor="middle" '
               f'transform="rotate(-90 14 {top + height / 2})">{axis}</text>')
    for i, (row, cells) in enumerate(figures["cells"].items()):
        points = [(x(k), y(cells[column][key])) for k, column in enumerate(columns)]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        out.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[i]}" stroke-width="2"/>')
        out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{COLOURS[i]}"/>' for a, b in points]
        out.append(f'<text x="{left + width + 12}" y="{top + 20 + 20 * i}" fill="{COLOURS[i]}">'
                   f'{row}</text>')
    with open(path, "w", encoding="ascii") as file:
        file.write("\n".join(out + ["</svg>\n"]))


def main():
    milliseconds = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
    plot(os.path.join(DOCS, "batching.svg"), read_figures("kinds"), "p50_ms", "median latency, ms",
         milliseconds)
    plot(os.path.join(DOCS, "adaptive.svg"), read_figures("adaptive"), "p50_ms", "median latency, ms",
         milliseconds)
    fill_page(os.path.join(DOCS, "batching.md"))


if __name__ == "__main__":
    main()
