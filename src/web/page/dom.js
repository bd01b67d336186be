// SPDX-License-Identifier: BSD-3-Clause
// Elements and texts. Text of the server is always set as text, never as HTML.

export const byId = id => document.getElementById(id);

// make("td", {class: "text"}, "a", element) makes an element with attributes and children.
export function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {}))
    element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Writing an equal text again would make the browser lay the page out anew.
export function setText(element, text) {
  if (element.textContent !== text)
    element.textContent = text;
}

// Shows [name, text] pairs as tiles of a <dl>; elements are made once.
export function showTiles(list, pairs) {
  const names = pairs.map(pair => pair[0]).join("\n");
  if (list.dataset.names !== names) {
    list.replaceChildren(...pairs.map(pair =>
      make("div", {}, make("dt", {}, pair[0]), make("dd", {}))));
    list.dataset.names = names;
  }
  pairs.forEach((pair, i) => setText(list.children[i].lastChild, pair[1]));
}

export function say(element, text, isBad) {
  element.classList.toggle("bad", Boolean(isBad));
  element.textContent = text;
}

export function count(n) {
  if (n >= 1e9)
    return (n / 1e9).toFixed(1) + " G";
  if (n >= 1e6)
    return (n / 1e6).toFixed(1) + " M";
  if (n >= 1e4)
    return (n / 1e3).toFixed(1) + " k";
  return n >= 100 || Number.isInteger(n) ? String(Math.round(n)) : n.toFixed(1);
}

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (n >= 1024 && at < units.length - 1) {
    n /= 1024;
    at++;
  }
  return (n >= 100 || at === 0 ? n.toFixed(0) : n.toFixed(1)) + " " + units[at];
}

export function micros(us) {
  if (us === 0)
    return "–";
  if (us < 1000)
    return us.toFixed(us < 10 ? 1 : 0) + " µs";
  return us < 1e6 ? (us / 1000).toFixed(us < 1e4 ? 2 : 1) + " ms" : (us / 1e6).toFixed(2) + " s";
}

// A quantile that comes from buckets has two digits. The first bucket ends at 10 us, and has no lower bound.
export function about(us) {
  if (us > 0 && us < 10)
    return "<10 µs";
  const [size, unit] = us < 1000 ? [1, "µs"] : us < 1e6 ? [1e3, "ms"] : [1e6, "s"];
  return us === 0 ? "–" : `≈${Number((us / size).toPrecision(2))} ${unit}`;
}

// Brings a status or an answer into view, unless it is there.
export const reveal = element => element.scrollIntoView({block: "nearest"});

export function span(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 60)
    return s + " s";
  if (s < 3600)
    return Math.floor(s / 60) + " min " + s % 60 + " s";
  if (s < 86400)
    return Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min";
  return Math.floor(s / 86400) + " d " + Math.floor(s % 86400 / 3600) + " h";
}
