// SPDX-License-Identifier: BSD-3-Clause
// Requests to the server that the page came from, with the key that the user has typed in. The key is in
// a variable of this module: it is not stored, and it is in no address.
import {byId} from "./dom.js";

let key = "";
let header = {name: "", value: ""};
let asking = null; // a promise while the dialog is open

export class Refusal extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

export const authHeaders = () => {
  const headers = {};
  if (key)
    headers["X-Api-Key"] = key;
  if (header.name)
    headers[header.name] = header.value;
  return headers;
};

async function reasonOf(answer) {
  const text = await answer.text();
  try {
    return JSON.parse(text).error || text;
  } catch (e) {
    return text || "HTTP status " + answer.status;
  }
}

// Resolves to the answer's text; throws a Refusal with the server's reason.
export async function request(path, body) {
  const options = {headers: authHeaders(), cache: "no-store"};
  if (body !== undefined) {
    options.method = "POST";
    options.body = body;
    options.headers["Content-Type"] = "application/json";
  }
  const answer = await fetch(path, options);
  if (!answer.ok)
    throw new Refusal(answer.status, await reasonOf(answer));
  return answer.text();
}

export const requestJson = async (path, body) => JSON.parse(await request(path, body));

export const modelPath = (name, version) =>
  "/v2/models/" + encodeURIComponent(name) + (version ? "/versions/" + version : "");

// Opens the dialog, unless it is open; resolves when it was closed.
export function askForKey(reason) {
  const dialog = byId("key-dialog");
  if (asking)
    return asking;
  byId("key-reason").textContent = reason || "";
  byId("key-value").value = key;
  // 403 with the name of a header: --http-restricted-api.
  const wanted = /expecting header '([^']+)'/.exec(reason || "");
  byId("header-details").open = Boolean(wanted);
  byId("header-name").value = wanted ? wanted[1] : header.name;
  byId("header-value").value = header.value;
  dialog.showModal();
  asking = new Promise(resolve => dialog.addEventListener("close", () => {
    asking = null;
    resolve();
  }, {once: true}));
  return asking;
}

byId("key-form").addEventListener("submit", () => {
  key = byId("key-value").value.trim();
  header = {name: byId("header-name").value.trim(), value: byId("header-value").value};
  byId("key-value").value = byId("header-value").value = "";
});
byId("key-cancel").addEventListener("click", () => byId("key-dialog").close());
byId("open-key").addEventListener("click", () => askForKey(""));
