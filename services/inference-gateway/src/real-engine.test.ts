// SPDX-License-Identifier: Apache-2.0
// The gateway with the PyTorch engine: the same wire, real sampling, a real weight switch.
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  calls,
  chat,
  chatStream,
  eventually,
  initModel,
  python,
  serve,
  startGateway,
  tempFolder,
  user,
} from "../test/harness.ts";
import type { Gateway, Message, TempFolder } from "../test/harness.ts";
import { startRealEngine } from "../test/real-engine.ts";
import type { RealEngine } from "../test/real-engine.ts";

let folder: TempFolder;
let model: string;
let other: string;
let engine: RealEngine;
let gateway: Gateway;

beforeAll(async () => {
  folder = tempFolder();
  model = initModel(folder);
  other = join(folder.path, "other");
  python(["-m", "whetstone_models", "init", other, "--seed", "1"]);
  engine = await startRealEngine(model, "job:1");
  gateway = await startGateway({ healthIntervalMs: 1000 });
  await serve(gateway, "e0", engine.url, model);
}, 120_000);

afterAll(async () => {
  await gateway.close();
  await engine[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

interface Generated {
  choices: { token_ids: number[]; logprobs: { content: { logprob: number }[] } }[];
}

describe("with the PyTorch engine", () => {
  it("samples over two turns what the engine gives for the recorded ids", async () => {
    let messages: Message[] = [user("FFHF")];
    for (let turn = 0; turn < 2; turn++) {
      const { status, body } = await chat(gateway, "greedy", messages, { temperature: 0, max_tokens: 5 });
      expect(status).toBe(200);
      messages = [...messages, body.choices[0]!.message, user("more")];
    }
    const [first, second] = (await calls(gateway, "greedy")).calls;
    expect(second?.parentId).toBe("c0");
    const token_ids = [...first!.promptIds, ...first!.completionIds, ...second!.promptIds];
    const sampling_params = { temperature: 0, max_tokens: 5, logprobs: 0 };
    const direct = (await engine.control("/inference/v1/generate", { token_ids, sampling_params })) as Generated;
    expect(second?.completionIds).toEqual(direct.choices[0]?.token_ids);
    const logprobs = direct.choices[0]!.logprobs.content.map(({ logprob }) => logprob);
    for (const [i, logprob] of (second?.logprobs ?? []).entries()) expect(logprob).toBeCloseTo(logprobs[i]!, 5);
  });

  it("reports the engine's own load", async () => {
    const report = await (await fetch(`${gateway.httpUrl}/load`)).json();
    expect(report).toMatchObject({
      serving: 1,
      running: 0,
      waiting: 0,
      kv_use: 0,
      engines: [{ id: "e0", running: 0 }],
    });
  });

  it("streams the same answer", async () => {
    const options = { temperature: 1, seed: 11, max_tokens: 12 };
    const whole = await chat(gateway, "w", [user("x")], options);
    const chunks = await chatStream(gateway, "s", [user("x")], options);
    const text = chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta.content ?? "")).join("");
    expect(text).toBe(whole.body.choices[0]?.message.content);
    const [a, b] = await Promise.all(["w", "s"].map((session) => calls(gateway, session)));
    expect(b?.calls[0]?.completionIds).toEqual(a?.calls[0]?.completionIds);
  });

  it("records what truncated sampling drew each token from", async () => {
    const options = { temperature: 1, top_p: 0.8, seed: 3, max_tokens: 12 };
    await chat(gateway, "truncated", [user("x")], options);
    const [call] = (await calls(gateway, "truncated")).calls;
    expect(call?.supportCounts).toHaveLength(call?.completionIds.length ?? -1);
    let start = 0;
    for (const [i, count] of (call?.supportCounts ?? []).entries()) {
      expect(call?.supportIds.slice(start, start + count)).toContain(call?.completionIds[i]);
      start += count;
    }
    expect(call?.supportIds).toHaveLength(start);
  });

  it("carries running calls over a weight switch: two labels, contiguous, nothing lost", async () => {
    const sessions = Array.from({ length: 4 }, (_, i) => `switch-${i}`);
    const answers = sessions.map((session, i) => chat(gateway, session, [user("go")], { seed: i, max_tokens: 600 }));
    await eventually(async () =>
      /vllm:num_requests_running\S* [1-4]/.test(await (await fetch(`${engine.url}/metrics`)).text()),
    );
    await gateway.fleet.fenceEngine({ id: "e0" });
    await engine.control("/pause?mode=abort&clear_cache=true");
    await gateway.fleet.drainEngine({ id: "e0" });
    await engine.control("/collective_rpc", { method: "reload_weights", kwargs: { weights_path: other } });
    await engine.control("/update_weight_version", { new_version: "job:2" });
    await engine.control("/resume");
    await serve(gateway, "e0", engine.url, other, 2n);
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    const trees = await Promise.all(sessions.map((session) => calls(gateway, session)));
    const crossing = trees.flatMap((tree) => tree.calls).filter((call) => call.versionSpans.length === 2);
    expect(crossing.length).toBeGreaterThan(0);
    for (const { versionSpans, completionIds, logprobs } of crossing) {
      expect(versionSpans.map(({ policyVersion }) => policyVersion)).toEqual([1n, 2n]);
      expect([versionSpans[0]?.start, versionSpans[1]?.start, versionSpans[1]?.end]).toEqual([
        0,
        versionSpans[0]?.end,
        completionIds.length,
      ]);
      expect(logprobs).toHaveLength(completionIds.length);
      expect(logprobs.every((logprob) => logprob <= 0 && logprob > -100)).toBe(true);
    }
    expect((await gateway.fleet.listEngines({})).engines[0]?.reason).toBe("");
  });
});
