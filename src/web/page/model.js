// SPDX-License-Identifier: BSD-3-Clause
// The models as the server has reported them, and what their rows mean (enum dashboard_number).

const FAILURES = ["other", "backend", "canceled", "rejected"];
export const PHASES = ["request", "queue", "compute input", "compute infer", "compute output"];

const N_NUMBERS = 35;
const zeros = new Array(N_NUMBERS).fill(0);

export class Model {
  constructor(id) {
    this.id = id;
    this.name = this.version = this.state = this.reason = "";
    this.row = zeros;
    this.windowS = 1;
  }
  get label() {
    return this.version ? `${this.name}, version ${this.version}` : this.name;
  }
  // The state in a word; a model that was unloaded on purpose has not failed.
  get kind() {
    if (this.state === "UNAVAILABLE")
      return this.reason === "unloaded" ? "unloaded" : "failed";
    return this.state.toLowerCase() || "not loaded";
  }
  per(n) {
    return this.windowS > 0 ? n / this.windowS : 0;
  }
  get rate() { return this.per(this.row[0]); }
  get failures() { return FAILURES.map((name, i) => [name, this.row[1 + i]]); }
  get failureRate() { return this.per(this.row[1] + this.row[2] + this.row[3] + this.row[4]); }
  get executions() { return this.row[5]; }
  get batch() { return this.row[5] ? this.row[6] / this.row[5] : 0; }
  get hits() { return this.row[7]; }
  get misses() { return this.row[8]; }
  get pending() { return this.row[9]; }
  get busy() { return this.row[10] / 1000; }
  get instances() { return this.row[11]; }
  get sequences() { return this.row[12]; }
  // q: 0, 1, 2 for 50, 95 and 99 %; from buckets.
  quantile(phase, q) { return this.row[13 + 3 * phase + q]; }
  get total() { return this.row[28]; }
  get totalFailures() { return this.row[29]; }
  // In us, exact; 0 when there were no requests.
  mean(phase) { return this.row[30 + phase] / 1000; }
}

export class Models {
  constructor() {
    this.byId = new Map();
  }
  // Takes an answer of /v2/dashboard; returns the ids of models that changed, and of those that went.
  take(answer) {
    const changed = new Set(), gone = new Set(answer.gone);
    if (answer.full) {
      const there = new Set(answer.models.map(model => model[0]));
      [...this.byId.keys()].filter(id => !there.has(id)).forEach(id => gone.add(id));
    }
    for (const id of gone)
      this.byId.delete(id);
    for (const [id, name, version, state, reason] of answer.models) {
      if (!this.byId.has(id))
        this.byId.set(id, new Model(id));
      Object.assign(this.byId.get(id), {name, version, state, reason});
      changed.add(id);
    }
    for (const [id, ...row] of answer.rows) {
      const model = this.byId.get(id);
      if (!model)
        continue;
      model.row = row;
      model.windowS = answer.window_ms / 1000;
      changed.add(id);
    }
    return {changed, gone};
  }
  get(id) {
    return this.byId.get(id);
  }
  all() {
    return [...this.byId.values()];
  }
  find(name, version) {
    return this.all().find(model => model.name === name && (!version || model.version === version));
  }
}
