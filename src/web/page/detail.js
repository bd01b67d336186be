// SPDX-License-Identifier: BSD-3-Clause
// The part of the page about one model: what it does now, its actions, steps and configuration.
import {modelPath, request, requestJson} from "./api.js";
import {showConfig, sourceText} from "./config.js";
import {about, byId, count, make, micros, reveal, say, setText, showTiles} from "./dom.js";
import {drawGraph, graphOfChain, graphOfEnsemble, stepTime} from "./graph.js";
import {showInferForm} from "./infer.js";
import {PHASES} from "./model.js";
import {Plot} from "./plot.js";

// Order of a sample of the history (enum dashboard_sample).
const SAMPLE = {requests: 0, p50: 7, p95: 8, p99: 9};

const NOT_THERE = "The model is not loaded, or the key does not permit it.";

const optional = promise => promise.catch(() => null);

export class Detail {
  constructor(models, onChange) {
    this.models = models;
    this.onChange = onChange; // called after a load or an unload, and on closing
    this.model = null;
    this.graph = null;
    this.doing = ""; // "Loading …" while a load lasts
    this.turn = 0;   // of the latest choice or action: answers to earlier ones come too late
    this.stats = new Map(); // of the steps, by model
    this.ratePlot = this.latencyPlot = null;
    byId("phases").append(...PHASES.map(phase =>
      make("tr", {}, make("th", {scope: "row"}, phase), ...[0, 1, 2, 3].map(() => make("td")))));
    byId("detail-close").addEventListener("click", () => this.close());
    byId("act-load").addEventListener("click", () => this.load({}));
    byId("act-unload").addEventListener("click", () => this.askToUnload());
    byId("unload-anyway").addEventListener("click", () => {
      this.endQuestion();
      this.unload();
    });
    byId("unload-not").addEventListener("click", () => this.endQuestion());
    byId("act-load-parameters").addEventListener("click", () => this.loadWithParameters());
    byId("detail").addEventListener("keydown", event => {
      if (event.key !== "Escape")
        return;
      if (byId("unload-question").hidden)
        this.close();
      else
        this.endQuestion();
    });
  }

  async open(model) {
    this.turn++;
    this.model = model;
    this.graph = null;
    byId("detail").hidden = false;
    setText(byId("detail-title"), model.label);
    this.doing = "";
    byId("unload-question").hidden = true;
    for (const id of ["act-message", "infer-time"])
      say(byId(id), "");
    this.show();
    byId("detail").focus();
    byId("detail").scrollIntoView({block: "start"});
    await Promise.all([this.readHistory(model), this.readModel(model)]);
  }

  close() {
    this.turn++;
    this.model = null;
    byId("detail").hidden = true;
    this.onChange(true);
  }

  async readHistory(model) {
    const history = await optional(requestJson("/v2/dashboard?history=" + encodeURIComponent(model.name) +
      "&version=" + encodeURIComponent(model.version)));
    if (!history || model !== this.model)
      return;
    const start = history.end_ms / 1000 - (history.samples.length - 1) * history.period_s;
    const samples = history.samples.map((sample, i) => [start + i * history.period_s, sample || null]);
    if (!this.ratePlot) {
      this.ratePlot = new Plot("plot-model-rate", ["requests/s"]);
      this.latencyPlot = new Plot("plot-model-latency", ["50 %", "95 %", "99 %"]);
    }
    this.ratePlot.set(samples.map(([time, sample]) =>
      [time, sample ? sample[SAMPLE.requests] / history.period_s : 0]));
    this.latencyPlot.set(samples.map(([time, sample]) =>
      [time, ...[SAMPLE.p50, SAMPLE.p95, SAMPLE.p99].map(at => sample && sample[at] ? sample[at] / 1000 : null)]));
  }

  // What only a model that is ready has.
  async readModel(model, isReady = model.state === "READY") {
    const path = modelPath(model.name, model.version), turn = this.turn;
    const [metadata, config, source, stats] = await Promise.all(["", "/config", "/config/source", "/stats"].map(end =>
      isReady ? optional(requestJson(path + end)) : null));
    if (turn !== this.turn)
      return;
    showInferForm(model, metadata, config || {}, isReady ? NOT_THERE : "Load the model to try it.");
    if (config)
      showConfig(config, source);
    else
      setText(byId("config"), NOT_THERE);
    setText(byId("config-source"), config ? sourceText(source) : "");
    setText(byId("batches"), stats ? this.batchText(stats.model_stats[0]) : NOT_THERE);
    await this.readGraph(model, config, turn);
  }

  batchText(stats) {
    const lines = stats.batch_stats.map(batch => {
      const n = batch.compute_infer.count;
      return `${batch.batch_size} rows: ${n} executions, ${micros(batch.compute_infer.ns / n / 1000)} each`;
    });
    return lines.join("\n") || "No executions yet.";
  }

