// SPDX-License-Identifier: Apache-2.0
/** `whet serve` and `whet servings …`. */
import { createHash, randomBytes } from "node:crypto";
import { basename, resolve } from "node:path";

import { create, type MessageInitShape, toJson } from "@bufbuild/protobuf";
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { isArtifact, isJobId, parseArtifact, sleep } from "@whetstone/core";
import {
  type ChangeServingRequestSchema,
  type ServedSource,
  ServedSourceSchema,
  type ServedVersion,
  type Serving,
  type ServingKeySchema,
  ServingSchema,
  ServingService,
  type ServingView,
  ServingViewSchema,
} from "@whetstone/proto/serving/v1/serving";
import type { RpcClient } from "@whetstone/rpc";

import { clientOf, SUBMIT_DEADLINE_MS } from "../connect/clients.ts";
import { controllerAddress } from "../connect/endpoint.ts";
import { badInput, CliError } from "../cli-error.ts";
import { formatTable } from "../terminal/format.ts";
import type { CommandContext, CommonOptions } from "./context.ts";
import { numberOf } from "./number-of.ts";

type Client = RpcClient<typeof ServingService>;
type Change = NonNullable<MessageInitShape<typeof ChangeServingRequestSchema>["change"]>;

interface LimitFlags extends CommonOptions {
  readonly requestsPerMinute?: string;
  readonly tokensPerMinute?: string;
  readonly maxRunning?: string;
}

interface ServeFlags extends LimitFlags {
  readonly name?: string;
  readonly weight?: string;
  readonly beside?: string;
  readonly keyName?: string;
  readonly timeout?: string;
}

/** Of a large model, an engine may take minutes to read the weights. */
const SERVED_S = 300;
const LOOK_MS = 500;

export async function serve(text: string, flags: ServeFlags, context: CommandContext): Promise<void> {
  const source = sourceOf(text, "<source>");
  const name = flags.name ?? nameOf(source);
  if (!isJobId(name))
    throw badInput([{ path: "--name", reason: `must be a DNS label of at most 52 characters, not "${name}"` }]);
  if (flags.beside !== undefined && flags.weight !== undefined)
    throw badInput([{ path: "--weight", reason: `has no meaning: the engines of "${flags.beside}" answer for it` }]);
  const weight = numberOf("--weight", flags.weight, 1, { least: 1, most: 1000, whole: true });
  const place = flags.beside === undefined ? { weight } : { beside: flags.beside };
  const timeoutS = numberOf("--timeout", flags.timeout, SERVED_S, { least: 0, most: 86_400 });
  const issued = issueKey(flags.keyName ?? "default", flags);
  await using client = connect(flags, context);
  const { created } = await client.createServing(
    { name, source, ...place, keys: [issued.stored] },
    { deadlineMs: SUBMIT_DEADLINE_MS },
  );
  const view = await whenServed(client, name, timeoutS * 1000, { ...context, isQuiet: flags.json === true });
  const { terminal } = context;
  const key = created ? issued.key : undefined;
  if (flags.json === true) return terminal.json({ ...json(view), ...(key !== undefined && { key }) });
  printServing(view, context);
  if (key === undefined)
    return terminal.line(`It was served already; \`whet servings key ${name} NAME\` issues another key.`);
  terminal.line(`key         ${key}    (not shown again)`);
  if (view.url !== "") terminal.line(`\n${tryIt(view.url, name, key)}`);
}

export async function listServings(flags: CommonOptions, context: CommandContext): Promise<void> {
  await using client = connect(flags, context);
  const { servings } = await client.listServings({});
  const { terminal } = context;
  if (flags.json === true) return terminal.json({ servings: servings.map(json) });
  if (servings.length === 0) return terminal.line("nothing is served; `whet serve JOB` serves what a job has trained");
  const rows = servings.map(({ serving, engines, canaryEngines, message }) => [
    serving?.name ?? "",
    versionText(serving?.versions.at(-1)),
    String(engines),
    serving?.canary ? `${serving.canary.percent} % ${versionText(serving.canary.version)}` : "–",
    String(canaryEngines),
    String(serving?.keys.length ?? 0),
    message,
  ]);
  const header = ["NAME", "SERVES", "ENGINES", "CANARY", "ENGINES", "KEYS", "MESSAGE"];
  for (const line of formatTable(header, rows)) terminal.line(line);
}

