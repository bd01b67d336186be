// SPDX-License-Identifier: BSD-3-Clause
// Plots of the last 15 minutes with uPlot, a classic script that defines window.uPlot.
import {byId, make} from "./dom.js";

const MAX_AGE_S = 900;
const plots = new Set();

const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function axis(size) {
  return {
    stroke: () => colour("--dim"),
    grid: {stroke: () => colour("--line"), width: 1},
    ticks: {stroke: () => colour("--line"), width: 1},
    size,
  };
}

// "9:05"; with seconds when marks are closer than a minute.
const timesOf = (plot, marks) => marks.map(seconds => {
  const date = new Date(seconds * 1000);
  const parts = [date.getMinutes(), date.getSeconds()].slice(0, marks.every(mark => mark % 60 === 0) ? 1 : 2);
  return [date.getHours(), ...parts.map(n => String(n).padStart(2, "0"))].join(":");
});

const atLeastAMinute = (plot, from, to) => {
  const end = to || Date.now() / 1000; // before the first value
  return [Math.min(from || end, end - 60), end];
};

const isGap = value => value === null || value === undefined;

// A value between two gaps has no line: it gets a point.
const lonely = (plot, i) => {
  const line = plot.data[i];
  return [...line.keys()].filter(at => !isGap(line[at]) && isGap(line[at - 1]) && isGap(line[at + 1]));
};

export class Plot {
  // names: of the lines; second: true when the last line has a scale of its own, on the right.
  constructor(id, names, second) {
    this.box = byId(id);
    this.names = names;
    this.second = second;
    this.values = [[], ...names.map(() => [])];
    plots.add(this);
    if (names.length > 1)
      this.box.previousElementSibling.append(...names.map((name, i) => make("span", {class: "key key-" + (i + 1)}, name)));
    this.draw();
  }

  draw() {
    const {width, height} = this.box.getBoundingClientRect();
    if (this.plot)
      this.plot.destroy();
    this.plot = null;
    if (width < 50)
      return; // hidden
    const scaleOf = i => this.second && i === this.names.length - 1 ? "right" : "y";
    const options = {
      width, height,
      cursor: {y: false},
      legend: {show: false},
      scales: {x: {time: true, range: atLeastAMinute}, y: {range: (u, low, high) => [0, Math.max(high || 0, 1) * 1.1]}},
      axes: [Object.assign(axis(30), {values: timesOf, space: 70}), axis(50)],
      series: [{}, ...this.names.map((label, i) => ({
        label, scale: scaleOf(i), width: 1.5, points: {show: false, size: 4, filter: lonely},
        stroke: () => colour("--plot-" + (i + 1)),
      }))],
    };
    if (this.second) {
      options.scales.right = options.scales.y;
      options.axes.push(Object.assign(axis(60), {scale: "right", side: 1, grid: {show: false}}));
    }
    this.plot = new window.uPlot(options, this.values, this.box);
    this.describe();
  }

  // What the plot shows, for those who do not see it.
  describe() {
    const last = this.names.map((name, i) => {
      const values = this.values[i + 1], now = values[values.length - 1];
      const highest = values.reduce((a, b) => Math.max(a, b), 0);
      return `${name} ${isGap(now) ? "none" : now.toFixed(1)}, highest ${highest.toFixed(1)}`;
    });
    this.box.setAttribute("role", "img");
    this.box.setAttribute("aria-label", "The last 15 minutes; now: " + last.join("; "));
  }

  // rows: [seconds, value...] in order of time, null where there is none; replaces everything.
  set(rows) {
    this.values = [0, ...this.names].map((_, i) => rows.map(row => row[i]));
    this.draw();
  }

  add(time, ...numbers) {
    [time, ...numbers].forEach((value, i) => this.values[i].push(value));
    while (this.values[0][0] < time - MAX_AGE_S)
      this.values.forEach(line => line.shift());
    if (this.plot)
      this.plot.setData(this.values);
    else
      this.draw();
    this.describe();
  }
}

const drawAll = () => plots.forEach(plot => plot.draw());
let pending = 0;
window.addEventListener("resize", () => {
  clearTimeout(pending);
  pending = setTimeout(drawAll, 150);
});
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
