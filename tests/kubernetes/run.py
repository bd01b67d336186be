#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The manifests of deploy/kubernetes against the schemas of their APIs.

  make kubernetes      or, after tools/setup.sh --kubernetes,      tests/kubernetes/run.py

`kubectl kustomize` renders each folder that has a kustomization. Then

 * the schema of its API checks every object strictly: a member that the API does not know is an error, as one that is
   missing or has a wrong type (check.mjs). The schemas are those of Kubernetes, KEDA and the Prometheus operator
 * the objects of a folder fit each other: what selects pods selects them, and the names of ports and volumes exist

KServe's schemas are in no package that can be fetched: the members of its object are listed here, after its
documentation, and its containers are checked as those of a pod.

Before that, objects with one mistake each show that the checks find it.
"""
import copy
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests")]

from programs import fail  # noqa: E402

MANIFESTS = ROOT / "deploy" / "kubernetes"
PACKAGES = ROOT / ".deps" / "kubernetes"

# serving.kserve.io/v1alpha1, ServingRuntimeSpec: its own members, and those of a pod that it has.
KSERVE_KIND = "ClusterServingRuntime"
KSERVE_SPEC = {
    "annotations": dict, "labels": dict, "supportedModelFormats": list, "protocolVersions": list, "multiModel": bool,
    "disabled": bool, "replicas": int, "containers": list, "volumes": list, "nodeSelector": dict, "affinity": dict,
    "tolerations": list, "imagePullSecrets": list, "hostIPC": bool,
}
KSERVE_FORMAT = {"name": str, "version": str, "autoSelect": bool, "priority": int}
KSERVE_PROTOCOLS = {"v1", "v2", "grpc-v1", "grpc-v2"}


def kubectl():
    own = PACKAGES / "kubectl"
    found = str(own) if own.exists() else shutil.which("kubectl")
    return found or fail("kubectl is missing: tools/setup.sh --kubernetes fetches it")


def run(command, text=None):
    ended = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=120,
                           env=os.environ | {"KUBECONFIG": os.devnull})
    if ended.returncode != 0:
        fail(f"{' '.join(map(str, command))}:\n{ended.stderr}")
    return ended.stdout


def check_schemas(objects):
    """A list of problems for each object; None where there is no schema."""
    return json.loads(run(["node", ROOT / "tests/kubernetes/check.mjs", PACKAGES], json.dumps(objects)))


# ---- KServe -------------------------------------------------------------------------------------


def wrong_members(value, members, path):
    for name, part in value.items():
        if name not in members:
            yield f"{path}/{name}: unknown member"
        elif not isinstance(part, members[name]):
            yield f"{path}/{name}: is no {members[name].__name__}"


def pod_of(runtime):
    """A pod with the containers of the runtime: for those there is a schema."""
    spec = runtime["spec"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"},
            "spec": {name: spec[name] for name in ("containers", "volumes") if name in spec}}


def check_kserve(runtime, problems_of_pod):
    spec = runtime["spec"]
    problems = [*wrong_members(runtime, {"apiVersion": str, "kind": str, "metadata": dict, "spec": dict}, ""),
                *wrong_members(spec, KSERVE_SPEC, "/spec")]
    for at, one in enumerate(spec.get("supportedModelFormats", ())):
        problems += wrong_members(one, KSERVE_FORMAT, f"/spec/supportedModelFormats/{at}")
    problems += [f"/spec/protocolVersions: {one} is unknown" for one in spec.get("protocolVersions", ())
                 if one not in KSERVE_PROTOCOLS]
    if [one["name"] for one in spec["containers"]].count("kserve-container") != 1:
        problems.append("/spec/containers: none, or more than one, is called kserve-container")
    return problems + problems_of_pod


# ---- objects that fit each other ----------------------------------------------------------------


SELECTORS = (("Deployment", "selector"), ("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector"))


def of_kind(objects, kind):
    return [one for one in objects if one["kind"] == kind]


def is_part(selector, labels):
    return selector.items() <= labels.items()


def check_pod(deployment):
    pod = deployment["spec"]["template"]["spec"]
    volumes = {one["name"] for one in pod.get("volumes", ())}
    for container in pod["containers"]:
        ports = {one["name"] for one in container["ports"]}
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            if container[kind]["httpGet"]["port"] not in ports:
                yield f"{kind}: the container has no port {container[kind]['httpGet']['port']}"
        for mount in container["volumeMounts"]:
            if mount["name"] not in volumes:
                yield f"volumeMounts: the pod has no volume {mount['name']}"


def check_together(objects):
    """Of one folder: with one deployment."""
    [deployment] = of_kind(objects, "Deployment")
    template = deployment["spec"]["template"]
    labels = template["metadata"]["labels"]
    ports = {port["name"] for one in template["spec"]["containers"] for port in one["ports"]}
    name = deployment["metadata"]["name"]
    problems = list(check_pod(deployment))
    services = of_kind(objects, "Service")
    # An empty selector would be for all pods of the namespace, or for none.
    selectors = [("Service", one["spec"].get("selector")) for one in services]
    selectors += [(kind, one["spec"].get(member, {}).get("matchLabels")) for kind, member in SELECTORS
                  for one in of_kind(objects, kind)]
    problems += [f"{kind}: selects no pod of the deployment" for kind, one in selectors
                 if not one or not is_part(one, labels)]
    problems += [f"Service: the pods have no port {port['targetPort']}" for one in services
                 for port in one["spec"]["ports"] if port["targetPort"] not in ports]
    problems += [f"NetworkPolicy: the pods have no port {port['port']}" for one in of_kind(objects, "NetworkPolicy")
                 for rule in one["spec"]["ingress"] for port in rule["ports"] if port["port"] not in ports]
    for one in of_kind(objects, "ServiceMonitor"):
        watched = [service for service in services
                   if is_part(one["spec"]["selector"]["matchLabels"], service["metadata"]["labels"])]
        offered = {port["name"] for service in watched for port in service["spec"]["ports"]}
        problems += [f"ServiceMonitor: no service has the port {end['port']}" for end in one["spec"]["endpoints"]
                     if end["port"] not in offered]
    targets = of_kind(objects, "HorizontalPodAutoscaler") + of_kind(objects, "ScaledObject")
    problems += [f"{one['kind']}: scales {one['spec']['scaleTargetRef']['name']}, not {name}" for one in targets
                 if one["spec"]["scaleTargetRef"]["name"] != name]
    if len(targets) != 1:
        problems.append(f"{len(targets)} objects scale the deployment")
    return problems


# ---- all ----------------------------------------------------------------------------------------


def render(folder):
    return list(yaml.safe_load_all(run([kubectl(), "kustomize", folder])))


def check_folder(objects, found):
    """`found`: what the schemas say of each."""
    problems = []
    for one, texts in zip(objects, found):
        name = f"{one['apiVersion']} {one['kind']} {one['metadata']['name']}"
        problems += [f"{name}: there is no schema"] if texts is None else [f"{name}: {text}" for text in texts]
    return problems + check_together(objects)


def check(lists):
    """The problems of each list: the objects of a folder, or a runtime of KServe alone. Node starts once for all."""
    is_kserve = [len(one) == 1 and one[0]["kind"] == KSERVE_KIND for one in lists]
    asked = [[pod_of(one[0])] if kserve else one for one, kserve in zip(lists, is_kserve)]
    found = iter(check_schemas([one for objects in asked for one in objects]))
    for objects, kserve in zip(lists, is_kserve):
        mine = [next(found) for _ in objects]
        yield check_kserve(objects[0], mine[0]) if kserve else check_folder(objects, mine)


MISTAKES = [  # kind, path, value (None: the member is taken away), what a problem says
    ("Deployment", "spec/replica", 2, "unknown member"),
    ("Deployment", "spec/replicas", "2", "integer"),
    ("Deployment", "spec/selector", None, "selector"),
    ("Deployment", "spec/template/spec/containers/0/lifecycle/preStop/exec/comand", ["x"], "unknown member"),
    ("Deployment", "spec/template/spec/containers/0/securityContext/readOnlyRootFilesystem", "yes", "boolean"),
    ("Deployment", "spec/template/spec/containers/0/startupProbe/httpGet/port", "htp", "no port htp"),
    ("Deployment", "spec/template/spec/containers/0/volumeMounts/0/name", "none", "no volume none"),
    ("Deployment", "template", {}, "unknown member"),
    ("Service", "spec/ports/0/targetPort", "htp", "no port htp"),
    ("Service", "spec/selector/app", "other", "selects no pod"),
    ("PodDisruptionBudget", "spec/selector", None, "selects no pod"),
    ("NetworkPolicy", "spec/podSelector", {}, "selects no pod"),
    ("HorizontalPodAutoscaler", "spec/metrics/0/resource/target/averageUtilisation", 1, "unknown member"),
    ("HorizontalPodAutoscaler", "apiVersion", "autoscaling/v9", "no schema"),
    ("NetworkPolicy", "spec/ingress/0/port", [], "unknown member"),
    ("PodDisruptionBudget", "metadata/label", {}, "unknown member"),
    ("ScaledObject", "spec/minReplica", 1, "unknown member"),
    ("ScaledObject", "spec/triggers/0/type", None, "type"),
    ("ScaledObject", "spec/scaleTargetRef/name", "other", "scales other"),
    ("ServiceMonitor", "spec/endpoints/0/intervall", "1s", "unknown member"),
    ("ServiceMonitor", "spec/endpoints/0/port", "none", "no service has the port none"),
    ("ClusterServingRuntime", "spec/protocolVersion", ["v2"], "unknown member"),
    ("ClusterServingRuntime", "spec/supportedModelFormats/0/autoselect", True, "unknown member"),
    ("ClusterServingRuntime", "spec/supportedModelFormats/0/version", 1, "is no str"),
    ("ClusterServingRuntime", "spec/containers/0/lifecycle/prestop", {}, "unknown member"),
    ("ClusterServingRuntime", "spec/containers/0/name", "neso", "kserve-container"),
]


def with_mistake(objects, kind, path, value):
    changed = copy.deepcopy(objects)
    [place] = [one for one in changed if one["kind"] == kind][:1]
    *parents, last = path.split("/")
    for name in parents:
        place = place[int(name) if name.isdigit() else name]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return changed


def missed_mistakes(lists):
    """The checks find each mistake of the list."""
    changed = [with_mistake(next(one for one in lists if of_kind(one, kind)), kind, path, value)
               for kind, path, value, _ in MISTAKES]
    for (kind, path, value, says), found in zip(MISTAKES, check(changed)):
        if not any(says in one for one in found):
            yield f"the mistake {kind} {path} = {value!r} is not found: {found}"


def main():
    folders = {path.parent.name: render(path.parent) for path in sorted(MANIFESTS.rglob("kustomization.yaml"))}
    missing = {path.name for path in MANIFESTS.iterdir()} - set(folders)
    if missing:
        fail(f"no kustomization.yaml, which `kubectl apply -k` needs: {sorted(missing)}")
    n_objects = sum(map(len, folders.values())) - len(folders["kserve"])
    lists = list(folders.values())
    problems = [f"{name}: {text}" for name, found in zip(folders, check(lists)) for text in found]
    problems = problems or list(missed_mistakes(lists))
    if problems:
        fail("\n".join([f"{len(problems)} problems", *problems]))
    version = re.search(r"v\d+\.\d+", run([kubectl(), "version", "--client"]))[0]
    print(f"kubernetes: {n_objects} objects of {len(folders) - 1} folders, rendered by kubectl {version}, fit their "
          f"schemas; KServe's is checked by hand; {len(MISTAKES)} mistakes were found")


if __name__ == "__main__":
    main()
