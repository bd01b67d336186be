// SPDX-License-Identifier: BSD-3-Clause
// The form that infers: its inputs, the tensors that it makes, and the same request for a shell and for
// Python.
import {authHeaders, modelPath, request} from "./api.js";
import {byId, make, say} from "./dom.js";

const MAX_ELEMENTS = 1 << 22;  // of zeros or random numbers
const MAX_SHOWN = 20000;       // characters of an answer
const MAX_INLINE = 2000;       // longer bodies of examples come from a file

const isFloat = type => /^(FP|BF)/.test(type);

function randomOf(type) {
  if (type === "BYTES")
    return Math.random().toString(36).slice(2, 10);
  if (type === "BOOL")
    return Math.random() < 0.5;
  return isFloat(type) ? Number(Math.random().toFixed(4)) : Math.floor(Math.random() * 100);
}

const zeroOf = type => type === "BYTES" ? "" : type === "BOOL" ? false : 0;

// Where an image fits: {height, width, channels, isChannelFirst}, or null. The batch dimension is 1.
export function imageShape(shape) {
  const dims = shape.slice(-3);
  if (dims.length === 3 && [1, 3, 4].includes(dims[0]))
    return {channels: dims[0], height: dims[1], width: dims[2], isChannelFirst: true};
  if (dims.length === 3 && [1, 3, 4].includes(dims[2]))
    return {channels: dims[2], height: dims[0], width: dims[1], isChannelFirst: false};
  return null;
}

// The picture scaled to the shape: values of 0 to 1 for floats, of 0 to 255 for integers.
function pixels(image, fit, type) {
  const canvas = document.createElement("canvas");
  canvas.width = fit.width;
  canvas.height = fit.height;
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0, fit.width, fit.height);
  const rgba = context.getImageData(0, 0, fit.width, fit.height).data;
  const n = fit.width * fit.height;
  const values = new Array(n * fit.channels);
  for (let i = 0; i < n; i++) {
    for (let c = 0; c < fit.channels; c++) {
      const grey = 0.299 * rgba[4 * i] + 0.587 * rgba[4 * i + 1] + 0.114 * rgba[4 * i + 2];
      const value = fit.channels === 1 ? grey : rgba[4 * i + c];
      values[fit.isChannelFirst ? c * n + i : i * fit.channels + c] =
        isFloat(type) ? Number((value / 255).toFixed(5)) : Math.round(value);
    }
  }
  return values;
}

// One input of the form.
class Input {
  constructor({name, datatype, shape}) {
    Object.assign(this, {name, datatype});
    this.image = null;
    const id = "in-" + name;
    this.shape = make("input", {id: id + "-shape", size: 16, value: shape.map(n => n < 0 ? 1 : n).join(","),
      spellcheck: "false", autocomplete: "off"});
    this.way = make("select", {id: id + "-way"},
      ...[["zeros", "zeros"], ["random", "random"], ["json", "typed JSON"], ["picture", "a picture"]]
        .map(([value, text]) => make("option", {value}, text)));
    this.json = make("textarea", {id: id + "-json", rows: 3, spellcheck: "false",
      "aria-label": "Data of " + name + ", JSON"});
    this.file = make("input", {type: "file", accept: "image/*", "aria-label": "Picture for " + name});
    this.preview = make("span", {});
    this.drop = make("div", {class: "drop", "data-input": name}, "Drop a picture here, or choose one: ", this.file, this.preview);
    this.box = make("fieldset", {}, make("legend", {}, `${name} (${datatype})`),
      make("label", {}, "Shape ", this.shape), " ", make("label", {}, "Data ", this.way), this.json, this.drop);
    this.way.addEventListener("change", () => this.show());
    this.file.addEventListener("change", () => this.take(this.file.files[0]));
    this.drop.addEventListener("dragover", event => {
      event.preventDefault();
      this.drop.classList.add("over");
    });
    this.drop.addEventListener("dragleave", () => this.drop.classList.remove("over"));
    this.drop.addEventListener("drop", event => {
      event.preventDefault();
      this.drop.classList.remove("over");
      this.take(event.dataTransfer.files[0]);
    });
    if (imageShape(this.dims()))
      this.way.value = "picture";
    this.show();
  }

  show() {
    this.json.hidden = this.way.value !== "json";
    this.drop.hidden = this.way.value !== "picture";
  }

  dims() {
    return this.shape.value.split(",").map(text => Number(text.trim()));
  }

