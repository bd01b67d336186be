// SPDX-License-Identifier: BSD-3-Clause
// The steps of an ensemble or a chain as an SVG: boxes in columns, an edge for each tensor, and the time
// that each step's model takes.
import {micros} from "./dom.js";

const BOX = {width: 190, height: 52, gapX: 70, gapY: 18, margin: 12};
const make = (tag, attributes, text) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes))
    element.setAttribute(name, value);
  if (text !== undefined)
    element.textContent = text;
  return element;
};

// Nodes {title, model} and edges [from, to, label] of an ensemble's configuration.
export function graphOfEnsemble(config) {
  const nodes = [{title: "request"}];
  const makers = new Map(); // tensor -> node that makes it
  const edges = [];
  (config.input || []).forEach(input => makers.set(input.name, 0));
  const steps = config.ensemble_scheduling.step;
  steps.forEach(step => {
    nodes.push({title: step.model_name, model: step.model_name});
    Object.values(step.output_map || {}).forEach(tensor => makers.set(tensor, nodes.length - 1));
  });
  nodes.push({title: "response"});
  steps.forEach((step, i) => Object.values(step.input_map || {}).forEach(tensor => {
    if (makers.has(tensor))
      edges.push([makers.get(tensor), i + 1, tensor]);
  }));
  (config.output || []).forEach(output => {
    if (makers.has(output.name))
      edges.push([makers.get(output.name), nodes.length - 1, output.name]);
  });
  return {nodes, edges};
}

export function graphOfChain(stages) {
  const nodes = [{title: "request"}, ...stages.map(stage => ({title: stage.name, model: stage.name})),
    {title: "response"}];
  return {nodes, edges: nodes.slice(1).map((_, i) => [i, i + 1, ""])};
}

// A node stands one column behind the last of those that it needs. Steps may be listed in any order.
function columnsOf({nodes, edges}) {
  const column = nodes.map(() => 0);
  for (let round = 0; round < nodes.length; round++) {
    for (const [from, to] of edges)
      column[to] = Math.max(column[to], Math.min(column[from] + 1, nodes.length));
  }
  const last = Math.max(...column.slice(0, -1)) + 1;
  column[nodes.length - 1] = last;
  return column;
}

const short = text => text.length > 24 ? text.slice(0, 23) + "…" : text;

function place(graph) {
  const used = new Map();
  const columns = columnsOf(graph);
  return graph.nodes.map((node, i) => {
    const row = used.get(columns[i]) || 0;
    used.set(columns[i], row + 1);
    return {x: BOX.margin + columns[i] * (BOX.width + BOX.gapX),
      y: BOX.margin + row * (BOX.height + BOX.gapY)};
  });
}

// timeOf(model) gives {us, text}; the slowest step is marked.
export function drawGraph(box, graph, timeOf) {
  const places = place(graph);
  const times = graph.nodes.map(node => node.model ? timeOf(node.model) : null);
  const slowest = Math.max(...times.map(time => time ? time.us : 0));
  const width = Math.max(...places.map(p => p.x)) + BOX.width + BOX.margin;
  const height = Math.max(...places.map(p => p.y)) + BOX.height + BOX.margin;
  const svg = make("svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "img"});
  const story = graph.nodes.map((node, i) => node.title + (times[i] ? " " + times[i].text : ""));
  svg.append(make("title", {}, "Steps: " + story.join(", ")));
  const marker = make("marker", {id: "arrow", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 8,
    markerHeight: 8, orient: "auto"});
  marker.append(make("path", {d: "M0 0 L8 4 L0 8 z"}));
  svg.append(marker);
  graph.edges.forEach(([from, to, label]) => {
    const a = {x: places[from].x + BOX.width, y: places[from].y + BOX.height / 2};
    const b = {x: places[to].x, y: places[to].y + BOX.height / 2};
    const middle = (a.x + b.x) / 2;
    const edge = make("path", {d: `M${a.x} ${a.y} C${middle} ${a.y} ${middle} ${b.y} ${b.x} ${b.y}`,
      "marker-end": "url(#arrow)"});
    edge.append(make("title", {}, label));
    svg.append(edge);
  });
  graph.nodes.forEach((node, i) => {
    const {x, y} = places[i];
    const group = make("g", {});
    group.append(make("title", {}, node.title),
      make("rect", {x, y, width: BOX.width, height: BOX.height, rx: 6,
        class: times[i] && times[i].us > 0 && times[i].us === slowest ? "slow" : ""}),
      make("text", {x: x + 10, y: y + 22}, short(node.title)));
    if (times[i])
      group.append(make("text", {x: x + 10, y: y + 40, class: "time"}, times[i].text));
    svg.append(group);
  });
  box.replaceChildren(svg);
}

// The time of a step: of the last second when it had requests, else the mean since its load.
export function stepTime(model, stats) {
  const now = model ? model.mean(0) : 0;
  if (now > 0)
    return {us: now, text: micros(now) + " now"};
  const success = stats && stats.inference_stats.success;
  if (!success || !success.count)
    return {us: 0, text: "no requests yet"};
  const mean = success.ns / success.count / 1000;
  return {us: mean, text: micros(mean) + " mean"};
}
