// SPDX-License-Identifier: BSD-3-Clause
// A model's configuration, with the line of its file beside each part.
import {byId, make} from "./dom.js";

const INDENT = "  ";

// The children of an object or array: [what stands before the value, the value, its path]. Paths are those of
// the file: a map of the configuration is a list of keys and values there.
function childrenOf(value, path, lines) {
  if (Array.isArray(value))
    return value.map((item, i) => ["", item, `${path}[${i}]`]);
  const isMap = `${path}[0].key` in lines;
  return Object.entries(value).map(([name, item], i) =>
    [JSON.stringify(name) + ": ", item, isMap ? `${path}[${i}].value` : path ? path + "." + name : name]);
}

// Adds [line of the file or undefined, text] for each line of the JSON.
function addRows(rows, lines, value, path, before, after) {
  const line = lines[path] || lines[path.replace(/\.value$/, "")];
  if (value === null || typeof value !== "object" || Object.keys(value).length === 0) {
    rows.push([line, before + JSON.stringify(value) + after]);
    return;
  }
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  const indent = before.match(/^ */)[0] + INDENT;
  rows.push([line, before + open]);
  const children = childrenOf(value, path, lines);
  children.forEach(([name, item, itsPath], i) =>
    addRows(rows, lines, item, itsPath, indent + name, i + 1 < children.length ? "," : ""));
  rows.push([undefined, indent.slice(INDENT.length) + close + after]);
}

// `source` is the answer of /config/source, or null.
export function showConfig(config, source) {
  const rows = [];
  addRows(rows, source && source.lines || {}, config, "", "", "");
  byId("config").replaceChildren(...rows.flatMap(([line, text]) =>
    [make("span", {class: "line", "data-line": line || ""}), text + "\n"]));
}

export function sourceText(source) {
  if (!source)
    return "";
  if (!source.file)
    return "It came with a load request, or was made without a file.";
  return `Numbers are lines of ${source.file}; what has none was filled in.` +
    (source.changed ? " The file was changed after the load." : "");
}
