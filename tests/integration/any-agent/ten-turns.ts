// SPDX-License-Identifier: Apache-2.0
// A real gateway before an engine that calls a tool ten times and then answers, and what its call tree must say afterwards.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CallTree } from "@whetstone/proto/inference/v1/inference";
import { FakeEngine } from "../../../services/inference-gateway/test/fake-engine.ts";
import { calls, type Gateway, serve, startGateway } from "../../../services/inference-gateway/test/harness.ts";
import { FIRST_MARK, idsOf, templatedModel, textOf } from "../../../services/inference-gateway/test/templated-model.ts";

const FAMILY = "qwen2.5";
export const TURNS = 10;
export const ANSWER = "Found it.";
export const QUESTION = "Where is the key?";

/** What a client is told; nothing else of it is set. */
export interface Endpoint {
  readonly baseUrl: string;
  readonly apiKey: string;
  readonly model: string;
}

export interface Room extends AsyncDisposable {
  readonly gateway: Gateway;
  readonly engine: FakeEngine;
  /** Plays one episode under a key of its own. `say`: default: ten calls and the answer. */
  readonly play: (agent: (endpoint: Endpoint) => Promise<string>, say?: Say) => Promise<Played>;
}

/** What the model says in each turn. @param prompt  as text. */
export type Say = (turn: number, prompt: () => string) => string;

export interface Played {
  readonly text: string;
  /** Of every call, the ids of its whole chain, as the gateway's tree has them. */
  readonly trained: number[][];
  /** The same from the engine's own log: what it was sent and what it sampled. */
  readonly sampled: number[][];
  /** Of every call, the one that it continues. */
  readonly parents: string[];
  readonly tree: CallTree;
}

export async function openRoom(): Promise<Room> {
  const folder = mkdtempSync(join(tmpdir(), "whetstone-any-agent-"));
  const engine = await FakeEngine.start();
  engine.maxModelLen = 1 << 20;
  engine.ends.add(FIRST_MARK);
  engine.label = "policy:1";
  const gateway = await startGateway();
  await serve(gateway, "e0", engine.url, templatedModel(folder, FAMILY), 1n, "policy");
  let episodes = 0;
  const play: Room["play"] = async (agent, say = sayAt) => {
    const log: number[][] = [];
    engine.script = ({ token_ids: prompt }) => {
      const ids = [
        ...idsOf(
          FAMILY,
          say(log.length, () => textOf(FAMILY, prompt)),
        ),
        FIRST_MARK,
      ];
      log.push([...prompt, ...ids]);
      return ids;
    };
    const apiKey = await gateway.openKey(`episode-${episodes++}`);
    const text = await agent({ baseUrl: `${gateway.httpUrl}/v1`, apiKey: apiKey.key, model: "policy" });
    const tree = await calls(gateway, apiKey.session);
    return { text, ...chainsOf(tree), sampled: log, tree };
  };
  return {
    gateway,
    engine,
    play,
    [Symbol.asyncDispose]: async () => {
      await gateway.close();
      await engine.kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function sayAt(turn: number): string {
  if (turn >= TURNS) return ANSWER;
  return `Looking, ${turn}.\n<tool_call>\n{"name":"look",  "arguments":{"place":"drawer <${turn}> é","n":${turn}}}\n</tool_call>`;
}

function chainsOf(tree: CallTree): Pick<Played, "trained" | "parents"> {
  const whole = new Map<string, number[]>();
  for (const { id, parentId, promptIds, completionIds } of tree.calls)
    whole.set(id, [...(whole.get(parentId) ?? []), ...promptIds, ...completionIds]);
  return { trained: [...whole.values()], parents: tree.calls.map(({ parentId }) => parentId) };
}

/** One chain of eleven calls. */
export const ONE_CHAIN = ["", ...Array.from({ length: TURNS }, (_, i) => `c${i}`)];

/** What the tool says; `seen` counts how often it was asked and with what. */
export function look(seen: unknown[], args: { place: string; n: number }): string {
  seen.push(args);
  return `nothing in ${args.place}`;
}

export const PARAMETERS = {
  type: "object",
  properties: { place: { type: "string" }, n: { type: "integer" } },
  required: ["place", "n"],
  additionalProperties: false,
} as const;
