// SPDX-License-Identifier: Apache-2.0
import { readFile } from "node:fs/promises";
import { join } from "node:path";

interface Card {
  /** The folder that the engine was started with. */
  readonly root?: string;
}

/**
 * What vLLM answers to GET /v1/models, with what each model takes in `modalities`, which vLLM does not say: its folder's config
 * does. An answer of another form passes as it is.
 */
export async function withModalities(text: string): Promise<string> {
  const list = parse(text) as { readonly data?: readonly Card[] } | undefined;
  if (!Array.isArray(list?.data)) return text;
  const cards = list.data as readonly Card[];
  const data = await Promise.all(cards.map(async (card) => ({ ...card, modalities: await modalitiesOf(card) })));
  return JSON.stringify({ ...list, data });
}

async function modalitiesOf({ root = "" }: Card): Promise<readonly string[]> {
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