export async function getServing(name: string, flags: CommonOptions, context: CommandContext): Promise<void> {
  await using client = connect(flags, context);
  const view = present((await client.getServing({ name })).serving);
  if (flags.json === true) return context.terminal.json(json(view));
  printServing(view, context);
}

export async function setWeights(
  name: string,
  source: string,
  flags: CommonOptions,
  context: CommandContext,
): Promise<void> {
  await change(name, { case: "setWeights", value: { source: sourceOf(source, "<source>") } }, flags, context);
}

export async function setCanary(
  name: string,
  source: string | undefined,
  flags: CommonOptions & { readonly percent?: string; readonly end?: boolean },
  context: CommandContext,
): Promise<void> {
  if (flags.end === true && (source !== undefined || flags.percent !== undefined))
    throw badInput([{ path: "--end", reason: "goes with neither a source nor --percent" }]);
  if (flags.end === true) return await change(name, { case: "endCanary", value: {} }, flags, context);
  const percent = numberOf("--percent", flags.percent, 10, { least: 1, most: 99, whole: true });
  if (source === undefined && flags.percent === undefined)
    throw badInput([{ path: "<source>", reason: "is required, or --percent for the canary that is there, or --end" }]);
  const wanted: Change =
    source === undefined
      ? { case: "setCanaryShare", value: { percent } }
      : { case: "setCanary", value: { source: sourceOf(source, "<source>"), percent } };
  await change(name, wanted, flags, context);
}

export async function promote(name: string, flags: CommonOptions, context: CommandContext): Promise<void> {
  await change(name, { case: "promote", value: {} }, flags, context);
}

export async function rollback(
  name: string,
  flags: CommonOptions & { readonly to?: string },
  context: CommandContext,
): Promise<void> {
  const most = Number.MAX_SAFE_INTEGER;
  const to = flags.to === undefined ? undefined : numberOf("--to", flags.to, 1, { least: 1, most, whole: true });
  await change(name, { case: "rollback", value: to === undefined ? {} : { toVersion: BigInt(to) } }, flags, context);
}

export async function changeKey(
  name: string,
  keyName: string,
  flags: LimitFlags & { readonly revoke?: boolean },
  context: CommandContext,
): Promise<void> {
  if (flags.revoke === true) return await change(name, { case: "removeKey", value: { name: keyName } }, flags, context);
  const { key, stored } = issueKey(keyName, flags);
  await using client = connect(flags, context);
  const { serving } = await client.changeServing({ name, change: { case: "setKey", value: stored } });
  const { terminal } = context;
  if (flags.json === true) return terminal.json({ serving: serving && toJson(ServingSchema, serving), key });
  terminal.line(`key         ${key}    (not shown again)`);
}

export async function stop(name: string, flags: CommonOptions, context: CommandContext): Promise<void> {
  await using client = connect(flags, context);
  await client.deleteServing({ name });
  if (flags.json === true) context.terminal.json({ name, stopped: true });
  else context.terminal.line(`${name} is served no more`);
}

async function change(name: string, wanted: Change, flags: CommonOptions, context: CommandContext): Promise<void> {
  await using client = connect(flags, context);
  await client.changeServing({ name, change: wanted }, { deadlineMs: SUBMIT_DEADLINE_MS });
  const view = present((await client.getServing({ name })).serving);
  if (flags.json === true) context.terminal.json(json(view));
  else printServing(view, context);
}

/** An interrupt only ends the waiting: the key that was issued has to be shown. */
async function whenServed(
  client: Client,
  name: string,
  timeoutMs: number,
  { terminal, signal, isQuiet }: CommandContext & { readonly isQuiet: boolean },
): Promise<ServingView> {
  const until = performance.now() + timeoutMs;
  const live = isQuiet ? undefined : terminal.live();
  for (;;) {
    const view = present((await client.getServing({ name })).serving);
    if (view.engines > 0 || signal.aborted || performance.now() >= until) {
      live?.draw([]);
      live?.done();
      return view;
    }
    live?.draw([`${name}: ${view.message}`]);
    await sleep(LOOK_MS, signal).catch(() => undefined);
  }
}

