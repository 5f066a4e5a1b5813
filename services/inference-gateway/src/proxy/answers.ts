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
export const AMENDED: ReadonlySet<string> = new Set(["/v1/models", "/metrics"]);

export async function withOurs(path: string, text: string, { store, counters }: Ours): Promise<string> {
  if (path === "/v1/models") return await withTraits(text, store);
  return counters ? text + metricsOf(counters) : text;
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
  readonly names_support?: readonly string[];
  readonly object_store?: string;
}

/**
 * With each model what not every engine can: what it takes, as the config in its folder says; which object store weights are
 * read from; and under which parameters of truncated sampling the tokens are named that each one was drawn from. vLLM says
 * nothing of these, and does not name such tokens in streams.
 */
async function withTraits(text: string, store: string): Promise<string> {
  const list = parse(text) as { readonly data?: readonly Card[] } | undefined;
  if (!Array.isArray(list?.data)) return text;
  const told = async (card: Card): Promise<Card> => ({
    names_support: [],
    ...card,
    modalities: await modalitiesOf(card),
    object_store: store,
  });
  return JSON.stringify({ ...list, data: await Promise.all((list.data as readonly Card[]).map(told)) });
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
