// SPDX-License-Identifier: Apache-2.0
import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  EnvironmentService,
  type SessionRequestSchema,
  type SessionResponse,
} from "@whetstone/proto/environments/v1/environments";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { waitFor } from "@whetstone/testkit";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type EnvRunnerApp, startApp } from "./app.ts";
import { ConfigSchema } from "./config.ts";

type Request = MessageInitShape<typeof SessionRequestSchema>;
const RESET: Request = { kind: { case: "reset", value: { kind: "frozenlake", args: { size: 4, maxSteps: 9 } } } };
const STEP: Request = { kind: { case: "step", value: { action: "Left" } } };

let app: EnvRunnerApp;
let client: RpcClient<typeof EnvironmentService>;

async function start(drainMs = 0): Promise<void> {
  const config = ConfigSchema.parse({ grpcPort: 0, drainMs });
  app = await startApp(config, { logger: silentLogger });
  client = createClient(EnvironmentService, app.address);
}

beforeEach(() => start());
afterEach(async () => {
  await client[Symbol.asyncDispose]();
  await app.close();
});

function openSession() {
  const { readable, writable } = new TransformStream<Request, Request>({}, { highWaterMark: 16 });
  const writer = writable.getWriter();
  const answers = client.session(readable)[Symbol.asyncIterator]();
  const read = async (): Promise<string> => {
    const { kind } = ((await answers.next()) as { value: SessionResponse }).value;
    return kind.case === "error" ? kind.value.code : String(kind.case);
  };
  return {
    ask: (request: Request) => {
      void writer.write(request);
      return read();
    },
    end: () => writer.close(),
    read,
  };
}

const seconds = (count: number) => ({ seconds: BigInt(count), nanos: 0 });

describe("a runner that drains", () => {
  it("refuses new sessions and lets open ones finish", async () => {
    const open = openSession();
    expect(await open.ask(RESET)).toBe("observation");
    expect((await client.drain({ deadline: seconds(60) })).slotsUsed).toBe(1);
    expect(await openSession().ask(RESET)).toBe("DRAINING");
    expect(await open.ask(STEP)).toBe("observation");
    expect(await client.describe({})).toMatchObject({ slotsUsed: 1, draining: true });
    await open.end();
    await waitFor(() => app.openSessions === 0);
  });

  it("takes sessions again after an undo", async () => {
    await client.drain({ deadline: seconds(60) });
    await client.drain({ undo: true });
    expect(await openSession().ask(RESET)).toBe("observation");
  });

  it("hands back at the deadline, unasked, and never later than first said", async () => {
    const open = openSession();
    await open.ask(RESET);
    await client.drain({ deadline: { seconds: 0n, nanos: 100e6 } });
    await client.drain({ deadline: seconds(60) });
    expect(await open.read()).toBe("DRAINING");
    await waitFor(() => app.openSessions === 0);
  });

  it("hands back at once when it has to end without time for it", async () => {
    const open = openSession();
    await open.ask(RESET);
    const closed = app.close();
    expect(await open.read()).toBe("DRAINING");
    await closed;
  });

  it("waits for its sessions when it has to end, and cannot be talked out of it", async () => {
    await app.close();
    await start(60_000);
    const open = openSession();
    await open.ask(RESET);
    const closed = app.close();
    await client.drain({ undo: true });
    expect(await openSession().ask(RESET)).toBe("DRAINING");
    expect(await open.ask(STEP)).toBe("observation");
    await open.end();
    await closed;
  });
});
