// SPDX-License-Identifier: Apache-2.0
// The environment `browser` through a real env-runner, by hand: sites, refusals, and what is left when the env-runner is killed.
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { fromJson, type JsonObject, toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { canHaveBrowsers, miniwobFolder } from "@whetstone/browser/test-support";
import { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openSession, reset } from "../../services/env-runner/test-support/session-client.ts";
import {
  type EnvRunnerProcess,
  startEnvRunner,
} from "../../services/rollout-orchestrator/test-support/env-runner-process.ts";

const MEMORY = "1536";

describe.runIf(canHaveBrowsers)("the environment browser", { timeout: 120_000 }, () => {
  let runner: EnvRunnerProcess;
  let client: RpcClient<typeof EnvironmentService>;
  let shop: Server;
  let url: string;
  beforeAll(async () => {
    runner = await startEnvRunner({ env: { WHETSTONE_MINIWOB_PATH: miniwobFolder() } });
    client = createClient(EnvironmentService, runner.address);
    shop = createServer((request, response) => {
      const page = request.url === "/tea" ? "<h1>Tea</h1><p id=price>3 coins</p>" : `<a href="/tea">Tea</a>`;
      response.writeHead(request.url === "/broken" ? 503 : 200, { "content-type": "text/html" }).end(page);
    });
    await once(shop.listen(0, "127.0.0.1"), "listening");
    url = `http://127.0.0.1:${(shop.address() as AddressInfo).port}`;
  });
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await runner[Symbol.asyncDispose]();
    shop.closeAllConnections();
    shop.close();
  });

  function open(args: JsonObject, of: RpcClient<typeof EnvironmentService> = client) {
    const session = openSession(of, { deadlineMs: 100_000 });
    const read = (answer: Awaited<ReturnType<typeof session.ask>>) => {
      if (answer.case === "error")
        return { failed: String(answer.value.code), field: answer.value.field, message: answer.value.message };
      if (answer.case !== "observation") throw new Error(`no observation: ${answer.case}`);
      const { reward, terminated, data } = answer.value;
      return { reward, terminated, seen: data === undefined ? {} : (toJson(ValueSchema, data) as JsonObject) };
    };
    return {
      reset: async () => read(await session.ask(reset("browser", args))),
      act: async (action: string | JsonObject[]) => {
        const value = typeof action === "string" ? { action } : { data: fromJson(ValueSchema, action) };
        return read(await session.ask({ kind: { case: "step", value } }));
      },
      close: async () => (await session.ask({ kind: { case: "close", value: {} } })).case,
    };
  }

  it("a site by its address: what the agent says, where it is and what the page shows are judged together", async () => {
    const check = { answer: ["3"], url: "/tea$", texts: [{ selector: "#price", contains: "coins" }] };
    const args = { url, goal: "What does tea cost?", check };
    const episode = open(args);
    expect((await episode.reset()).seen).toMatchObject({
      goal: "What does tea cost?",
      axtree: expect.stringContaining("link 'Tea'") as string,
    });
    const { seen } = await episode.act("click('3')");
    expect(seen).toMatchObject({ url: `${url}/tea`, axtree: expect.stringContaining("3 coins") as string });
    expect(await episode.act('send_msg_to_user("It costs 3 coins.")')).toMatchObject({ reward: 1, terminated: true });
    expect(await episode.close()).toBe("closed");
    const wrong = open(args);
    await wrong.reset();
    expect(await wrong.act('send_msg_to_user("It costs 3 coins.")')).toMatchObject({ reward: 0, terminated: true });
    await wrong.close();
  });

  it("without an answer it is done as soon as all holds; who says that it cannot be done ends it", async () => {
    const episode = open({ url, goal: "Go to the tea.", check: { url: "/tea$" } });
    await episode.reset();
    expect(await episode.act(`goto("${url}/tea")`)).toMatchObject({ reward: 1, terminated: true });
    const gives = open({ url, goal: "Go to the tea.", check: { url: "/tea$" } });
    await gives.reset();
    expect(await gives.act('report_infeasible("no tea")')).toMatchObject({ reward: 0, terminated: true });
    await Promise.all([episode.close(), gives.close()]);
  });

  it("a site that is down is the environment's failure", async () => {
    for (const address of [`${url}/broken`, "http://127.0.0.1:1/"]) {
      const failed = await open({ url: address, goal: "g", check: { url: "a" } }).reset();
      expect([address, failed.failed, failed.reward]).toEqual([address, "ENVIRONMENT", undefined]);
    }
  });

  it.each<[JsonObject, string, RegExp]>([
    [{}, "miniwob", /give one of miniwob/u],
    [{ miniwob: "click-buton" }, "miniwob", /did you mean "click-button"/u],
    [{ miniwob: "click-button", goal: "g" }, "goal", /belongs to url/u],
    [{ miniwob: "click-button", url: "http://a" }, "miniwob", /give one of miniwob/u],
    [{ url: "http://a" }, "goal", /what is to be done/u],
    [{ url: "http://a", goal: "g" }, "check", /what has to hold/u],
    [{ url: "http://a", goal: "g", check: {} }, "check", /what has to hold/u],
    [{ url: "http://a", goal: "g", check: { url: "(" } }, "check.url", /regular expression/u],
    [{ url: "file:///etc/passwd", goal: "g", check: { url: "a" } }, "url", /url/iu],
    [{ url: "http://a", goal: "g", check: { url: "a" }, network: ["a"] }, "network[0]", /host:port/u],
    [{ miniwob: "click-button", actionSubsets: [] }, "actionSubsets", /1/u],
    [{ miniwob: "click-button", seed: -1 }, "seed", /0/u],
  ])("refuses %j at %s", async (args, path, message) => {
    const { failed, field, message: said } = await open(args).reset();
    expect([failed, field, said]).toEqual(["TASK", `args.${path}`, expect.stringMatching(message)]);
  });

  it("nothing is left of its browsers when the env-runner is killed", async () => {
    const env = { WHETSTONE_MINIWOB_PATH: miniwobFolder(), WHETSTONE_BROWSER_MEMORY_MIB: MEMORY };
    const own = await startEnvRunner({ env });
    await using to = createClient(EnvironmentService, own.address);
    expect((await open({ miniwob: "click-button" }, to).reset()).failed).toBeUndefined();
    const left = below(own.pid);
    expect(left.length).toBeGreaterThan(3);
    await own.kill();
    await waitFor(() => left.every((pid) => !isAlive(pid)), { what: "the browser to be gone", timeoutMs: 30_000 });
  });
});

/** All processes below one. */
function below(pid: number): number[] {
  return childrenOf(pid).flatMap((child) => [child, ...below(child)]);
}

function childrenOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, "latin1").split(" ").filter(Boolean).map(Number),
    );
  } catch {
    return []; // It ended meanwhile.
  }
}

/** One that has ended and was not yet collected is none. */
function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/mu.test(readFileSync(`/proc/${pid}/status`, "latin1"));
  } catch {
    return false;
  }
}
