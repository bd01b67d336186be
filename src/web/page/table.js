// SPDX-License-Identifier: BSD-3-Clause
// The table of the models: a row per model, of which only changed cells are written.
import {byId, count, make, micros, setText} from "./dom.js";

const columns = [
  {key: "name", title: "Model", isText: true, text: m => m.name},
  {key: "version", title: "Version", text: m => m.version},
  {key: "state", title: "State", isText: true, text: m => m.state || "not loaded"},
  {key: "rate", title: "Req/s", text: m => count(m.rate)},
  {key: "p50", title: "50 %", text: m => micros(m.quantile(0, 0)), value: m => m.quantile(0, 0)},
  {key: "p99", title: "99 %", text: m => micros(m.quantile(0, 2)), value: m => m.quantile(0, 2)},
  {key: "pending", title: "Queue", text: m => count(m.pending)},
  {key: "batch", title: "Batch", text: m => m.batch ? m.batch.toFixed(1) : "–"},
  {key: "busy", title: "Busy", text: m => m.instances ? m.busy.toFixed(1) + "/" + m.instances : "–"},
  {key: "failureRate", title: "Fail/s", text: m => count(m.failureRate)},
  {key: "total", title: "Total", text: m => count(m.total)},
  {key: "reason", title: "Reason", isText: true, text: m => m.reason},
];

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
    return make("th", {scope: "col", class: column.isText ? "text" : ""}, button);
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
      row.append(make("td", {class: column.isText ? "text " + column.key : ""}));
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
    row.children[2].className = "text state " + model.state;
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
    const nReady = all.filter(model => model.state === "READY").length;
    const nShown = [...this.rows.values()].filter(row => !row.hidden).length;
    setText(byId("model-count"), `${nReady} ready of ${all.length}` +
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