  async readGraph(model, config, turn) {
    let graph = null;
    if (config && config.ensemble_scheduling)
      graph = graphOfEnsemble(config);
    else if (config && config.parameters && config.parameters.next) {
      const chain = await optional(requestJson(modelPath(model.name, model.version) + "/chain"));
      graph = chain && graphOfChain(chain.stages);
    }
    const steps = graph ? [...new Set(graph.nodes.map(node => node.model).filter(Boolean))] : [];
    const stats = await Promise.all(steps.map(step => optional(requestJson(modelPath(step) + "/stats"))));
    if (turn !== this.turn)
      return;
    this.stats = new Map(steps.map((step, i) => [step, stats[i] && stats[i].model_stats[0]]));
    this.graph = graph;
    byId("graph-part").hidden = !graph;
    this.showGraph();
  }

  showGraph() {
    if (this.graph)
      drawGraph(byId("graph"), this.graph, name => stepTime(this.models.find(name), this.stats.get(name)));
  }

  // Called with each answer.
  show() {
    const model = this.model;
    if (!model)
      return;
    const isReady = model.state === "READY";
    // The message of a load that failed has the reason already.
    const reason = byId("act-message").textContent.includes(model.reason) ? "" : ": " + model.reason;
    setText(byId("detail-state"), this.doing || (model.state || "not loaded") + reason);
    byId("detail-state").dataset.kind = this.doing ? "loading" : model.kind;
    setText(byId("act-load"), isReady ? "Reload" : "Load");
    // Not `disabled`, which would take the focus.
    byId("act-unload").setAttribute("aria-disabled", !isReady);
    showTiles(byId("model-tiles"), [
      ["Requests/s", count(model.rate)],
      ["Queue", count(model.pending)],
      ["Rows per execution", model.batch ? model.batch.toFixed(2) : "–"],
      ["Executions/s", count(model.per(model.executions))],
      ["Instances busy", model.instances ? `${model.busy.toFixed(2)} of ${model.instances}` : "–"],
      ["Cache hits/s", `${count(model.per(model.hits))} of ${count(model.per(model.hits + model.misses))}`],
      ["Live sequences", count(model.sequences)],
      ["Requests since the load", count(model.total)],
      ["Failures since the load", count(model.totalFailures)],
      ...model.failures.map(([name, n]) => ["Failures/s: " + name, count(model.per(n))]),
    ]);
    PHASES.forEach((phase, i) => {
      const cells = byId("phases").children[i].children;
      setText(cells[1], micros(model.mean(i)));
      for (let q = 0; q < 3; q++)
        setText(cells[q + 2], about(model.quantile(i, q)));
    });
    this.showGraph();
  }

  tick(time) {
    if (!this.model || !this.ratePlot)
      return;
    this.ratePlot.add(time, this.model.rate);
    this.latencyPlot.add(time, ...[0, 1, 2].map(q => this.model.quantile(0, q) / 1000 || null));
  }

  async act(what, path, body) {
    const model = this.model, message = byId("act-message"), turn = ++this.turn;
    say(message, "");
    this.doing = what + "ing …";
    this.show();
    const error = await request(path, JSON.stringify(body)).then(() => null, reason => reason);
    if (turn === this.turn) {
      this.doing = "";
      say(message, what + ": " + (error ? error.message : "done"), error);
      reveal(message);
    }
    await this.onChange(false);
    // A first load gives the model a version, and so another row.
    const now = this.models.get(model.id) || this.models.find(model.name);
    if (turn !== this.turn || !now)
      return;
    this.model = now;
    setText(byId("detail-title"), now.label);
    this.show();
    await this.readModel(now, now.state === "READY" && what !== "Unload");
  }

  load(parameters) {
    const body = Object.keys(parameters).length ? {parameters} : {};
    return this.act(this.model.state === "READY" ? "Reload" : "Load",
      `/v2/repository/models/${encodeURIComponent(this.model.name)}/load`, body);
  }

  loadWithParameters() {
    try {
      const parameters = JSON.parse(byId("load-parameters").value || "{}");
      if (parameters.config && typeof parameters.config !== "string")
        parameters.config = JSON.stringify(parameters.config);
      this.load(parameters);
    } catch (error) {
      say(byId("act-message"), "The parameters are not JSON: " + error.message, true);
    }
  }

  // A model in use takes a second step.
  askToUnload() {
    if (byId("act-unload").getAttribute("aria-disabled") === "true")
      return;
    const {name} = this.model;
    const rate = this.models.all().filter(model => model.name === name).reduce((sum, model) => sum + model.rate, 0);
    if (rate === 0) {
      this.unload();
      return;
    }
    setText(byId("unload-rate"), `${name} gets ${count(rate)} requests/s. Unload anyway?`);
    byId("unload-question").hidden = false;
    byId("unload-not").focus();
    reveal(byId("unload-question"));
  }

  endQuestion() {
    byId("unload-question").hidden = true;
    byId("act-unload").focus();
  }

  unload() {
    return this.act("Unload", `/v2/repository/models/${encodeURIComponent(this.model.name)}/unload`,
      {parameters: {unload_dependents: byId("with-dependents").checked}});
  }
}
