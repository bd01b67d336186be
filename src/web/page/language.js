// SPDX-License-Identifier: BSD-3-Clause
// The table of the models that answer through the OpenAI endpoints. The server reports what it has counted since its
// start; what happened between two reports is computed here.
import {requestJson} from "./api.js";
import {about, byId, count, make, setText} from "./dom.js";

// A server without such models is asked less often.
const IDLE_LOOKS = 10;

// Places in a report of a model (print_language_models() of the server).
const FIRST = 2, BETWEEN = 3, WHOLE = 4, PROMPT = 5, GENERATED = 6, ENDS = 7;

const columns = [
  ["Model", "Name of the model", row => row.name],
  ["Version", "Version of the model", row => row.version],
  ["Answers/s", "Answers that ended, per second", row => count(row.per(row.nOf(WHOLE)))],
  ["Prompt tokens/s", "Tokens of prompts per second", row => count(row.per(row.grown(PROMPT)))],
  ["Tokens/s", "Generated tokens per second", row => count(row.per(row.grown(GENERATED)))],
  ["Answer 50 %", "Half of the answers were whole within this time", row => about(row.quantile(WHOLE, 0.5))],
  ["Answer 99 %", "99 % of the answers were whole within this time", row => about(row.quantile(WHOLE, 0.99))],
  ["First token 50 %", "Half of the streams began within this time", row => about(row.quantile(FIRST, 0.5))],
  ["First token 99 %", "99 % of the streams began within this time", row => about(row.quantile(FIRST, 0.99))],
  ["Between 50 %", "Half of the times between two responses with text", row => about(row.quantile(BETWEEN, 0.5))],
  ["Between 99 %", "99 % of the times between two responses with text", row => about(row.quantile(BETWEEN, 0.99))],
  ["Tokens", "Generated tokens since the start", row => count(row.now[GENERATED])],
  ["Ends", "Reasons of the ends since the start: stop, length, tool calls, other, error",
    row => row.now.slice(ENDS).map(count).join(", ")],
];

class Row {
  constructor(before, now, seconds, bounds) {
    [this.name, this.version] = now;
    Object.assign(this, {before, now, seconds, bounds});
  }
  per(n) {
    return this.seconds > 0 ? n / this.seconds : 0;
  }
  grown(at) {
    return this.now[at] - (this.before ? this.before[at] : this.now[at]);
  }
  buckets(at) {
    return this.now[at].slice(1).map((n, i) => n - (this.before ? this.before[at][i + 1] : n));
  }
  nOf(at) {
    return this.buckets(at).reduce((sum, n) => sum + n, 0);
  }
  // In us; 0 when nothing was counted. A value lies in its bucket as if the bucket were filled evenly.
  quantile(at, share) {
    const buckets = this.buckets(at), {bounds} = this;
    let left = share * this.nOf(at);
    const i = buckets.findIndex(n => {
      left -= n;
      return n > 0 && left <= 0;
    });
    if (i < 0)
      return 0;
    const low = bounds[i - 1] || 0, high = i < bounds.length ? bounds[i] : low;
    return (low + (high - low) * (1 + left / buckets[i])) * 1e6;
  }
}

export class LanguageModels {
  constructor() {
    this.last = null; // the report before
    this.skip = 0;
    byId("language-heads").append(...columns.map(([title, text], i) =>
      make("th", {scope: "col", title: text, class: i === 0 ? "text" : ""}, title)));
  }

  async look() {
    if (this.skip-- > 0)
      return;
    const report = await requestJson("/v2/dashboard?language_models=");
    this.show(report);
    this.last = report;
    this.skip = report.models.length ? 0 : IDLE_LOOKS;
  }

  show(report) {
    const last = this.last && this.last.now_ms < report.now_ms ? this.last : null;
    const key = model => model[0] + "\n" + model[1];
    const before = new Map(last ? last.models.map(model => [key(model), model]) : []);
    const seconds = last ? (report.now_ms - last.now_ms) / 1000 : 0;
    const body = byId("language-rows");
    byId("language").hidden = report.models.length === 0;
    report.models.sort((a, b) => key(a) < key(b) ? -1 : 1);
    while (body.children.length > report.models.length)
      body.lastChild.remove();
    report.models.forEach((model, i) => {
      const row = new Row(before.get(key(model)), model, seconds, report.bounds_s);
      if (!body.children[i])
        body.append(make("tr", {}, ...columns.map((column, at) => make("td", {class: at === 0 ? "text" : ""}))));
      columns.forEach(([, , text], at) => setText(body.children[i].children[at], String(text(row))));
    });
  }
}
