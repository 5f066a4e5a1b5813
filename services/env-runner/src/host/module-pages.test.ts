// SPDX-License-Identifier: Apache-2.0
// Tasks of browsers that a job's own module defines, in a real Chromium: the module's process judges, the env-runner has the pages.
import { createHash, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { type JsonObject, toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { canHaveBrowsers } from "@whetstone/browser/test-support";
import { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openSession, step } from "../../test-support/session-client.ts";
import { type EnvRunnerApp, startApp } from "../app.ts";
import { ConfigSchema } from "../config.ts";

/** A list of stock that each episode has to itself, and a check that does what the arguments say. */
const CODE = Buffer.from(`
import { defineBrowserTask, EpisodeError } from "@whetstone/sdk";
export const stock = defineBrowserTask({ kind: "stock", create: ({ url, check, serve, settings, reads }, { seed }) => {
  const has = { tea: seed };
  return {
    // A module that hangs is found after moduleHangMs, before a call of it may take too long.
    goal: "Order seven teas.", callTimeoutMs: check === "hang" ? 5_000 : 60_000, url: url ?? "http://stock.test/", settings,
    reads: reads ?? { amount: "document.querySelector('#amount').textContent", broken: "nowhere.at.all" },
    ...(url ? {} : { serve: ({ method, path, body }) => {
      if (serve === "throw" && path !== "/") throw new Error("the shop burns");
      if (serve === "number") return 3;
      if (method === "POST") has.tea = Number(new URLSearchParams(body).get("n"));
      if (path === "/away") return { status: 302, headers: { location: "/" }, body: "" };
      if (path === "/data") return { headers: { "content-type": "application/json" }, body: '{"n":1}' };
      return "<title>Stock</title><p id=amount>" + has.tea + "</p><form method=post><input name=n aria-label=Teas><button>Order</button></form>" +
        "<a href=/away>Away</a><script>localStorage.who = 'me'; document.cookie = 'a=b'</script>";
    } }),
    check: (page) => {
      if (check === "throw") throw new Error("the checker is ill");
      if (check === "grader") throw new EpisodeError("GRADER", "no verdict");
      if (check === "hang") return new Promise(() => {});
      if (check === "loop") for (;;);
      if (check === "exit") process.exit(3);
      if (check === "nothing") return undefined;
      if (check === "nan") return { reward: NaN, done: true };
      if (check === "tell") return { reward: 0, done: false, info: { page } };
      if (check === "text") return { reward: page.text.includes("coins") ? 1 : 0, done: true };
      const done = page.messages.length > 0;
      return { reward: done && has.tea === 7 ? 1 : 0, done };
    },
  };
} });
`);
const DIGEST = createHash("sha256").update(CODE).digest("hex");

describe.runIf(canHaveBrowsers)("a task of a browser in a job's module", { timeout: 120_000 }, () => {
  let app: EnvRunnerApp;
  let client: RpcClient<typeof EnvironmentService>;
  let shop: Server;
  let address: string;
  beforeAll(async () => {
    app = await startApp(ConfigSchema.parse({ grpcPort: 0, moduleHangMs: 4_000 }), { logger: silentLogger });
    client = createClient(EnvironmentService, app.address);
    shop = createServer((_, response) => response.setHeader("content-type", "text/html").end("<p>3 coins</p>"));
    await once(shop.listen(0, "127.0.0.1"), "listening");
    address = `127.0.0.1:${(shop.address() as AddressInfo).port}`;
  });
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await app.close();
    shop.closeAllConnections();
    shop.close();
  });

  async function begin(args: JsonObject = {}, network: string[] = []) {
    const session = openSession(client, { deadlineMs: 100_000 });
    const module = { digest: DIGEST, code: CODE, sandbox: { network } };
    const read = (answer: Awaited<ReturnType<typeof session.ask>>) => {
      if (answer.case === "error") return { failed: String(answer.value.code), told: answer.value };
      if (answer.case !== "observation") throw new Error(`no observation: ${answer.case}`);
      const { reward, terminated, data, info } = answer.value;
      return { reward, terminated, info, seen: data === undefined ? {} : (toJson(ValueSchema, data) as JsonObject) };
    };
    const value = { kind: "stock", args, seed: 5n, episodeId: randomUUID(), module, job: "j" };
    const first = read(await session.ask({ kind: { case: "reset", value } }));
    return {
      first,
      act: async (action: string) => read(await session.ask(step(action))),
      close: async () => (await session.ask({ kind: { case: "close", value: {} } })).case,
    };
  }

  /** The bid of an element, as an agent reads it. */
  const bidOf = (seen: JsonObject | undefined, name: string): string =>
    new RegExp(`\\[(\\w+)\\] \\w+ '${name}'`, "u").exec(seen?.["axtree"] as string)?.[1] ?? "none";

  async function order(teas: string) {
    const { first, act, close } = await begin();
    await act(`fill('${bidOf(first.seen, "Teas")}', '${teas}')`);
    await act(`click('${bidOf(first.seen, "Order")}')`);
    const last = await act('send_msg_to_user("done")');
    expect(await close()).toBe("closed");
    return last;
  }

  it("is paid for what became of its own site, from its seed on, and not for anything else", async () => {
    const { first, close } = await begin();
    expect(first.seen).toMatchObject({ goal: "Order seven teas.", axtree: expect.stringContaining("'5'") as string });
    expect(await close()).toBe("closed");
    expect(await order("7")).toMatchObject({ reward: 1, terminated: true, info: { success: true } });
    expect(await order("8")).toMatchObject({ reward: 0, terminated: true, info: { success: false } });
    await expect.poll(() => app.openSessions).toBe(0);
  });

  it("is told of pages in plain data, in the names of the task's reads too", async () => {
    const { first, act, close } = await begin({ check: "tell" });
    await act(`click('${bidOf(first.seen, "Away")}')`);
    const { info } = await act('send_msg_to_user("hello")');
    expect(info?.["page"]).toEqual({
      ...{ url: "http://stock.test/", title: "Stock", text: expect.stringContaining("Away") as string },
      ...{ cookies: { a: "b" }, localStorage: { who: "me" }, values: { amount: "5", broken: null } },
      ...{ messages: ["hello"], infeasible: null },
    });
    await close();
  });

  it.each<[string, string, RegExp]>([
    ["throw", "ENVIRONMENT", /check\(\) failed: the checker is ill/u],
    ["grader", "GRADER", /no verdict/u],
    ["nothing", "ENVIRONMENT", /check\(\) returned undefined: it must be \{ reward, done \}/u],
    ["nan", "ENVIRONMENT", /check\(\) returned reward NaN/u],
    ["hang", "ENVIRONMENT", /check\(\) took longer than/u],
    ["loop", "CRASHED", /MODULE_HUNG/u],
    ["exit", "CRASHED", /MODULE_CRASHED/u],
  ])("whose check does what is called %s fails as %s, without a reward", async (check, failed, message) => {
    const { act } = await begin({ check });
    const ended = await act("noop()");
    expect(ended).toEqual({ failed, told: expect.objectContaining({ message: expect.stringMatching(message) }) });
  });

  it.each([
    ["throw", /serve\(\) failed: the shop burns/u],
    ["number", /serve\(\) returned/u],
  ])("whose site fails by %s fails, whatever the browser made of it", async (serve, message) => {
    const { first, act } = await begin({ serve });
    const told = first.told ?? (await act(`click('${bidOf(first.seen, "Away")}')`)).told;
    expect(told).toMatchObject({ code: "ENVIRONMENT", message: expect.stringMatching(message) });
  });

  it("reaches what its module may reach, and nothing else", async () => {
    const there = await begin({ url: `http://${address}/`, check: "text" }, [address]);
    expect(there.first.failed, there.first.told?.message).toBeUndefined();
    expect(await there.act("noop()")).toMatchObject({ reward: 1, terminated: true });
    await there.close();
    const { first } = await begin({ url: `http://${address}/`, check: "text" });
    expect(first.told).toMatchObject({ code: "TASK", field: "module.sandbox.network" });
  });

  it.each<[JsonObject, string, string, RegExp]>([
    [{ settings: { maxStep: 3 } }, "TASK", "settings.maxStep", /unknown setting/u],
    [{ settings: { maxSteps: 0 } }, "TASK", "settings.maxSteps", />=1/u],
    [{ url: "file:///etc/passwd" }, "ENVIRONMENT", "", /create\(\) returned a value that is wrong at url/u],
    [{ reads: { a: "" } }, "ENVIRONMENT", "", /wrong at reads\.a/u],
  ])("refuses %j", async (args, code, field, message) => {
    const { first } = await begin(args);
    expect(first.told).toMatchObject({ code, field, message: expect.stringMatching(message) });
  });
});