  take(file) {
    if (!file)
      return;
    const image = make("img", {alt: "The picture for " + this.name});
    image.onload = () => { this.image = image; };
    image.src = URL.createObjectURL(file);
    this.preview.replaceChildren(image);
    this.way.value = "picture";
    this.show();
  }

  values(dims) {
    const n = dims.reduce((a, b) => a * b, 1);
    if (!dims.every(d => Number.isInteger(d) && d >= 0))
      throw new Error(`the shape of ${this.name} is not a list of sizes`);
    if (this.way.value === "json")
      return JSON.parse(this.json.value || "[]");
    if (n > MAX_ELEMENTS)
      throw new Error(`${this.name} would have ${n} elements; the form makes ${MAX_ELEMENTS} at most`);
    if (this.way.value === "picture") {
      const fit = imageShape(dims);
      if (!fit)
        throw new Error(`the shape of ${this.name} is not that of a picture: height, width and 1, 3 or 4 channels`);
      if (!this.image)
        throw new Error(`${this.name} has no picture yet`);
      return pixels(this.image, fit, this.datatype);
    }
    const oneOf = this.way.value === "random" ? randomOf : zeroOf;
    return Array.from({length: n}, () => oneOf(this.datatype));
  }

  tensor() {
    const shape = this.dims();
    return {name: this.name, datatype: this.datatype, shape, data: this.values(shape)};
  }
}

const quoteShell = text => "'" + text.replace(/'/g, "'\\''") + "'";

// Names of headers only: the key is not shown.
const headerNames = () => Object.keys(authHeaders());

export function asCurl(url, body) {
  const headers = headerNames().map(name => ` -H "${name}: $KEY"`).join("");
  const from = body.length <= MAX_INLINE ? quoteShell(body) : "@request.json";
  return `curl -s${headers} -H 'Content-Type: application/json' -d ${from} ${quoteShell(url)}`;
}

export function asPython(url, body) {
  const long = body.length > MAX_INLINE;
  const keyed = headerNames();
  return ["import json", keyed.length ? "import os" : "", "import urllib.request", "",
    long ? 'body = open("request.json", "rb").read()' : `body = json.dumps(json.loads(${JSON.stringify(body)})).encode()`,
    'headers = {"Content-Type": "application/json"}',
    ...keyed.map(name => `headers[${JSON.stringify(name)}] = os.environ["KEY"]`),
    `request = urllib.request.Request(${JSON.stringify(url)}, body, headers)`,
    "answer = json.load(urllib.request.urlopen(request))",
    'for output in answer["outputs"]:',
    '    print(output["name"], output["shape"], output["data"][:10])'].filter((line, i) => line || i === 3).join("\n");
}

let inputs = [];
let target = null; // {name, version}

export function showInferForm(model, metadata) {
  target = {name: model.name, version: model.version};
  inputs = (metadata ? metadata.inputs : []).map(input => new Input(input));
  byId("inputs").replaceChildren(...inputs.map(input => input.box));
  byId("infer-form").hidden = inputs.length === 0;
  byId("infer-result").hidden = true;
  say(byId("infer-time"), "");
}

function showExamples(body) {
  const url = location.origin + modelPath(target.name, target.version) + "/infer";
  const link = byId("save-request");
  byId("as-curl").textContent = asCurl(url, body);
  byId("as-python").textContent = asPython(url, body);
  URL.revokeObjectURL(link.href);
  link.href = URL.createObjectURL(new Blob([body], {type: "application/json"}));
}

function pretty(text) {
  // Long tables of numbers stay on one line.
  const shown = JSON.stringify(JSON.parse(text), null, 1).replace(/\[\s+([^[\]{}]*?)\s+\]/g,
    (_, inner) => "[" + inner.replace(/\s*\n\s*/g, " ") + "]");
  return shown.length > MAX_SHOWN ? shown.slice(0, MAX_SHOWN) + "\n… " + (shown.length - MAX_SHOWN) + " more characters" : shown;
}

async function infer() {
  const body = JSON.stringify({inputs: inputs.map(input => input.tensor())});
  showExamples(body);
  const start = performance.now();
  const text = await request(modelPath(target.name, target.version) + "/infer", body);
  const ms = performance.now() - start;
  byId("answer").textContent = pretty(text);
  return ms;
}

byId("infer-form").addEventListener("submit", async event => {
  event.preventDefault();
  byId("infer").disabled = true;
  try {
    const ms = await infer();
    say(byId("infer-time"), `answered in ${ms.toFixed(1)} ms, as this page sees it`);
    byId("infer-result").hidden = false;
  } catch (error) {
    say(byId("infer-time"), error.message, true);
  }
  byId("infer").disabled = false;
});
