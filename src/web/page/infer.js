// SPDX-License-Identifier: BSD-3-Clause
// The form that infers: its inputs, the tensors that it makes, and the same request for a shell and for
// Python.
import {authHeaders, modelPath, Refusal, request, requestJson} from "./api.js";
import {byId, make, reveal, say, setText} from "./dom.js";

const MAX_ELEMENTS = 1 << 22;  // of zeros or random numbers
const MAX_SHOWN = 20000;       // characters of an answer
const MAX_COMPARED = 10000;    // numbers of an output of which the highest is looked for
const MAX_INLINE = 2000;       // longer bodies of examples come from a file

// NaN and infinities, which the server writes as the reference server does, and integers of INT64 that a number
// of JavaScript may not hold: they are read as texts with a mark, and written as they came.
const MARK = "\uE000";
const MARKED = /"\uE000(-?(?:NaN|Infinity|\d+))"/g;
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|-?(?:NaN|Infinity|\d[\d.eE+-]*)/g;
const readNumbers = text => JSON.parse(text.replace(TOKENS, token =>
  /^-?(?:NaN|Infinity|\d{16,})$/.test(token) ? `"${MARK}${token}"` : token));
const writeNumbers = (value, indent) => JSON.stringify(value, null, indent).replace(MARKED, "$1");
const numberOf = value => Number(String(value).replace(MARK, ""));

const isFloat = type => /^(FP|BF)/.test(type);

const isNumber = type => type !== "BYTES" && type !== "BOOL";