/** The controller keeps its digest only. */
function issueKey(name: string, flags: LimitFlags): { key: string; stored: MessageInitShape<typeof ServingKeySchema> } {
  if (!isJobId(name))
    throw badInput([{ path: "<key-name>", reason: `must be a DNS label of at most 52 characters, not "${name}"` }]);
  const key = `wsk-${randomBytes(24).toString("base64url")}`;
  const sha256 = createHash("sha256").update(key).digest("hex");
  const limit = (path: string, text: string | undefined, most: number): number | undefined =>
    text === undefined ? undefined : numberOf(path, text, 1, { least: 1, most, whole: true });
  const requestsPerMinute = limit("--requests-per-minute", flags.requestsPerMinute, 1_000_000);
  const tokensPerMinute = limit("--tokens-per-minute", flags.tokensPerMinute, 1_000_000_000);
  const maxRunning = limit("--max-running", flags.maxRunning, 65_536);
  const limits = {
    ...(requestsPerMinute !== undefined && { requestsPerMinute }),
    ...(tokensPerMinute !== undefined && { tokensPerMinute }),
    ...(maxRunning !== undefined && { maxRunning }),
  };
  return { key, stored: { name, sha256, ...limits } };
}

/** "job", "job:12", a path (with a "/"), or an artifact. */
function sourceOf(text: string, path: string): ServedSource {
  const isPath = text.includes("/") || text === ".";
  if (isPath)
    return create(ServedSourceSchema, { kind: { case: "path", value: isArtifact(text) ? text : resolve(text) } });
  const [name = "", version, ...rest] = text.split(":");
  if (!isJobId(name) || rest.length > 0 || (version !== undefined && !/^\d{1,15}$/.test(version)))
    throw badInput([
      { path, reason: `must be JOB, JOB:VERSION, a folder (with a "/") or artifact://models/NAME, not "${text}"` },
    ]);
  const value = version === undefined ? { name } : { name, policyVersion: BigInt(version) };
  return create(ServedSourceSchema, { kind: { case: "job", value } });
}

function nameOf({ kind }: ServedSource): string {
  if (kind.case === "job") return kind.value.name;
  const path = kind.value ?? "";
  return isArtifact(path) ? parseArtifact(path).name : basename(path);
}

function printServing({ serving, engines, canaryEngines, message, url }: ServingView, context: CommandContext): void {
  const { terminal } = context;
  if (!serving) return;
  const { name, versions, canary, keys, beside } = serving;
  const place = beside === "" ? "" : `, an adapter beside ${beside}`;
  terminal.line(`${name}: ${versionText(versions.at(-1))}${place}, ${enginesText(engines)}`);
  if (canary)
    terminal.line(`canary      ${canary.percent} % ${versionText(canary.version)}, ${enginesText(canaryEngines)}`);
  if (message !== "") terminal.line(message);
  if (url !== "") terminal.line(`base URL    ${url}/v1`);
  for (const version of versions.slice(0, -1).toReversed()) terminal.line(`before      ${versionText(version)}`);
  for (const key of keys) terminal.line(`key of      ${key.name}${limitsText(key)}`);
}

function enginesText(count: number): string {
  return `${count} engine${count === 1 ? "" : "s"}`;
}

function limitsText({ requestsPerMinute, tokensPerMinute, maxRunning }: Serving["keys"][number]): string {
  const limits = [
    requestsPerMinute === undefined ? [] : `${requestsPerMinute} requests a minute`,
    tokensPerMinute === undefined ? [] : `${tokensPerMinute} tokens a minute`,
    maxRunning === undefined ? [] : `${maxRunning} at a time`,
  ].flat();
  return limits.length === 0 ? "" : `: ${limits.join(", ")}`;
}

function versionText(version: ServedVersion | undefined): string {
  if (!version) return "–";
  const from = sourceText(version.source);
  const since = version.since ? ` since ${timestampDate(version.since).toISOString().slice(0, 19)}Z` : "";
  return `v${version.version} (${from})${since}`;
}

function sourceText(source: ServedSource | undefined): string {
  if (source?.kind.case !== "job") return source?.kind.value ?? "";
  const { name, policyVersion = "" } = source.kind.value;
  return `${name}:${policyVersion}`;
}

function tryIt(url: string, name: string, key: string): string {
  const body = JSON.stringify({ model: name, messages: [{ role: "user", content: "hello" }] });
  return `curl ${url}/v1/chat/completions -H 'authorization: Bearer ${key}' -d '${body}'`;
}

function json(view: ServingView) {
  return toJson(ServingViewSchema, view) as Record<string, unknown>;
}

function present(view: ServingView | undefined): ServingView {
  if (view) return view;
  throw new CliError("CONTRACT_VIOLATION", "the controller answered without the serving");
}

export function connect(flags: CommonOptions, { environment }: CommandContext): Client {
  const address = controllerAddress(flags.data, environment);
  return clientOf(ServingService, { role: "controller", address }, environment);
}
