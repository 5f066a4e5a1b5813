// SPDX-License-Identifier: Apache-2.0
// A hundred sessions at once over two gateways and three PyTorch engines while versions are switched, with one of each killed on
// the way: every token that a session keeps is one that an engine sampled, once, under the label that this engine told (I4, I5).
// WHETSTONE_GATEWAY_SWITCHES sets how many versions there are; the ordinary run is a short one.
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { PolicyRecordSchema } from "@whetstone/proto/events/v1/events";
import { FleetService } from "@whetstone/proto/inference/v1/inference";
import type { ModelCall } from "@whetstone/proto/types/v1/types";
import { createClient } from "@whetstone/rpc";
import type { ChatMessage } from "@whetstone/sdk";
import { silentLogger } from "@whetstone/telemetry";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { EngineFleet } from "../../services/controller/src/fleet/engine-fleet.ts";
import { everyGateway, type Gateways } from "../../services/controller/src/fleet/gateways/every-gateway.ts";
import { GatewayReplicas } from "../../services/controller/src/fleet/gateways/gateway-replicas.ts";
import { Gateway } from "../../services/rollout-orchestrator/src/play/gateway.ts";
import { GatewayRotation } from "../../services/rollout-orchestrator/src/play/gateway-rotation.ts";
import { GatewaySession } from "../../services/rollout-orchestrator/src/play/gateway-session.ts";
import {
  type Attempt,
  type GatewayProcess,
  type LoggedEngine,
  startGatewayProcess,
  startLoggedEngine,
} from "../support/gateway-fleet.ts";
import { tinyModel } from "../support/tiny-model.ts";

const SWITCHES = Number(process.env["WHETSTONE_GATEWAY_SWITCHES"] ?? 2);
const SESSIONS = SWITCHES < 10 ? 30 : 100;
const KILL_ENGINE_AT = Math.ceil(SWITCHES * 0.3);
const KILL_GATEWAY_AT = Math.floor(SWITCHES * 0.6) + 1;
const TURNS = 3;
const MOST_TRIES = 3;

const folder = mkdtempSync(join(tmpdir(), "whetstone-gateways-"));
const stack = new AsyncDisposableStack();
const attempts: Attempt[] = [];
let engines: LoggedEngine[];
let gateways: GatewayProcess[];
let rotation: GatewayRotation;
let fleetClient: Gateways;
let fleet: EngineFleet;
/** Living engines that take no calls now, by id; and the most there were of them at once. */
const dead = new Set<string>();
const fenced = new Set<string>();
let mostFenced = 0;

const modelOf = (version: number): string => join(folder, `v${version}`);

beforeAll(async () => {
  tinyModel(modelOf(0));
  for (let version = 1; version <= SWITCHES; version += 1) cpSync(modelOf(0), modelOf(version), { recursive: true });
  const log = (attempt: Attempt): void => void attempts.push(attempt);
  [gateways, engines] = await Promise.all([
    Promise.all([0, 1].map(() => startGatewayProcess())),
    Promise.all([0, 1, 2].map(() => startLoggedEngine(modelOf(0), log))),
  ]);
  for (const each of [...gateways, ...engines]) stack.use(each);
  const open = gateways.map(({ url }) => stack.use(new Gateway(url, SESSIONS)));
  rotation = new GatewayRotation(() => open);
  const looks = setInterval(() => void rotation.look(), 500);
  stack.defer(() => clearInterval(looks));
  const connect = (address: string) => createClient(FleetService, address);
  const addresses = gateways.map(({ address }) => address);
  fleetClient = stack.use(everyGateway(new GatewayReplicas({ addresses, connect }), silentLogger));
  for (const [index, { url, controlUrl }] of engines.entries())
    await fleetClient.registerEngine({ id: `e${index}`, url, controlUrl });
  fleet = new EngineFleet({ client: watched(fleetClient), logger: silentLogger, onQuarantine: () => undefined });
}, 400_000);

afterAll(async () => {
  await fleet?.release("job");
  await stack.disposeAsync();
  rmSync(folder, { recursive: true });
}, 60_000);

function watched(client: Gateways): Gateways {
  return {
    ...client,
    fenceEngine: (request, options) => {
      if (!dead.has(request.id ?? "")) mostFenced = Math.max(mostFenced, fenced.add(request.id ?? "").size);
      return client.fenceEngine(request, options);
    },
    unfenceEngine: async (request, options) => {
      const answer = await client.unfenceEngine(request, options);
      fenced.delete(request.id ?? "");
      return answer;
    },
  };
}

function killEngine(index: number): void {
  engines[index]?.kill();
  dead.add(`e${index}`);
  fenced.delete(`e${index}`);
}

function serve(version: number): Promise<number> {
  const policy = { job: "job", policyVersion: BigInt(version), path: modelOf(version) };
  return fleet.serve(create(PolicyRecordSchema, policy), AbortSignal.timeout(120_000));
}

interface Played {
  readonly tries: number;
  readonly calls: readonly ModelCall[];
}

