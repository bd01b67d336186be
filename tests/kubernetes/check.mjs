// SPDX-License-Identifier: BSD-3-Clause
// Checks objects of Kubernetes against the schemas of their APIs, strictly.
//
//   node check.mjs FOLDER <OBJECTS      FOLDER: where npm has installed package.json of this folder
//
// OBJECTS: a list in JSON. Prints a list with a list of problems for each object, or null where there is no schema.
//
// The packages have the schemas as compiled functions, which report members that are missing or have a wrong type, and
// ignore members that they do not know. Such a function reads each member that it knows. So it gets the object behind a
// Proxy that notes what is read, and a member that was never read is unknown.
import { existsSync, readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const folder = process.argv[2];

// Which package has which API. Groups without a line are those of Kubernetes itself.
const PACKAGES = {
  "keda.sh": "@kubernetes-models/keda",
  "monitoring.coreos.com": "@kubernetes-models/prometheus-operator",
};

async function findKind(apiVersion, kind) {
  const group = apiVersion.includes("/") ? apiVersion.split("/")[0] : "";
  const path = `${folder}/node_modules/${PACKAGES[group] ?? "kubernetes-models"}/${apiVersion}/${kind}.js`;
  if (!existsSync(path)) return null;
  return (await import(pathToFileURL(path).href))[kind];
}

// The object, and a function that returns whether a member of one of its objects was read.
function recorded(root) {
  const read = new WeakMap();
  const proxies = new WeakMap();
  function wrap(value) {
    if (typeof value !== "object" || value === null) return value;
    if (!proxies.has(value)) {
      const seen = new Set();
      read.set(value, seen);
      proxies.set(value, new Proxy(value, {
        get(target, key) {
          seen.add(key);
          return wrap(target[key]);
        },
      }));
    }
    return proxies.get(value);
  }
  return [wrap(root), (object, key) => read.get(object)?.has(key) ?? false];
}

function findUnknown(value, wasRead, path, found) {
  if (Array.isArray(value)) {
    value.forEach((one, at) => findUnknown(one, wasRead, `${path}/${at}`, found));
  } else if (typeof value === "object" && value !== null) {
    for (const [key, one] of Object.entries(value)) {
      if (wasRead(value, key)) findUnknown(one, wasRead, `${path}/${key}`, found);
      else found.push(`${path}/${key}: unknown member`);
    }
  }
  return found;
}

async function check(object) {
  const kind = await findKind(object.apiVersion, object.kind);
  if (kind === null) return null;
  const [proxy, wasRead] = recorded(object);
  const problems = [];
  try {
    kind.prototype.validate.call(proxy);
  } catch (error) {
    if (!error.validation) throw error;
    problems.push(...error.errors.map((one) => `${one.instancePath}: ${one.message}`));
  }
  return findUnknown(object, wasRead, "", problems);
}

const results = [];
for (const object of JSON.parse(readFileSync(0, "utf-8"))) results.push(await check(object));
process.stdout.write(JSON.stringify(results));
