// SPDX-License-Identifier: BSD-3-Clause
// The table of the server's GPUs, which is hidden when there are none. A value that the driver does not tell is empty.
import {Refusal, requestJson} from "./api.js";
import {byId, make, setText} from "./dom.js";

// A server without GPUs gets none while it runs: it is asked less often.
const IDLE_LOOKS = 60;

const rounded = (value, per = 1) => value === undefined ? "" : String(Math.round(value / per));
const MIB = 1 << 20;

const columns = [
  ["GPU", "Number of the device", gpu => gpu.device],
  ["Name", "Name of the device", gpu => gpu.name],
  ["Use %", "Part of the time in which a kernel ran", gpu => rounded(gpu.utilization, 0.01)],
  ["Memory MiB", "Memory of the device", gpu => rounded(gpu.memory_total_bytes, MIB)],
  ["Used MiB", "Memory in use, by all programs", gpu => rounded(gpu.memory_used_bytes, MIB)],
  ["Pool MiB", "The server's own pool; 0 until it is used", gpu => rounded(gpu.pool_total_bytes, MIB)],
  ["Pool used MiB", "Memory in use of the pool", gpu => rounded(gpu.pool_used_bytes, MIB)],
  ["Watts", "Power usage", gpu => rounded(gpu.power_watts)],
  ["Limit", "Limit of the power usage in watts", gpu => rounded(gpu.power_limit_watts)],
  ["Capability", "Compute capability", gpu => gpu.compute_capability],
];

export class Gpus {
  constructor() {
    this.skip = 0;
    byId("gpus-heads").append(...columns.map(([title, text]) =>
      make("th", {scope: "col", title: text, class: title === "Name" ? "text" : ""}, title)));
  }

  async look() {
    if (this.skip-- > 0)
      return;
    const gpus = await this.ask();
    this.skip = gpus.length ? 0 : IDLE_LOOKS;
    this.show(gpus);
  }

  // The endpoint may be restricted where the others of this page are not.
  async ask() {
    try {
      return (await requestJson("/v2/gpus")).gpus;
    } catch (error) {
      if (error instanceof Refusal)
        return [];
      throw error;
    }
  }

  show(gpus) {
    const body = byId("gpus-rows");
    byId("gpus").hidden = gpus.length === 0;
    while (body.children.length > gpus.length)
      body.lastChild.remove();
    gpus.forEach((gpu, i) => {
      if (!body.children[i])
        body.append(make("tr", {}, ...columns.map(([title]) => make("td", {class: title === "Name" ? "text" : ""}))));
      columns.forEach(([, , text], at) => setText(body.children[i].children[at], String(text(gpu))));
    });
  }
}