/** As an episode is played: a try that loses its gateway does not count, the next one begins anew. */
async function play(name: string): Promise<Played> {
  for (let tries = 1; ; tries += 1) {
    const session = new GatewaySession(rotation, `${name}.${tries}`, {
      model: "job",
      terms: { sampling: {}, client_sampling: "context" },
    });
    try {
      await converse(session, `${name}.${tries}`);
      await session.finish([], AbortSignal.timeout(60_000));
      return { tries, calls: session.calls ?? [] };
    } catch (error) {
      session.discard();
      if (tries === MOST_TRIES) throw error;
    }
  }
}

async function converse(session: GatewaySession, name: string): Promise<void> {
  const messages: ChatMessage[] = [];
  for (let turn = 0; turn < TURNS; turn += 1) {
    messages.push({ role: "user", content: `session ${name}, turn ${turn}` });
    const { text } = await session.chat(messages, {
      ...{ sampling: { temperature: 1 }, maxTokens: 16, seed: turn, role: "agent" },
      ...{ signal: AbortSignal.timeout(120_000), remainingMs: 120_000 },
    });
    messages.push({ role: "assistant", content: text });
  }
}

/** Plays sessions one after the other until told to stop. */
async function slot(index: number, isOver: () => boolean): Promise<Played[]> {
  const played: Played[] = [];
  for (let count = 0; !isOver(); count += 1) played.push(await play(`${index}.${count}`));
  return played;
}

interface Sampled {
  readonly ids: readonly number[];
  readonly labels: readonly string[];
}

/** Answers as the engines have them, by prompt: a call that was interrupted goes on from what it kept. */
function sampledByPrompt(): Map<string, Sampled[]> {
  const calls = Map.groupBy(attempts, ({ requestId }) => /^.*?-[0-9a-f]{8}-\d+/.exec(requestId)?.[0] ?? requestId);
  const answers = calls.values().map((of): [string, Sampled] => {
    const { promptIds: prompt } = of[0] as Attempt;
    let [ids, labels]: [number[], string[]] = [[], []];
    for (const attempt of of) {
      const kept = attempt.promptIds.length - prompt.length;
      expect(attempt.promptIds).toEqual([...prompt, ...ids.slice(0, kept)]);
      ids = [...ids.slice(0, kept), ...attempt.ids];
      labels = [...labels.slice(0, kept), ...attempt.labels];
    }
    return [prompt.join(" "), { ids, labels }];
  });
  const byPrompt = new Map<string, Sampled[]>();
  for (const [prompt, sampled] of answers) byPrompt.set(prompt, [...(byPrompt.get(prompt) ?? []), sampled]);
  return byPrompt;
}

function wholePrompt(call: ModelCall, byId: ReadonlyMap<string, ModelCall>): number[] {
  const parent = byId.get(call.parentId);
  const before = parent === undefined ? [] : [...wholePrompt(parent, byId), ...parent.completionIds];
  return [...before, ...call.promptIds];
}

function labelsOf({ completionIds, versionSpans }: ModelCall): string[] {
  return completionIds.map((_, index) => {
    const spans = versionSpans.filter(({ start, end }) => start <= index && index < end);
    return spans.map(({ policyVersion }) => `job:${policyVersion}`).join("+");
  });
}

it("attributes every token once, and never stops sampling", async () => {
  expect(await serve(0)).toBe(3);
  let isOver = false;
  const slots = Array.from({ length: SESSIONS }, (_, index) => slot(index, () => isOver));
  const all = Promise.all(slots);
  all.catch(() => undefined);
  const sampledDuring: number[] = [];
  for (let version = 1; version <= SWITCHES; version += 1) {
    const before = attempts.length;
    await waitFor(() => attempts.length > before + SESSIONS / 2, { timeoutMs: 60_000, what: "calls before a switch" });
    const [from, switched] = [attempts.length, serve(version)];
    if (version === KILL_ENGINE_AT) killEngine(2);
    if (version === KILL_GATEWAY_AT) await gateways[1]?.kill();
    expect(await switched).toBeGreaterThanOrEqual(2);
    sampledDuring.push(attempts.length - from);
    if (version === KILL_GATEWAY_AT) await gateways[1]?.restart();
  }
  isOver = true;
  const played = (await all).flat();
  const told = sampledByPrompt();
  const seen = new Set<string>();
  const versions = new Set<string>();
  for (const { calls } of played) {
    expect(calls).toHaveLength(TURNS);
    const byId = new Map(calls.map((call) => [call.id, call]));
    for (const call of calls) {
      const prompt = wholePrompt(call, byId).join(" ");
      expect(seen.has(prompt)).toBe(false);
      seen.add(prompt);
      const labels = labelsOf(call);
      for (const label of labels) versions.add(label);
      expect(told.get(prompt), prompt).toEqual([{ ids: call.completionIds, labels }]);
    }
  }
  const tries = played.map((each) => each.tries);
  const again = tries.filter((each) => each > 1).length;
  console.log(
    JSON.stringify({
      ...{ sessions: played.length, calls: seen.size, again, attempts: attempts.length, mostFenced },
      sampledDuring,
    }),
  );
  expect(versions.size).toBeGreaterThanOrEqual(SWITCHES);
  // A killed gateway costs a session one try more.
  expect(Math.max(...tries)).toBeLessThanOrEqual(2);
  expect(again).toBeLessThanOrEqual(SESSIONS);
  expect(mostFenced).toBe(1);
  expect(Math.min(...sampledDuring)).toBeGreaterThan(0);
}, 560_000);
