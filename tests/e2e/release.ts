// SPDX-License-Identifier: Apache-2.0
// One installation of the chart in a namespace of its own, and the proof that nothing of it is left.
import { setTimeout as delay } from "node:timers/promises";

import { CHART, attempt, command, helm, kubectl } from "./cluster.ts";
import { NAMESPACE, RELEASE, whet } from "./whet.ts";

export { NAMESPACE, RELEASE };
const REGISTRY = process.env["REGISTRY"] || "localhost/whetstone";
const TAG = process.env["TAG"] || "dev";
export const IMAGES = { envRunner: `${REGISTRY}/env-runner:${TAG}` } as const;
const GONE_MS = 120_000;

/** The namespace refuses pods that Pod Security `restricted` refuses. */
export function makeNamespace(): void {
  removeNamespace(); // What an earlier run has kept: uninstalled, so that jobs give up their finalizers.
  kubectl("create", "namespace", NAMESPACE);
  kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted");
}

export function removeNamespace(): void {
  attempt("helm", ["uninstall", RELEASE, "--namespace", NAMESPACE, "--ignore-not-found", "--wait"]);
  attempt("kubectl", ["delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=true"]);
}

/** Brings images that no node has into the cluster with E2E_LOAD_IMAGE, a command that takes an image's name. */
export function loadImages(...settings: string[]): number {
  const load = process.env["E2E_LOAD_IMAGE"];
  if (!load) return 0;
  const there = kubectl("get", "nodes", "-o", "jsonpath={.items[*].status.images[*].names}");
  const missing = imagesOfChart(settings).filter((image) => !there.includes(image));
  for (const image of missing) command("sh", ["-c", `${load} "$0"`, image]);
  return missing.length;
}

function imagesOfChart(settings: readonly string[]): string[] {
  const manifest = helm("template", RELEASE, CHART, ...imageFlags(), ...settings.flatMap((one) => ["--set", one]));
  const images = [...manifest.matchAll(/^\s+(?:image|proxyImage): (\S+)$/gm)].map((match) => match[1] as string);
  // Pods of the backend verl come with a job that wants it, and their image is not among those that are built by default.
  return [...new Set(images)].filter((image) => !image.includes("/trainer-verl:"));
}

/** E2E_SET: more values, "engine.replicas=2 logLevel=debug". */
function imageFlags(): string[] {
  const more = (process.env["E2E_SET"] ?? "").split(" ").filter(Boolean);
  return [`images.registry=${REGISTRY}`, `images.tag=${TAG}`, ...more].flatMap((setting) => ["--set", setting]);
}

/** `whet install --kube`. Answers the seconds of its phases. */
export function install(...settings: string[]): string {
  const set = settings.flatMap((setting) => ["--set", setting]);
  const { status, json, output } = whet("install", "--kube", ...imageFlags(), ...set, "--json");
  if (status !== 0) throw new Error(`whet install ended with ${status}: ${output}`);
  const { seconds } = json as { seconds: Record<string, number> };
  return Object.entries(seconds)
    .map(([name, taken]) => `${name.split(" ")[0]} ${taken.toFixed(1)} s`)
    .join(", ");
}

/** Everything that runs is changed, and then changed back: the pods are replaced. */
export function upgrade(): void {
  helm("upgrade", RELEASE, CHART, "--namespace", NAMESPACE, "--reuse-values", "--set", "logLevel=debug");
}

export function rollback(): void {
  helm("rollback", RELEASE, "--namespace", NAMESPACE);
}

/** Uninstalls; throws when anything of the release is there after two minutes. */
export async function uninstall(): Promise<void> {
  const volumes = volumesOfNamespace();
  const { status, output } = whet("uninstall", "--kube");
  if (status !== 0) throw new Error(`whet uninstall ended with ${status}: ${output}`);
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
  // Those of volumes.ts are the test's own.
  return kubectl("get", "persistentvolumes", "-o", `jsonpath=${path}`)
    .split(" ")
    .filter((name) => name !== "" && !name.startsWith("persistentvolume/e2e-"));
}

/** What helps to understand a failure. */
export function describeFailure(): string {
  const parts = [
    ["get", "pods", "-o", "wide"],
    ["get", "events", "--sort-by=.lastTimestamp"],
    [
      "logs",
      "-l",
      `app.kubernetes.io/instance=${RELEASE}`,
      "--all-containers",
      "--prefix",
      "--tail=15",
      "--ignore-errors",
    ],
  ];
  return parts.map((args) => attempt("kubectl", ["-n", NAMESPACE, ...args]).output).join("\n");
}
