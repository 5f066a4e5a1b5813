// SPDX-License-Identifier: Apache-2.0
// What a serving is and becomes. Pure: weights are fetched and stored elsewhere.
import { create } from "@bufbuild/protobuf";
import { timestampNow } from "@bufbuild/protobuf/wkt";
import { ConfigError, WhetstoneError } from "@whetstone/core";
import {
  CanarySchema,
  type ChangeServingRequest,
  type ServedVersion,
  ServedVersionSchema,
  type Serving,
  type ServingKey,
  ServingSchema,
} from "@whetstone/proto/serving/v1/serving";

/** Earlier weights can be gone back to. */
const VERSIONS_KEPT = 10;
const MAX_KEYS = 1000;

/** Weights that were taken for a serving. */
export type Taken = Pick<ServedVersion, "source" | "path">;

export interface NewServing {
  readonly name: string;
  readonly weight: number;
  readonly keys: readonly ServingKey[];
  /** The serving that its adapters stand beside; absent: it has weights of its own. */
  readonly beside?: string;
}

export function newServing({ name, weight, keys, beside = "" }: NewServing, taken: Taken): Serving {
  refuseKeys(keys);
  const serving = create(ServingSchema, { name, weight, keys: [...keys], beside, createdAt: timestampNow() });
  serve(serving, taken);
  return serving;
}

/** Weights that a change brings; undefined: it brings none. */
export function sourceOf({ change }: ChangeServingRequest) {
  return change.case === "setCanary" || change.case === "setWeights" ? change.value.source : undefined;
}

/** @param taken  the weights that the change brings. @throws what is wrong with it; then nothing was changed */
export function changeServing(serving: Serving, { change }: ChangeServingRequest, taken: Taken | undefined): void {
  switch (change.case) {
    case "setCanary":
      if (taken) setCanary(serving, taken, change.value.percent);
      return;
    case "setCanaryShare":
      canaryOf(serving).percent = change.value.percent;
      return;
    case "endCanary":
      delete serving.canary;
      return;
    case "promote":
      return serve(serving, present(canaryOf(serving).version));
    case "setWeights":
      if (taken) serve(serving, taken);
      return;
    case "rollback":
      return serve(serving, earlier(serving, change.value.toVersion));
    case "setKey":
      return setKey(serving, change.value);
    case "removeKey":
      return removeKey(serving, change.value.name);
    default:
      throw new ConfigError([{ path: "change", reason: "is required" }]);
  }
}

const NEW_WEIGHTS: ReadonlySet<string | undefined> = new Set(["setWeights", "promote", "rollback"]);

/** Adapters are of the weights that they stand beside. @throws FAILED_PRECONDITION where these would leave */
export function refuseWhileBeside(name: string, what: string, all: readonly Serving[]): void {
  const others = all.filter(({ beside }) => beside === name).map((one) => one.name);
  if (others.length === 0) return;
  const message = `${what} "${name}" would take the weights away that ${others.join(", ")} stands beside; stop it first: \`whet servings stop ${others[0]}\``;
  throw new WhetstoneError("FAILED_PRECONDITION", message, { retry: "never" });
}

export function bringsWeights({ change }: ChangeServingRequest): boolean {
  return NEW_WEIGHTS.has(change.case);
}

/** Folders that the serving needs. */
export function foldersOf({ versions, canary }: Serving): Set<string> {
  return new Set([...versions, ...(canary?.version ? [canary.version] : [])].map(({ path }) => path));
}

/** The version that clients get. */
export function newestOf({ name, versions }: Serving): ServedVersion {
  const newest = versions.at(-1);
  if (newest === undefined) throw new WhetstoneError("INTERNAL", `the serving "${name}" has no version`);
  return newest;
}

/** From now on clients get these weights, all of them: a canary ends. */
function serve(serving: Serving, { source, path }: Taken): void {
  const version = nextVersion(serving, { source, path });
  serving.versions = [...serving.versions, version].slice(-VERSIONS_KEPT);
  delete serving.canary;
}

function setCanary(serving: Serving, taken: Taken, percent: number): void {
  serving.canary = create(CanarySchema, { version: nextVersion(serving, taken), percent });
}

/** Versions only grow, also where weights come back: engines and gateways know an answer's weights by them. */
function nextVersion({ versions, canary }: Serving, { source, path }: Taken): ServedVersion {
  const newest = Math.max(0, Number(versions.at(-1)?.version ?? 0), Number(canary?.version?.version ?? 0));
  return create(ServedVersionSchema, {
    ...(source && { source }),
    version: BigInt(newest + 1),
    path,
    since: timestampNow(),
  });
}

function canaryOf({ name, canary }: Serving) {
  if (canary) return canary;
  throw new WhetstoneError("FAILED_PRECONDITION", `"${name}" has no canary: \`whet servings canary ${name} SOURCE\``, {
    retry: "never",
  });
}

function present(version: ServedVersion | undefined): ServedVersion {
  if (version) return version;
  throw new WhetstoneError("INTERNAL", "a stored canary has no version");
}

function earlier({ name, versions }: Serving, to: bigint | undefined): ServedVersion {
  const found = to === undefined ? versions.at(-2) : versions.slice(0, -1).find(({ version }) => version === to);
  if (found) return found;
  const kept = versions.slice(0, -1).map(({ version }) => version);
  const message = `"${name}" has no earlier version${to === undefined ? "" : ` ${to}`}; kept: ${kept.join(", ") || "none"}`;
  throw new WhetstoneError("NOT_FOUND", message);
}

function setKey(serving: Serving, key: ServingKey): void {
  const keys = [...serving.keys.filter(({ name }) => name !== key.name), key];
  refuseKeys(keys);
  serving.keys = keys;
}

function removeKey(serving: Serving, name: string): void {
  const keys = serving.keys.filter((key) => key.name !== name);
  if (keys.length === serving.keys.length)
    throw new WhetstoneError("NOT_FOUND", `"${serving.name}" has no key "${name}"`);
  serving.keys = keys;
}

function refuseKeys(keys: readonly ServingKey[]): void {
  if (keys.length > MAX_KEYS) throw new ConfigError([{ path: "keys", reason: `must be at most ${MAX_KEYS}` }]);
  for (const field of ["name", "sha256"] as const)
    if (new Set(keys.map((key) => key[field])).size < keys.length)
      throw new ConfigError([{ path: "keys", reason: `must not have the same ${field} twice` }]);
}
