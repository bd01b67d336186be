// SPDX-License-Identifier: BSD-3-Clause
// The table of the models: a row per model, of which only changed cells are written.
import {about, byId, count, make, micros, setText} from "./dom.js";

const columns = [
  {key: "name", title: "Model", about: "Press a name to see the model", isText: true, text: m => m.name},
  {key: "version", title: "Version", about: "Version of the model", text: m => m.version},
  {key: "state", title: "State", about: "State of the model in the server's index", isText: true,
    text: m => m.state || "not loaded"},
  {key: "rate", title: "Req/s", about: "Successful requests per second", text: m => count(m.rate)},
  {key: "mean", title: "Time mean", about: "Mean time of the requests of the last second, exact",
    text: m => micros(m.mean(0)), value: m => m.mean(0)},
  {key: "p50", title: "Time 50 %", about: "Half of the requests of the last second took up to this; right to a factor of two",
    text: m => about(m.quantile(0, 0)), value: m => m.quantile(0, 0)},
  {key: "p99", title: "Time 99 %", about: "99 % of the requests of the last second took up to this; right to a factor of two",
    text: m => about(m.quantile(0, 2)), value: m => m.quantile(0, 2)},
  {key: "pending", title: "Queue", about: "Requests that wait for an instance now", text: m => count(m.pending)},
  {key: "batch", title: "Batch", about: "Rows that an execution has, as a mean of the last second",
    text: m => m.batch ? m.batch.toFixed(1) : "–"},
  {key: "busy", title: "Busy", about: "Instances that executed, as a mean of the last second / all instances of the model",
    text: m => m.instances ? m.busy.toFixed(1) + "/" + m.instances : "–"},
  {key: "failureRate", title: "Fail/s", about: "Failed requests per second", text: m => count(m.failureRate)},
  {key: "total", title: "Total", about: "Successful requests since the load", text: m => count(m.total)},
  {key: "reason", title: "Reason", about: "Why the model is not ready", isText: true, text: m => m.reason},
];

const classOf = column => (column.isText ? "text " : "") + column.key;

const KINDS = ["ready", "loading", "unloading", "not loaded", "unloaded", "failed"];

const compareTexts = new Intl.Collator("en", {numeric: true}).compare;

export class Table {
  // `choose` is called with the model whose name was pressed.
  constructor(models, choose) {
    this.models = models;
    this.choose = choose;
    this.rows = new Map(); // by the model's id
    this.sort = {column: columns[0], isDescending: false};
    this.chosen = null;
    this.heads = columns.map(column => this.makeHead(column));
    byId("heads").append(...this.heads);
    for (const id of ["filter", "only-active"])
      byId(id).addEventListener("input", () => this.showAll());
    this.markSort();
  }

  makeHead(column) {
    const button = make("button", {type: "button"}, column.title);
    button.addEventListener("click", () => {
      const isSame = this.sort.column === column;
      this.sort = {column, isDescending: isSame ? !this.sort.isDescending : !column.isText};
      this.markSort();
      this.order();
    });
    return make("th", {scope: "col", title: column.about, class: classOf(column)}, button);
  }

  markSort() {
    columns.forEach((column, i) => {
      if (column === this.sort.column)
        this.heads[i].setAttribute("aria-sort", this.sort.isDescending ? "descending" : "ascending");
      else
        this.heads[i].removeAttribute("aria-sort");
    });
  }

  makeRow(model) {
    const row = make("tr", {"data-model": model.name, "data-version": model.version});
    for (const column of columns)
      row.append(make("td", {class: classOf(column)}));
    const name = make("button", {type: "button", class: "name"});
    name.addEventListener("click", () => this.choose(model));
    row.firstChild.append(name);
    this.rows.set(model.id, row);
    return row;
  }

  fill(row, model) {
    columns.forEach((column, i) => {
      const cell = i === 0 ? row.firstChild.firstChild : row.children[i];
      setText(cell, column.text(model));
    });
    row.dataset.kind = model.kind;
    // A phone shows it below the name.
    row.firstChild.dataset.why = (model.state || "not loaded") + (model.reason ? ": " + model.reason : "");
  }

  isShown(model) {
    if (byId("only-active").checked && model.rate === 0 && model.failureRate === 0)
      return false;
    const words = byId("filter").value.toLowerCase().split(/\s+/);
    const text = (model.label + " " + model.state + " " + model.reason).toLowerCase();
    return words.every(word => text.includes(word));
  }

  update({changed, gone}) {
    let isNew = false;
    for (const id of gone) {
      const row = this.rows.get(id);
      if (row)
        row.remove();
      this.rows.delete(id);
    }
    for (const id of changed) {
      const model = this.models.get(id);
      if (!model)
        continue;
      isNew = isNew || !this.rows.has(id);
      const row = this.rows.get(id) || this.makeRow(model);
      this.fill(row, model);
      row.hidden = !this.isShown(model);
    }
    if (isNew || (changed.size > 0 && !this.sort.column.isText))
      this.order();
    if (isNew || gone.size > 0 || changed.size > 0)
      this.showCount();
  }

  showAll() {
    for (const [id, row] of this.rows)
      row.hidden = !this.isShown(this.models.get(id));
    this.showCount();
  }

  showCount() {
    const all = this.models.all();
    const counts = new Map(KINDS.map(kind => [kind, 0]));
    all.forEach(({kind}) => counts.set(kind, counts.get(kind) + 1));
    const parts = [...counts].filter(([kind, n]) => n || kind === "ready").map(([kind, n]) => `${n} ${kind}`);
    const nShown = [...this.rows.values()].filter(row => !row.hidden).length;
    setText(byId("model-count"), parts.join(", ") +
      (nShown < all.length ? `, ${nShown} shown` : ""));
  }

  compare(a, b) {
    const {column, isDescending} = this.sort;
    const value = column.value || (model => model[column.key]);
    const order = column.isText ? compareTexts(value(a), value(b)) : Number(value(a)) - Number(value(b));
    return (isDescending ? -order : order) || compareTexts(a.label, b.label) || a.id - b.id;
  }

  // Moves only rows that are not in their place: moving one would take the focus from its button.
  order() {
    const body = byId("rows");
    let at = body.firstChild;
    for (const model of this.models.all().sort((a, b) => this.compare(a, b))) {
      const row = this.rows.get(model.id);
      if (!row)
        continue;
      if (row === at)
        at = at.nextSibling;
      else
        body.insertBefore(row, at);
    }
  }

  // Marks the row of the model, or none; returns the row that was marked before.
  mark(model) {
    const before = [...this.rows.values()].find(row => row.classList.contains("chosen"));
    for (const [id, row] of this.rows)
      row.classList.toggle("chosen", model !== null && id === model.id);
    return before;
  }

  focus(row) {
    (row && !row.hidden ? row.querySelector("button") : byId("models")).focus();
  }
}