function randomOf(type, from, to) {
  if (type === "BYTES")
    return Math.random().toString(36).slice(2, 10);
  if (type === "BOOL")
    return Math.random() < 0.5;
  const part = Math.random() * (to - from + (isFloat(type) ? 0 : 1));
  return isFloat(type) ? Number((from + part).toFixed(4)) : Math.floor(from + part);
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

// A square grey image in one row, of 64 numbers for 8 x 8; or null.
function flatShape(shape) {
  const n = shape[shape.length - 1], side = Math.sqrt(n);
  if (side < 2 || !Number.isInteger(side) || shape.slice(0, -1).some(dim => dim !== 1))
    return null;
  return {channels: 1, height: side, width: side, isChannelFirst: true, isFlat: true};
}

// The picture scaled to the shape. `highest` is the value of white, or that of black if dark is high.
function pixels(image, fit, type, highest, isDarkHigh) {
  const canvas = document.createElement("canvas");
  canvas.width = fit.width;
  canvas.height = fit.height;
  const context = canvas.getContext("2d");
  if (fit.isFlat) { // what is transparent is paper
    context.fillStyle = "#fff";
    context.fillRect(0, 0, fit.width, fit.height);
  }
  context.drawImage(image, 0, 0, fit.width, fit.height);
  const rgba = context.getImageData(0, 0, fit.width, fit.height).data;
  const n = fit.width * fit.height;
  const values = new Array(n * fit.channels);
  for (let i = 0; i < n; i++) {
    for (let c = 0; c < fit.channels; c++) {
      const grey = 0.299 * rgba[4 * i] + 0.587 * rgba[4 * i + 1] + 0.114 * rgba[4 * i + 2];
      const light = (fit.channels === 1 ? grey : rgba[4 * i + c]) / 255;
      const value = (isDarkHigh ? 1 - light : light) * highest;
      values[fit.isChannelFirst ? c * n + i : i * fit.channels + c] =
        isFloat(type) ? Number(value.toFixed(5)) : Math.round(value);
    }
  }
  return values;
}

// One input of the form.
class Input {
  constructor({name, datatype, shape}) {
    Object.assign(this, {name, datatype});
    this.image = null;
    this.makeParts("in-" + name, shape);
    this.box = make("fieldset", {}, make("legend", {}, `${name} (${datatype})`),
      make("label", {}, "Shape ", this.shape), " ", make("label", {}, "Data ", this.way), " ", this.range, this.json, this.drop);
    this.way.addEventListener("change", () => this.show());
    this.shape.addEventListener("change", () => this.show());
    this.listenToFiles();
    if (imageShape(this.dims()))
      this.way.value = "picture";
    this.show();
  }

  makeParts(id, shape) {
    const {name, datatype} = this;
    const number = (end, value) => make("input", {id: id + end, type: "number", step: "any", value});
    this.shape = make("input", {id: id + "-shape", size: 16, value: shape.map(n => n < 0 ? 1 : n).join(","),
      spellcheck: "false", autocomplete: "off"});
    this.way = make("select", {id: id + "-way"},
      ...[["zeros", "zeros"], ["random", "random"], ["json", "typed JSON"], ["picture", "a picture"]]
        .map(([value, text]) => make("option", {value}, text)));
    this.json = make("textarea", {id: id + "-json", rows: 3, spellcheck: "false",
      "aria-label": "Data of " + name + ", JSON"});
    this.file = make("input", {type: "file", accept: "image/*", "aria-label": "Picture for " + name});
    this.preview = make("span", {});
    this.from = number("-from", 0);
    this.to = number("-to", isFloat(datatype) ? 1 : 99);
    this.range = make("span", {}, make("label", {}, "from ", this.from), " ", make("label", {}, "to ", this.to));
    this.max = number("-max", isFloat(datatype) ? 1 : 255);
    this.isDarkHigh = make("input", {id: id + "-dark", type: "checkbox", checked: ""});
    this.flat = make("p", {}, make("label", {}, "values 0 to ", this.max), " ",
      make("label", {class: "check"}, this.isDarkHigh, " dark is high"));
    this.drop = make("div", {class: "drop", "data-input": name}, this.flat,
      "Drop a picture here, or choose one: ", this.file, this.preview);
  }

  listenToFiles() {
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
  }

  fit() {
    return isNumber(this.datatype) ? imageShape(this.dims()) || flatShape(this.dims()) : null;
  }

  show() {
    const fit = this.fit(), option = this.way.lastChild;
    const n = this.dims().reduce((a, b) => a * b, 1);
    option.disabled = !fit;
    setText(option, !fit ? "a picture (needs height x width x channels)"
      : fit.isFlat ? `a picture, as ${fit.height} x ${fit.width} grey` : "a picture");
    if (!fit && this.way.value === "picture")
      this.way.value = "zeros";
    this.json.placeholder = `${n} values: [${n > 2 ? "0, 0, …" : n === 2 ? "0, 0" : "0"}]`;
    this.json.hidden = this.way.value !== "json";
    this.range.hidden = this.way.value !== "random" || !isNumber(this.datatype);
    this.drop.hidden = this.way.value !== "picture";
    this.flat.hidden = !fit || !fit.isFlat;
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
      return this.typed(n);
    if (n > MAX_ELEMENTS)
      throw new Error(`${this.name} would have ${n} elements; the form makes ${MAX_ELEMENTS} at most`);
    if (this.way.value === "picture")
      return this.drawn();
    const oneOf = this.way.value === "random" ? randomOf : zeroOf;
    const [from, to] = [Number(this.from.value), Number(this.to.value)];
    return Array.from({length: n}, () => oneOf(this.datatype, from, to));
  }

  typed(n) {
    const text = this.json.value.trim();
    if (!text && n > 0)
      throw new Error(`${this.name}: type ${n} value${n === 1 ? "" : "s"}`);
    try {
      return readNumbers(text || "[]");
    } catch (error) {
      throw new Error(`${this.name}: ${error.message}`);
    }
  }

  drawn() {
    const fit = this.fit();
    if (!fit)
      throw new Error(`the shape of ${this.name} is not that of a picture: height, width and 1, 3 or 4 channels`);
    if (!this.image)
      throw new Error(`${this.name} has no picture yet`);
    if (fit.isFlat)
      return pixels(this.image, fit, this.datatype, Number(this.max.value), this.isDarkHigh.checked);
    return pixels(this.image, fit, this.datatype, isFloat(this.datatype) ? 1 : 255, false);
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
let target = null; // {name, version, labelled}

// `whyNot`: the text instead of a form when the model has no metadata.
export function showInferForm(model, metadata, config, whyNot) {
  // A second request for the label would be a request of a sequence.
  const labelled = config.sequence_batching ? [] : (config.output || []).filter(output => output.label_filename);
  target = {name: model.name, version: model.version, labelled: labelled.map(output => output.name)};
  inputs = (metadata ? metadata.inputs : []).map(input => new Input(input));
  byId("inputs").replaceChildren(...inputs.map(input => input.box));
  byId("infer-form").hidden = inputs.length === 0;
  setText(byId("infer-none"), metadata ? "" : whyNot);
  forgetAnswer();
}

function forgetAnswer() {
  byId("infer-result").hidden = true;
  say(byId("infer-time"), "");
  say(byId("infer-error"), "");
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
  const shown = writeNumbers(readNumbers(text), 1).replace(/\[\s+([^[\]{}]*?)\s+\]/g,
    (_, inner) => "[" + inner.replace(/\s*\n\s*/g, " ") + "]");
  return shown.length > MAX_SHOWN ? shown.slice(0, MAX_SHOWN) + "\n… " + (shown.length - MAX_SHOWN) + " more characters" : shown;
}

// {name, index, value} of each output that is one row of 2 to MAX_COMPARED numbers.
function highestOf(outputs) {
  return outputs.filter(({datatype, shape, data}) => isNumber(datatype) && data && data.length > 1 &&
    data.length <= MAX_COMPARED && shape[shape.length - 1] === data.length).map(({name, data}) => {
    const numbers = data.map(numberOf);
    const index = numbers.reduce((best, value, i) => value > numbers[best] || Number.isNaN(numbers[best]) ? i : best, 0);
    return {name, index, value: numbers[index]};
  });
}

// Asks for the classes of the outputs that have labels; a Map of output to "value:index:label".
async function labelsOf(at, tensors, names) {
  if (!names.length)
    return new Map();
  const outputs = names.map(name => ({name, parameters: {classification: 1}}));
  const answer = await requestJson(at, writeNumbers({inputs: tensors, outputs})).catch(() => ({outputs: []}));
  return new Map(answer.outputs.map(({name, data}) => [name, String(data[0])]));
}

function showHighest(highest, labels) {
  byId("highest").replaceChildren(...highest.map(({name, index, value}) => {
    const label = new RegExp(`^[^:]*:${index}:(.*)$`).exec(labels.get(name) || "");
    return make("div", {}, `highest: ${name}[${index}] = ${Number(value.toPrecision(3))}` + (label ? `, "${label[1]}"` : ""));
  }));
}

async function infer() {
  const {name, version, labelled} = target, asked = target;
  const tensors = inputs.map(input => input.tensor());
  const body = writeNumbers({inputs: tensors}), at = modelPath(name, version) + "/infer";
  showExamples(body);
  const start = performance.now();
  const text = await request(at, body);
  const ms = performance.now() - start;
  const highest = highestOf(readNumbers(text).outputs || []);
  const labels = await labelsOf(at, tensors, highest.map(one => one.name).filter(one => labelled.includes(one)));
  if (target !== asked)
    return; // another model was chosen meanwhile
  showHighest(highest, labels);
  byId("answer").textContent = pretty(text);
  say(byId("infer-time"), `answered in ${ms.toFixed(1)} ms, as this page sees it`);
  byId("infer-result").hidden = false;
  reveal(byId("answer-part"));
}

byId("infer-form").addEventListener("submit", async event => {
  event.preventDefault();
  if (byId("infer").hasAttribute("aria-disabled"))
    return;
  byId("infer").setAttribute("aria-disabled", "true"); // `disabled` would take the focus
  forgetAnswer();
  const asked = target;
  try {
    await infer();
  } catch (error) {
    if (target === asked) {
      say(byId("infer-error"), error instanceof Refusal ? `Refused (${error.status}): ${error.message}` : error.message, true);
      reveal(byId("infer-error"));
    }
  }
  byId("infer").removeAttribute("aria-disabled");
});
