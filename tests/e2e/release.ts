// SPDX-License-Identifier: Apache-2.0
// One installation of the chart in a namespace of its own, and the proof that nothing of it is left.
import { setTimeout as delay } from "node:timers/promises";

import { CHART, attempt, command, helm, kubectl } from "./cluster.ts";

export const RELEASE = "whetstone";
export const NAMESPACE = process.env["E2E_NAMESPACE"] ?? "whetstone-e2e";
const REGISTRY = process.env["REGISTRY"] || "localhost/whetstone";
const TAG = process.env["TAG"] || "dev";
const READY = "300s";
const GONE_MS = 120_000;

/** The namespace refuses pods that Pod Security `restricted` refuses. */
export function makeNamespace(): void {
  command("kubectl", ["delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=true"]);
  kubectl("create", "namespace", NAMESPACE);
  kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted");
}

export function removeNamespace(): void {
  attempt("helm", ["uninstall", RELEASE, "--namespace", NAMESPACE, "--ignore-not-found", "--wait"]);
  attempt("kubectl", ["delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=true"]);
}

/** Brings images that no node has into the cluster with E2E_LOAD_IMAGE, a command that takes an image's name. */
export function loadImages(): number {
  const load = process.env["E2E_LOAD_IMAGE"];
  if (!load) return 0;
  const there = kubectl("get", "nodes", "-o", "jsonpath={.items[*].status.images[*].names}");
  const missing = imagesOfChart().filter((image) => !there.includes(image));
  for (const image of missing) command("sh", ["-c", `${load} "$0"`, image]);
  return missing.length;
}

function imagesOfChart(): string[] {
  const manifest = helm("template", RELEASE, CHART, ...imageFlags());
  return [...new Set([...manifest.matchAll(/^\s+image: (\S+)$/gm)].map((match) => match[1] as string))];
}

function imageFlags(): string[] {
  return ["--set", `images.registry=${REGISTRY}`, "--set", `images.tag=${TAG}`];
}

export function install(): void {
  helm("install", RELEASE, CHART, "--namespace", NAMESPACE, ...imageFlags());
}

export async function allReady(): Promise<void> {
  // `kubectl wait` fails when there is no pod yet.
  while (kubectl("-n", NAMESPACE, "get", "pods", "-o", "name") === "") await delay(100);
  const selector = `app.kubernetes.io/instance=${RELEASE}`;
  for (const kind of ["deployment", "statefulset"]) {
    const names = kubectl("-n", NAMESPACE, "get", kind, "-l", selector, "-o", "name").trim().split("\n");
    for (const name of names) kubectl("-n", NAMESPACE, "rollout", "status", name, `--timeout=${READY}`);
  }
}

/** Uninstalls; throws when anything of the release is there after two minutes. */
export async function uninstall(): Promise<void> {
  const volumes = volumesOfNamespace();
  helm("uninstall", RELEASE, "--namespace", NAMESPACE, "--wait");
  const end = performance.now() + GONE_MS;
  let left = leftovers(volumes);
  while (left.length > 0 && performance.now() < end) {
    await delay(500);
    left = leftovers(volumes);
  }
  if (left.length > 0) throw new Error(`left after helm uninstall: ${left.join(", ")}`);
}

/** What Kubernetes itself puts into every namespace. */
const NOT_OURS = /^(configmap\/kube-root-ca\.crt|serviceaccount\/default)$/;

/** Everything in the namespace but events, of whatever kind; and volumes that its claims had. */
function leftovers(volumes: readonly string[]): string[] {
  const kinds = kubectl("api-resources", "--namespaced", "--verbs=list", "-o", "name").trim().split("\n");
  const wanted = kinds.filter((kind) => !/^events(\.|$)|^pods\.metrics\.k8s\.io$/.test(kind)).join(",");
  const objects = kubectl("-n", NAMESPACE, "get", wanted, "-o", "name", "--ignore-not-found").trim().split("\n");
  const still = volumesOfNamespace().filter((volume) => volumes.includes(volume));
  return [...objects.filter((name) => name !== "" && !NOT_OURS.test(name)), ...still];
}

function volumesOfNamespace(): string[] {
  const path = `{range .items[?(@.spec.claimRef.namespace=="${NAMESPACE}")]}persistentvolume/{.metadata.name} {end}`;
  return kubectl("get", "persistentvolumes", "-o", `jsonpath=${path}`)
    .split(" ")
    .filter((name) => name !== "");
}

/** What helps to understand a failure. */
export function describeFailure(): string {
  const parts = [
    ["get", "pods", "-o", "wide"],
    ["get", "events", "--sort-by=.lastTimestamp"],
    ["logs", "-l", `app.kubernetes.io/instance=${RELEASE}`, "--all-containers", "--prefix", "--tail=15"],
  ];
  return parts.map((args) => attempt("kubectl", ["-n", NAMESPACE, ...args]).output).join("\n");
}
