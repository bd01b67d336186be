# SPDX-License-Identifier: BSD-3-Clause
"""The report of a campaign: a table, a graph, a page."""
import html

import gauge

PANEL, GAP, MARGIN = (300, 150), 30, (70, 30)
COLUMNS = 3
LINES = {"rss_kib": "#1f5fa8", "anonymous_kib": "#7a4fa0", "heap_kib": "#b3541e", "python_pss_kib": "#3b8132"}


def mib(kib):
    return f"{kib / 1024:.2f}"


def rows(result):
    """One row of the table for each measure of a part."""
    for growth in (gauge.Growth(**entry) for entry in result["growth"]):
        if growth.last == 0 and growth.first == 0:
            continue
        is_memory = gauge.UNITS[growth.what] == "KiB"
        show = mib if is_memory else str
        yield (gauge.TITLES[growth.what] + (", MiB" if is_memory else ""), show(result["readings"][0][growth.what]),
               show(growth.first), show(growth.last), f"{growth.more:+}" + (" KiB" if is_memory else ""),
               f"{growth.allowed:.0f}" + (" KiB" if is_memory else ""), "ok" if growth.more <= growth.allowed else "GROWS")


def head(result):
    """A run that was cut short has fewer tenths."""
    return ("measure", "before", "after 1/10", f"after {len(result['readings']) - 1}/10", "growth", "allowed", "")


def table(result):
    lines = ["| " + " | ".join(head(result)) + " |", "|---|--:|--:|--:|--:|--:|---|"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows(result)]


def text(result):
    """For a terminal."""
    cells = [head(result), *rows(result)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return [f"{result['title']}: {result['done']:,} {result['unit']} in {result['seconds']:.0f} s"] + [
        "  " + "  ".join(cell.ljust(w) if i in (0, 6) else cell.rjust(w)
                         for i, (cell, w) in enumerate(zip(row, widths))).rstrip() for row in cells] + [
        f"  {name}: {value}" for name, value in result["facts"].items()]


# ---- the graph ----


def panel(result, left, top):
    """A part's memory over its tenths; each line as a share of its reading after the first tenth."""
    readings, (width, height) = result["readings"], PANEL
    lines = {what: [reading[what] / readings[1][what] for reading in readings[1:]]
             for what in LINES if readings[1].get(what)}
    low, high = 0.98, 1.02
    for values in lines.values():
        low, high = min(low, *values), max(high, *values)

    def x(i):
        return left + width * i / max(1, len(readings) - 2)

    def y(value):
        return top + height * (high - value) / (high - low)

    yield f'<text x="{left}" y="{top - 8}" font-weight="bold">{html.escape(result["name"])}</text>'
    yield (f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#999"/>'
           f'<rect x="{left}" y="{y(1.01):.1f}" width="{width}" height="{y(1) - y(1.01):.1f}" fill="#1f5fa8" '
           f'fill-opacity="0.1"/>')
    for value in (low, 1, high):
        yield f'<text x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{(value - 1) * 100:+.1f} %</text>'
    for n, (what, values) in enumerate(lines.items()):
        points = " ".join(f"{x(i):.1f},{y(value):.1f}" for i, value in enumerate(values))
        yield f'<polyline points="{points}" fill="none" stroke="{LINES[what]}" stroke-width="2"/>'
        yield (f'<text x="{left + 6}" y="{top + 14 + 13 * n}" fill="{LINES[what]}">{gauge.TITLES[what]}, '
               f'{mib(readings[1][what])} MiB</text>')


def picture(results):
    width = MARGIN[0] + min(COLUMNS, len(results)) * (PANEL[0] + MARGIN[0])
    height = MARGIN[1] + -(-len(results) // COLUMNS) * (PANEL[1] + GAP + 10)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
             f'<rect width="{width}" height="{height}" fill="#fff"/>']
    for n, result in enumerate(results):
        lines += panel(result, MARGIN[0] + n % COLUMNS * (PANEL[0] + MARGIN[0]),
                       MARGIN[1] + n // COLUMNS * (PANEL[1] + GAP + 10))
    return "\n".join([*lines, "</svg>", ""])


# ---- the page ----


def cut_of(result):
    n = len(result["readings"]) - 1
    return f", cut short after {n} tenths" if n < 10 else ""


def page(report, picture_name):
    lines = [f"# Campaign of length, {report['date']}", "",
             f"`{report['command']}`", "",
             f"Commit {report['commit']}; {report['machine']}. "
             "[reliability.md](../reliability.md#the-campaign-of-length) says what is measured.", "",
             f"![Memory of each part over its tenths]({picture_name})", "",
             "Each line is the memory as a share of its value after the first tenth; the band is the 1 % that is "
             "allowed.", ""]
    for result in report["parts"]:
        lines += [f"## {result['name']}", "",
                  f"{result['done']} {result['unit']} (scale {result['scale']:g}"
                  + (f", commit {result['commit']}" if "commit" in result else "") + f") in {result['seconds']:.0f} s{cut_of(result)}: "
                  + ("nothing grows." if not result["failures"] else "; ".join(result["failures"]) + "."), ""]
        if not result["growth"]:
            continue
        facts = dict(result["facts"])
        if "trimmed" in result:
            facts["RSS after malloc_trim() at the end, MiB"] = mib(result["trimmed"]["rss_kib"])
        lines += [*table(result), "", *(f"* {name}: {value}" for name, value in facts.items()), ""]
    return "\n".join(lines).rstrip("\n") + "\n"
