// SPDX-License-Identifier: BSD-3-Clause
// Asks the server once a second what has changed, and shows it.
import {askForKey, Refusal, request, requestJson} from "./api.js";
import {bytes, byId, count, make, reveal, say, setText, showTiles, span} from "./dom.js";
import {Detail} from "./detail.js";
import {Gpus} from "./gpus.js";
import {LanguageModels} from "./language.js";
import {Models} from "./model.js";
import {Plot} from "./plot.js";
import {Table} from "./table.js";

const INTERVAL_MS = 1000;
const RETRY_MS = 3000;
const MAX_LINES = 200;

// Order of a sample of the server's history (enum server_sample).
const SAMPLE = {requests: 0, cpu: 2, rss: 3};

const seen = {boot: 0, seq: 0, log: 0};
const models = new Models();
const languageModels = new LanguageModels();
const gpus = new Gpus();
let before = null; // the "server" part of the answer before
let ratePlot = null, cpuPlot = null;

const detail = new Detail(models, async hasClosed => {
  if (!hasClosed) {
    await look();
    return;
  }
  table.focus(table.mark(null));
});
const table = new Table(models, model => {
  table.mark(model);
  detail.open(model);
});

/* ---- the server ---- */

function showServer(server, rate) {
  const seconds = before ? (server.now_ms - before.now_ms) / 1000 : 0;
  const cores = seconds > 0 ? (server.cpu_us - before.cpu_us) / 1e6 / seconds : 0;
  const budget = server.budget_max ? ` of ${bytes(server.budget_max)}` : "";
  before = server;
  showTiles(byId("tiles"), [
    ["Requests/s", count(rate)],
    ["CPU", cores.toFixed(2) + " cores"],
    ["Memory", bytes(server.rss_bytes)],
    ["Memory budget", bytes(server.budget_used) + budget],
    ...server.ports.map(([name, connections, loops]) =>
      [`${name}: connections`, `${connections} on ${loops} loop${loops === 1 ? "" : "s"}`]),
  ]);
  setText(byId("uptime"), "up " + span(server.uptime_ms));
  if (ratePlot) {
    ratePlot.add(server.now_ms / 1000, rate);
    cpuPlot.add(server.now_ms / 1000, cores, server.rss_bytes / 1048576);
  }
}

async function readHistory() {
  const history = await requestJson("/v2/dashboard?history=");
  const start = history.end_ms / 1000 - (history.samples.length - 1) * history.period_s;
  const rows = history.samples.map((sample, i) => [start + i * history.period_s, sample || [0, 0, 0, 0, 0]]);
  ratePlot = ratePlot || new Plot("plot-rate", ["requests/s"]);
  cpuPlot = cpuPlot || new Plot("plot-cpu", ["cores", "MiB"], true);
  ratePlot.set(rows.map(([time, sample]) => [time, sample[SAMPLE.requests] / history.period_s]));
  cpuPlot.set(rows.map(([time, sample]) => [time, sample[SAMPLE.cpu] / 1000, sample[SAMPLE.rss] / 1024]));
}

/* ---- the log ---- */

function showLog(lines) {
  const list = byId("log");
  if (lines === undefined) {
    setText(byId("log-count"), "are shown to keys that grant logging for all models");
    return;
  }
  for (const [number, wallMs, level, place, text] of lines) {
    if (number <= seen.log)
      continue; // two looks at a time: the other answer had it
    const time = new Date(wallMs).toLocaleTimeString();
    list.prepend(make("li", {class: level}, make("strong", {}, level), ` ${time} ${place} `, text));
    seen.log = number;
  }
  while (list.children.length > MAX_LINES)
    list.lastChild.remove();
  setText(byId("log-count"), list.children.length ? `the last ${list.children.length}` : "none");
}

/* ---- answers ---- */

function forget() {
  const gone = new Set(models.byId.keys());
  if (detail.model)
    detail.close();
  models.byId.clear();
  table.update({changed: new Set(), gone});
  seen.seq = seen.log = 0;
  before = languageModels.last = null;
  byId("log").replaceChildren();
}

// A server that was started again has other ids: the page begins anew.
async function fetchNews() {
  const answer = await requestJson(`/v2/dashboard?since=${seen.seq}&log=${seen.log}`);
  if (seen.boot === answer.boot || seen.boot === 0 || answer.full)
    return answer;
  forget();
  return requestJson("/v2/dashboard?since=0&log=0");
}

async function look() {
  const answer = await fetchNews();
  const isNew = seen.boot !== answer.boot;
  if (isNew && seen.boot !== 0)
    forget();
  seen.boot = answer.boot;
  seen.seq = answer.seq;
  if (isNew)
    await readHistory();
  table.update(models.take(answer));
  showServer(answer.server, models.all().reduce((sum, model) => sum + model.rate, 0));
  showLog(answer.log);
  await languageModels.look();
  await gpus.look();
  detail.show();
  detail.tick(answer.server.now_ms / 1000);
}

function showConnection(kind, text) {
  const element = byId("connection");
  element.className = "connection " + kind;
  setText(element, text);
}

async function lookOrExplain() {
  try {
    await look();
    showConnection("live", "live");
    return INTERVAL_MS;
  } catch (error) {
    const isRefused = error instanceof Refusal && (error.status === 401 || error.status === 403);
    showConnection("lost", isRefused ? "no access" : "no answer: " + error.message);
    if (isRefused)
      await askForKey(error.message);
    return isRefused ? 0 : RETRY_MS;
  }
}

// A page that nobody sees asks nothing.
const untilVisible = () => new Promise(resolve => {
  if (!document.hidden)
    resolve();
  else
    document.addEventListener("visibilitychange", resolve, {once: true});
});

async function follow() {
  for (;;) {
    const pause = await lookOrExplain();
    await new Promise(resolve => setTimeout(resolve, pause));
    await untilVisible();
  }
}

byId("load-name").addEventListener("focus", () => {
  const names = [...new Set(models.all().map(model => model.name))].sort();
  byId("known-models").replaceChildren(...names.map(value => make("option", {value})));
});

byId("load-form").addEventListener("submit", async event => {
  const name = byId("load-name").value.trim(), message = byId("models-message");
  event.preventDefault();
  if (!name) {
    say(message, "type a name", true);
    byId("load-name").focus();
    return;
  }
  say(message, `Loading ${name} …`);
  try {
    await request(`/v2/repository/models/${encodeURIComponent(name)}/load`, "{}");
    say(message, `Load ${name}: done`);
  } catch (error) {
    say(message, `Load ${name}: ${error.message}`, true);
  }
  reveal(message);
  await look();
});

follow();
