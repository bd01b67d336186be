#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the Grafana dashboards deploy/grafana/*.json.

    tools/make_boards.py            writes them
    tools/make_boards.py --check    only reports those that differ

A board is rows of panels, and a panel is a title, a unit and queries with their legends. The rest is what
Grafana writes when it exports a dashboard. Queries select by the variables of the board: $job, $instance
and, where it has one, $model.
"""
import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "deploy" / "grafana"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

SERVER = 'job=~"$job",instance=~"$instance"'
MODEL = SERVER + ',model=~"$model"'
RATE = "[$__rate_interval]"
WIDTH = 24  # columns of a board


def rate(metric, select=MODEL):
    return f"rate({metric}{{{select}}}{RATE})"


def total(by, metric, select=MODEL):
    return f"sum by ({by}) ({rate(metric, select)})"


def quantile(q, metric, by="model", select=MODEL):
    groups = "le" + (f", {by}" if by else "")
    return f"histogram_quantile({q}, sum by ({groups}) ({rate(metric + '_bucket', select)}))"


def mean(metric, by="model", select=MODEL):
    return (f"sum by ({by}) ({rate(metric + '_sum', select)})"
            f" / (sum by ({by}) ({rate(metric + '_count', select)}) > 0)")


def graph(title, unit, *queries, stack=False, about="", top=None):
    return {"kind": "timeseries", "title": title, "unit": unit, "queries": queries, "stack": stack,
            "about": about, "max": top}


def number(title, unit, query, about="", steps=(("green", None),)):
    return {"kind": "stat", "title": title, "unit": unit, "queries": ((query, ""),), "about": about,
            "steps": steps, "max": None, "stack": False}


BAD_FROM_ONE = (("green", None), ("red", 1))
FULL = (("green", None), ("orange", 0.8), ("red", 0.9))
READY = f"neso_model_ready{{{SERVER}}}"
USED = f"neso_memory_budget_used_bytes{{{SERVER}}}"
LIMIT = f"neso_memory_budget_limit_bytes{{{SERVER}}}"
CACHE = f"neso_cache_used_bytes{{{SERVER}}}"
CACHE_SIZE = f"neso_cache_size_bytes{{{SERVER}}}"
HITS = "nv_cache_num_hits_per_model"
MISSES = "nv_cache_num_misses_per_model"
REQUESTS = "neso_request_duration_seconds"
SLOTS = "neso_sequence_slots"

BOARDS = {
    "server": {
        "title": "Neso / Server",
        "about": "One or several servers: traffic, refusals, memory, the cache.",
        "variables": (),
        "rows": (
            ("Now", 4, (
                number("Servers up", "none", f"sum(up{{{SERVER}}})"),
                number("Versions that serve", "none", f"sum({READY})"),
                number("Versions that do not", "none", f"sum({READY} == bool 0)",
                       "They load, or could not be loaded.", BAD_FROM_ONE),
                number("Requests per second", "reqps",
                       f"sum({rate('nv_inference_request_success', SERVER)})"),
                number("Failures per second", "reqps",
                       f"sum({rate('nv_inference_request_failure', SERVER)})"),
                number("Memory budget in use", "percentunit", f"max({USED} / {LIMIT})", steps=FULL),
            )),
            ("Traffic", 8, (
                graph("Successful requests", "reqps",
                      (total("model", "nv_inference_request_success", SERVER), "{{model}}")),
                graph("Failures by reason", "reqps",
                      (total("reason", "nv_inference_request_failure", SERVER), "{{reason}}")),
                graph("Latency of all requests", "s",
                      *((quantile(q, REQUESTS, "", SERVER), name)
                        for q, name in ((0.5, "p50"), (0.95, "p95"), (0.99, "p99"))),
                      about="With exemplars: a dot is a traced request."),
            )),
            ("Refusals", 7, (
                graph("Refused by a limit", "reqps",
                      (total("limit", "neso_rejected_total", SERVER), "{{limit}}")),
                graph("Refused for the API key", "reqps",
                      (total("reason, key", "neso_api_key_refused_total", SERVER),
                       "{{reason}} {{key}}")),
                graph("Python processes restarted in 10 minutes", "none",
                      (f"sum by (model) (increase(neso_python_restarts_total{{{SERVER}}}[10m]))",
                       "{{model}}")),
            )),
            ("Memory and processor", 7, (
                graph("Bytes of requests and answers", "bytes", (USED, "{{instance}} used"),
                      (LIMIT, "{{instance}} limit")),
                graph("Memory of the machine", "bytes",
                      (f"nv_cpu_memory_used_bytes{{{SERVER}}}", "{{instance}} used"),
                      (f"nv_cpu_memory_total_bytes{{{SERVER}}}", "{{instance}} total")),
                graph("Processors of the machine", "percentunit",
                      (f"nv_cpu_utilization{{{SERVER}}}", "{{instance}}"), top=1),
            )),
            ("Response cache", 7, (
                graph("Bytes", "bytes", (CACHE, "{{instance}} used"),
                      (CACHE_SIZE, "{{instance}} size")),
                graph("Responses", "none", (f"neso_cache_entries{{{SERVER}}}", "{{instance}}")),
                graph("Evictions", "ops", (rate("neso_cache_evictions_total", SERVER),
                                           "{{instance}}")),
                graph("Hits by look-ups", "percentunit",
                      (f"sum({rate(HITS, SERVER)}) / (sum({rate(HITS, SERVER)})"
                       f" + sum({rate(MISSES, SERVER)}))", "all models"), top=1),
            )),
            ("What gets lost", 6, (
                graph("Log lines lost", "ops", (rate("neso_log_lines_lost_total", SERVER),
                                                "{{instance}}")),
                graph("Traces lost", "ops", (rate("neso_traces_dropped_total", SERVER),
                                             "{{instance}}")),
            )),
        ),
    },
    "models": {
        "title": "Neso / Models",
        "about": "Each model: rate, latency by phase, queue, load of the instances, batches.",
        "variables": ("model",),
        "rows": (
            ("Requests", 8, (
                graph("Successful requests", "reqps",
                      (total("model", "nv_inference_request_success"), "{{model}}")),
                graph("Inferences (rows)", "ops", (total("model", "nv_inference_count"), "{{model}}")),
                graph("Failed requests", "reqps",
                      (total("model, reason", "nv_inference_request_failure"),
                       "{{model}} {{reason}}")),
            )),
            ("Latency", 8, (
                graph("Request, p50", "s", (quantile(0.5, REQUESTS), "{{model}}")),
                graph("Request, p99", "s", (quantile(0.99, REQUESTS), "{{model}}"),
                      about="With exemplars: a dot is a traced request."),
                graph("Mean by phase", "s",
                      *((mean(f"neso_{phase}_duration_seconds"), "{{model}} " + name)
                        for phase, name in (("queue", "queue"), ("compute_input", "input"),
                                            ("compute_infer", "infer"),
                                            ("compute_output", "output"))),
                      stack=True),
            )),
            ("Queue and load", 8, (
                graph("Load of the instances", "percentunit",
                      (f"neso_load_ratio{{{MODEL}}}", "{{model}} {{instance}}"), top=1,
                      about="Busy time by available time, last 15 s. Near 1, requests queue."),
                graph("Requests that wait", "none",
                      (f"sum by (model) (nv_inference_pending_request_count{{{MODEL}}})",
                       "{{model}}")),
                graph("Age of the oldest waiting request", "s",
                      (f"max by (model) (neso_oldest_request_age_seconds{{{MODEL}}})", "{{model}}")),
                graph("Time in the queue, p99", "s",
                      (quantile(0.99, "neso_queue_duration_seconds"), "{{model}}")),
            )),
            ("Executions", 8, (
                graph("Executions", "ops", (total("model, path", "neso_executions_total"),
                                            "{{model}} {{path}}"),
                      about="inline: on the thread that received the request."),
                graph("Mean batch size", "none", (mean("neso_batch_size"), "{{model}}")),
                graph("Batches by what made them run", "ops",
                      (total("model, reason", "neso_batch_dispatch_reason"), "{{model}} {{reason}}")),
            )),
            ("Composite models: members", 7, (
                graph("Executions of a member", "ops",
                      (total("model, member", "neso_member_exec_count"), "{{model}} {{member}}")),
                graph("Rows of a member", "ops",
                      (total("model, member", "neso_member_rows"), "{{model}} {{member}}")),
                graph("Busy instances of a member", "none",
                      (total("model, member", "neso_member_busy_us") + " / 1e6",
                       "{{model}} {{member}}")),
            )),
            ("Cache, versions, processes", 7, (
                graph("Hits by look-ups", "percentunit",
                      (f"{total('model', HITS)} / ({total('model', HITS)} + {total('model', MISSES)}"
                       " > 0)", "{{model}}"), top=1),
                graph("Ready", "none", (f"min by (model, version) (neso_model_ready{{{MODEL}}})",
                                        "{{model}} {{version}}"), top=1),
                graph("Time of the load", "s",
                      (f"max by (model, version) (nv_model_load_duration_secs{{{MODEL}}})",
                       "{{model}} {{version}}")),
                graph("Python processes restarted in 10 minutes", "none",
                      (f"sum by (model) (increase(neso_python_restarts_total{{{MODEL}}}[10m]))",
                       "{{model}}")),
            )),
        ),
    },
    "pipelines": {
        "title": "Neso / Pipelines",
        "about": "Ensembles and chains. Choose an ensemble and its steps as models.",
        "variables": ("model", "chain"),
        "rows": (
            ("Ensembles and their steps", 8, (
                graph("Requests", "reqps",
                      (total("model", "nv_inference_request_success"), "{{model}}")),
                graph("Latency, p99", "s", (quantile(0.99, REQUESTS), "{{model}}")),
                graph("Mean latency", "s", (mean(REQUESTS), "{{model}}")),
                graph("Requests that wait, by step", "none",
                      (f"sum by (model) (nv_inference_pending_request_count{{{MODEL}}})",
                       "{{model}}")),
            )),
            ("Streams", 7, (
                graph("Time to the first response, p95", "ms",
                      (quantile(0.95, "nv_inference_first_response_histogram_ms"), "{{model}}"),
                      about="Decoupled models, with --metrics-config=histogram_latencies=true."),
            )),
            ("Chains", 8, tuple(
                graph(title, unit, (query.replace("SELECT", SERVER + ',chain=~"$chain"'), legend))
                for title, unit, query, legend in (
                    ("Runs", "reqps", f"sum by (chain) (rate(neso_chain_request_success{{SELECT}}{RATE}))",
                     "{{chain}}"),
                    ("Failed runs by stage", "reqps",
                     f"sum by (chain, stage) (rate(neso_chain_request_failure{{SELECT}}{RATE}))",
                     "{{chain}} {{stage}}"),
                    ("Mean duration", "µs",
                     f"sum by (chain) (rate(neso_chain_duration_us{{SELECT}}{RATE}))"
                     f" / (sum by (chain) (rate(neso_chain_request_success{{SELECT}}{RATE})) > 0)",
                     "{{chain}}"),
                    ("Runs under way", "none", "sum by (chain) (neso_chain_inflight{SELECT})",
                     "{{chain}}"))) + (
                graph("Time between stages", "µs",
                      (total("from, to", "neso_chain_handoff_us", SERVER), "{{from}} to {{to}}"),
                      about="Microseconds per second, of all runs."),)),
        ),
    },
    "sequences": {
        "title": "Neso / Sequences",
        "about": "Sequences of stateful models: slots, backlog, how they end.",
        "variables": ("model",),
        "rows": (
            ("Slots", 8, (
                graph("Sequences with a slot", "none",
                      (f"sum by (model) (neso_sequences_active{{{MODEL}}})", "{{model}}")),
                graph("Sequences that wait for a slot", "none",
                      (f"sum by (model) (neso_sequences_backlog{{{MODEL}}})", "{{model}}")),
                graph("Used slots by all slots", "percentunit",
                      (f'sum by (model) ({SLOTS}{{{MODEL},state="used"}})'
                       f" / sum by (model) ({SLOTS}{{{MODEL}}})", "{{model}}"), top=1),
                graph("Slots", "none", (f"sum by (model, state) ({SLOTS}{{{MODEL}}})",
                                        "{{model}} {{state}}")),
            )),
            ("Beginning and end", 8, (
                graph("Sequences begun", "ops", (total("model", "neso_sequences_started_total"),
                                                 "{{model}}")),
                graph("Sequences ended by reason", "ops",
                      (total("model, reason", "neso_sequences_ended_total"),
                       "{{model}} {{reason}}")),
                graph("Mean life of a sequence", "s",
                      (f"sum by (model) (avg_over_time(neso_sequences_active{{{MODEL}}}{RATE}))"
                       f" / (sum by (model) ({rate('neso_sequences_ended_total')}) > 0)",
                       "{{model}}"), about="Live sequences by the rate of their ends."),
            )),
            ("Requests", 8, (
                graph("Requests", "reqps",
                      (f"{total('model', 'nv_inference_request_success')}"
                       f" and on (model) neso_sequences_active{{{MODEL}}}", "{{model}}")),
                graph("Age of the oldest waiting request", "s",
                      (f"max by (model) (neso_oldest_request_age_seconds{{{MODEL}}}"
                       f" and on (instance, model, version) neso_sequences_active{{{MODEL}}})",
                       "{{model}}"),
                      about="In the backlog or in an instance's queue."),
                graph("Latency, p99", "s",
                      (quantile(0.99, REQUESTS)
                       + f" and on (model) neso_sequences_active{{{MODEL}}}", "{{model}}")),
            )),
        ),
    },
}

VARIABLES = {
    "job": ("Job", "label_values(nv_pinned_memory_pool_total_bytes, job)"),
    "instance": ("Server", 'label_values(nv_pinned_memory_pool_total_bytes{job=~"$job"}, instance)'),
    "model": ("Model", f"label_values(nv_inference_count{{{SERVER}}}, model)"),
    "chain": ("Chain", f"label_values(neso_chain_inflight{{{SERVER}}}, chain)"),
}


def variable(name):
    label, query = VARIABLES[name]
    return {"name": name, "label": label, "type": "query", "datasource": DATASOURCE,
            "definition": query, "query": {"query": query, "refId": "Variable"}, "refresh": 2,
            "regex": "", "sort": 1, "multi": True, "includeAll": True, "allValue": ".*", "hide": 0,
            "skipUrlSync": False, "options": [],
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]}}


def datasource_variable():
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
            "refresh": 1, "regex": "", "multi": False, "includeAll": False, "hide": 0,
            "skipUrlSync": False, "options": [], "current": {}}


def target(number_, query, legend, is_graph):
    return {"datasource": DATASOURCE, "editorMode": "code", "expr": query,
            "exemplar": is_graph and "histogram_quantile" in query, "instant": not is_graph,
            "range": is_graph, "legendFormat": legend or "__auto", "refId": chr(ord("A") + number_)}


def defaults(one):
    steps = one.get("steps", (("green", None),))
    found = {"color": {"mode": "thresholds" if one["kind"] == "stat" else "palette-classic"},
             "mappings": [], "unit": one["unit"], "min": 0,
             "thresholds": {"mode": "absolute",
                            "steps": [{"color": color, "value": value} for color, value in steps]}}
    if one["max"] is not None:
        found["max"] = one["max"]
    if one["kind"] == "timeseries":
        found["custom"] = {"drawStyle": "line", "lineWidth": 1, "showPoints": "never",
                           "fillOpacity": 30 if one["stack"] else 0, "spanNulls": False,
                           "stacking": {"group": "A", "mode": "normal" if one["stack"] else "none"}}
    return found


def options(one):
    if one["kind"] == "stat":
        return {"colorMode": "value", "graphMode": "area", "justifyMode": "auto",
                "orientation": "auto", "textMode": "auto",
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}}
    return {"legend": {"calcs": ["lastNotNull", "max"], "displayMode": "table", "placement": "bottom",
                       "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"}}


def panel(number_, one, place):
    return {"id": number_, "type": one["kind"], "title": one["title"], "description": one["about"],
            "datasource": DATASOURCE, "gridPos": place,
            "targets": [target(i, query, legend, one["kind"] == "timeseries")
                        for i, (query, legend) in enumerate(one["queries"])],
            "fieldConfig": {"defaults": defaults(one), "overrides": []}, "options": options(one)}


def panels(rows):
    found, y = [], 0
    for title, height, row in rows:
        found.append({"id": len(found) + 1, "type": "row", "title": title, "collapsed": False,
                      "panels": [], "gridPos": {"h": 1, "w": WIDTH, "x": 0, "y": y}})
        width = WIDTH // len(row)
        for i, one in enumerate(row):
            place = {"h": height, "w": width, "x": i * width, "y": y + 1}
            found.append(panel(len(found) + 1, one, place))
        y += height + 1
    return found


def board(name):
    one = BOARDS[name]
    names = ("job", "instance", *one["variables"])
    return {
        "title": one["title"], "description": one["about"], "uid": f"neso-{name}", "id": None,
        "tags": ["neso"], "editable": True, "graphTooltip": 1, "schemaVersion": 39, "version": 1,
        "refresh": "10s", "time": {"from": "now-1h", "to": "now"}, "timepicker": {},
        "timezone": "browser", "weekStart": "", "fiscalYearStartMonth": 0, "liveNow": False,
        "links": [{"type": "dashboards", "title": "Neso", "tags": ["neso"], "asDropdown": False,
                   "includeVars": True, "keepTime": True, "targetBlank": False, "icon": "external link",
                   "tooltip": "", "url": ""}],
        "annotations": {"list": [{"builtIn": 1, "name": "Annotations & Alerts", "type": "dashboard",
                                  "datasource": {"type": "grafana", "uid": "-- Grafana --"},
                                  "enable": True, "hide": True, "iconColor": "rgba(0, 211, 255, 1)"}]},
        "templating": {"list": [datasource_variable(), *map(variable, names)]},
        "panels": panels(one["rows"]),
    }


def text_of(name):
    return json.dumps(board(name), indent=2, ensure_ascii=False) + "\n"


def main():
    different = 0
    for name in BOARDS:
        path = FOLDER / f"{name}.json"
        text = text_of(name)
        if sys.argv[1:] != ["--check"]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path}: is not what tools/make_boards.py writes")
            different += 1
    return different > 0


if __name__ == "__main__":
    sys.exit(main())
