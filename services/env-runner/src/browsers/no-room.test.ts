// SPDX-License-Identifier: Apache-2.0
// An env-runner whose pages are all in use, in a real Chromium: who comes then is refused as where there is no slot, and nothing is left.
import { createHash } from "node:crypto";
import { canHaveBrowsers } from "@whetstone/browser/test-support";
import { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CLOSE, openSession, type Request, reset, step } from "../../test-support/session-client.ts";
import { type EnvRunnerApp, startApp } from "../app.ts";
import { ConfigSchema } from "../config.ts";

const CODE = Buffer.from(`
import { defineBrowserTask } from "@whetstone/sdk";
export const blank = defineBrowserTask({ kind: "blank", create: () => ({
  goal: "Do nothing.", url: "http://blank.test/", serve: () => "<p>blank</p>", check: () => ({ reward: 1, done: true }),
}) });
`);
const MODULE = { digest: createHash("sha256").update(CODE).digest("hex"), code: CODE };

const OF_OURS = reset("browser", { site: "shop" });
const OF_A_MODULE: Request = {
  kind: { case: "reset", value: { kind: "blank", args: {}, seed: 1n, episodeId: "m", module: MODULE, job: "j" } },
};

describe.runIf(canHaveBrowsers)("an env-runner with one page", { timeout: 120_000 }, () => {
  let app: EnvRunnerApp;
  let client: RpcClient<typeof EnvironmentService>;
  beforeAll(async () => {
    app = await startApp(ConfigSchema.parse({ grpcPort: 0, browsers: 1, browserContexts: 1 }), {
      logger: silentLogger,
    });
    client = createClient(EnvironmentService, app.address);
  });
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await app.close();
  });

  it.each([
    ["a built-in task", OF_OURS],
    ["a task of a job's module", OF_A_MODULE],
  ])("refuses %s while it is in use, and takes it afterwards", async (_name, request) => {
    const first = openSession(client);
    expect(await first.ask(OF_OURS)).toMatchObject({ case: "observation" });
    const refused = {
      code: "RESOURCE_EXHAUSTED",
      retry: "later",
      message: expect.stringContaining("1 pages") as string,
    };
    await expect(openSession(client).ask(request)).rejects.toMatchObject(refused);
    await expect.poll(() => app.openSessions).toBe(1);
    expect(await first.ask(step("noop(1)"))).toMatchObject({ case: "observation" });
    expect(await first.ask(CLOSE)).toMatchObject({ case: "closed" });
    const next = openSession(client);
    expect(await next.ask(request)).toMatchObject({ case: "observation" });
    expect(await next.ask(CLOSE)).toMatchObject({ case: "closed" });
    await expect.poll(() => app.openSessions).toBe(0);
  });
});
