// SPDX-License-Identifier: Apache-2.0
// Pages of MiniWoB++, by scripted policies through the real env-runner and its browsers.
import { createHash } from "node:crypto";
import { create, type JsonObject } from "@bufbuild/protobuf";
import { RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { createRegistry, type RegisteredActor } from "@whetstone/sdk";
import { canHaveBrowsers, miniwobFolder } from "@whetstone/browser/test-support";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type EnvRunnerProcess, startEnvRunner } from "../../test-support/env-runner-process.ts";
import { startFakeGateway } from "../../test-support/fake-gateway.ts";
import { builtInActors } from "../agents/built-in.ts";
import { RunnerClients } from "../environments/runner-clients.ts";
import { fixedRunner } from "../environments/runners.ts";
import { playTask } from "./play-task.ts";
import { ExternalModels } from "./external-models.ts";
import { Gateway } from "./gateway.ts";

/** Clicks the button that the goal names; the page says its id: `[13] button 'ONE'`. */
function clickNamed(seen: string): { bid: string; name: string } {
  const name = /Click button (\S+)\./u.exec(seen)?.[1] ?? "";
  return { name, bid: new RegExp(`\\[(\\d+)\\] button '${name}'`, "u").exec(seen)?.[1] ?? "" };
}

/** Clicks the group that the goal names, then the button that does it. */
function joinOrLeave(seen: string): string {
  const [, verb = "", group = ""] = /(Join|Leave) the group (\w+)\./u.exec(seen) ?? [];
  const [, bid] = new RegExp(`\\[(\\w+)\\] button '${verb} ${group}'`, "u").exec(seen) ?? [];
  return `click('${bid ?? new RegExp(`\\[(\\w+)\\] link '${group}'`, "u").exec(seen)?.[1]}')`;
}

describe.runIf(canHaveBrowsers)("an agent with a browser", { timeout: 120_000 }, () => {
  let runner: EnvRunnerProcess;
  /** Contents of messages that have parts, of all calls. */
  const parts: unknown[][] = [];
  beforeAll(async () => {
    runner = await startEnvRunner({ env: { WHETSTONE_MINIWOB_PATH: miniwobFolder() } });
  });
  afterAll(async () => {
    await runner[Symbol.asyncDispose]();
  });

  async function play(
    agent: string,
    args: JsonObject,
    answer: (seen: string) => string,
    { payload = { miniwob: "click-test-2" }, agentArgs = {} }: { payload?: JsonObject; agentArgs?: JsonObject } = {},
  ) {
    await using fake = await startFakeGateway(({ body: { messages } }) => {
      for (const { content } of messages as { content: unknown }[]) if (Array.isArray(content)) parts.push(content);
      return { text: answer(messages.map(({ content }) => content).join("\n")) };
    });
    await using gateway = new Gateway(fake.url, 4);
    await using environments = new RunnerClients();
    const task = create(RolloutTaskSchema, {
      episodeId: `job/g0/${agent}`,
      job: "job",
      task: { id: "t", payload },
      seed: 1n,
      agent: { kind: agent, args: agentArgs },
      environment: { kind: "browser", args },
      limits: { retryLimit: 0, maxPromptTokens: 60_000 },
    });
    const actors = createRegistry<RegisteredActor>("agent", builtInActors());
    const deps = { actors, environments, gateway, externals: new ExternalModels({}) };
    const delivery = { task, attempt: 1, waitingMs: 0, runners: fixedRunner(runner.address) };
    return await playTask(deps, delivery, new AbortController().signal);
  }

  it("reads what was wrong with its action, clicks the right button, and is paid", async () => {
    const { reward, failure, trajectories } = await play("web", {}, (seen) =>
      seen.includes("# Error of the last action\nValueError: Could not find element")
        ? `It is there.\n\`\`\`\nclick('${clickNamed(seen).bid}')\n\`\`\``
        : "click('999')",
    );
    expect([reward, failure?.message]).toEqual([1, ""]);
    expect(trajectories[0]?.steps).toHaveLength(2);
  });

  it("shows the model the picture that the record keeps, and only where it is asked to", async () => {
    const pictures = { screenshot: true, marks: true };
    const click = (seen: string) => `click('${clickNamed(seen).bid}')`;
    const unseen = await play("web", pictures, click);
    expect([unseen.images.length, parts]).toEqual([1, []]);
    const { reward, images, trajectories } = await play("web", pictures, () => "noop(1)", {
      agentArgs: { images: true },
    });
    const [kept] = images;
    expect(kept?.mediaType).toBe("image/png");
    expect(kept?.digest).toBe(
      createHash("sha256")
        .update(kept?.data ?? "")
        .digest("hex"),
    );
    expect(trajectories[0]?.steps.map(({ imageDigests }) => imageDigests.length)).toEqual([1, 1, 1, 1, 1]);
    expect(images).toHaveLength(1);
    expect(reward).toBe(0);
    const url = `data:image/png;base64,${Buffer.from(kept?.data ?? []).toString("base64")}`;
    expect(parts[0]).toMatchObject([{ type: "text" }, { type: "image_url", image_url: { url } }]);
  });

  it("does it by tool calls", async () => {
    const { reward, failure } = await play("tool", { actions: "tools" }, (seen) => {
      const { bid } = clickNamed(seen);
      return `<tool_call>${JSON.stringify({ name: "click", arguments: { bid } })}</tool_call>`;
    });
    expect([reward, failure?.message]).toEqual([1, ""]);
  });

  it("joins a group of a forum that is the episode's own, and is paid", async () => {
    const forum = { site: "forum", siteGoal: "membership", seed: 5 };
    const { reward, failure, trajectories } = await play("web", {}, joinOrLeave, { payload: forum });
    expect([reward, failure?.message, trajectories[0]?.steps.length]).toEqual([1, "", 2]);
  });

  it.each([
    [{ site: "forum", siteGoal: "nothing" }, 'siteGoal: the forum has no goal "nothing"'],
    [{ site: "forum", miniwob: "click-test" }, "miniwob: give one of miniwob"],
    [{ site: "shop", network: ["a:1"] }, "network: belongs to url"],
    [{ miniwob: "click-test", siteGoal: "order" }, "siteGoal: belongs to site"],
  ])("is refused with %j", async (payload, reason) => {
    const { failure } = await play("web", {}, () => "noop()", { payload });
    expect(failure?.message).toContain(reason);
  });

  it("is not paid for the wrong button, nor for none", async () => {
    const wrong = await play("web", {}, (seen) => {
      const { name } = clickNamed(seen);
      return `click('${new RegExp(`\\[(\\d+)\\] button '(?!${name})`, "u").exec(seen)?.[1]}')`;
    });
    expect([wrong.reward, wrong.failure?.message]).toEqual([0, ""]);
    const { reward, failure, trajectories } = await play("web", { maxSteps: 3 }, () => "noop(1)");
    expect([reward, failure?.message, trajectories[0]?.steps.length]).toEqual([0, "", 3]);
  });
});
