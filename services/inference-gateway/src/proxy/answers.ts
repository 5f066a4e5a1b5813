// SPDX-License-Identifier: Apache-2.0
/** What an engine's answers lack. Answers of another form pass as they are. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";

interface Ours {
  /** "": none. */
  readonly store: string;
  /** Of weights that were fetched; absent: none can be. */
  readonly counters: WeightCounters | undefined;
}

interface WeightCounters {
  readonly bytes: number;
  readonly seconds: number;
  readonly resumed: number;
}

/** Paths whose answers are amended. */
export const AMENDED: ReadonlySet<string> = new Set(["/v1/models", "/server_info", "/metrics"]);

export async function withOurs(path: string, text: string, { store, counters }: Ours): Promise<string> {
  if (path === "/v1/models") return await withModalities(text);
  if (path === "/server_info") return withStore(text, store);
  return counters ? text + metricsOf(counters) : text;
}

/** Which object store its weights are read from, as our own engine says it. */
function withStore(text: string, store: string): string {
  const info = parse(text);
  if (typeof info !== "object" || info === null) return text;
  return JSON.stringify({ ...info, whetstone: { object_store: store } });
}

/** By the names of our own engine. */
function metricsOf({ bytes, seconds, resumed }: WeightCounters): string {
  const counter = (name: string, help: string, value: number): string =>
    [`# HELP ${name} ${help}`, `# TYPE ${name} counter`, `${name} ${value}`, ""].join("\n");
  return [
    counter("whetstone_engine_weight_transfer_bytes_total", "Bytes of weights that were fetched.", bytes),
    counter("whetstone_engine_weight_transfer_seconds_total", "Seconds in which weights were fetched.", seconds),
    counter("whetstone_engine_weight_transfer_resumed_total", "Times that a transfer broke and went on.", resumed),
  ].join("");
}

interface Card {
  /** The folder that the engine was started with. */
  readonly root?: string;
  /** Where what stands before the engine has said it. */
  readonly modalities?: readonly string[];
}

/** What each model takes, in `modalities`: the config in its folder says so. */
async function withModalities(text: string): Promise<string> {
  const list = parse(text) as { readonly data?: readonly Card[] } | undefined;
  if (!Array.isArray(list?.data)) return text;
  const cards = list.data as readonly Card[];
  const data = await Promise.all(cards.map(async (card) => ({ ...card, modalities: await modalitiesOf(card) })));
  return JSON.stringify({ ...list, data });
}

async function modalitiesOf({ root = "", modalities }: Card): Promise<readonly string[]> {
  if (modalities) return modalities;
  const config = parse(await readFile(join(root, "config.json"), "utf8").catch(() => "{}"));
  const sees = typeof config === "object" && config !== null && "vision_config" in config;
  return sees ? ["text", "image"] : ["text"];
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
