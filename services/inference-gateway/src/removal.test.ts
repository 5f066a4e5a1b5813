// SPDX-License-Identifier: Apache-2.0
// Engines that come and go while calls run: what happens to the calls.
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { FakeEngine } from "../test/fake-engine.ts";
import { calls, chat, eventually, serve, startGateway, TINY, user } from "../test/harness.ts";
import type { Gateway } from "../test/harness.ts";

let engines: FakeEngine[];
let gateway: Gateway;

beforeEach(async () => {
  engines = [await FakeEngine.start(), await FakeEngine.start()];
  gateway = await startGateway();
});
afterEach(async () => {
  await gateway.close();
  await Promise.all(engines.map((engine) => engine.kill()));
});

const engine = (index: number): FakeEngine => engines[index]!;
const ids = async (): Promise<string[]> => (await gateway.fleet.listEngines({})).engines.map(({ id }) => id);

describe("an engine that is removed", () => {
  it("gets no new calls, ends what it has, and is forgotten", async () => {
    await serve(gateway, "e0", engine(0).url, TINY);
    Object.assign(engine(0), { hold: true, holdAfter: 1 });
    const running = chat(gateway, "a", [user("x")]);
    await eventually(() => engine(0).running === 1);
    await serve(gateway, "e1", engine(1).url, TINY);
    const removal = gateway.fleet.removeEngine({ id: "e0", drain: durationFromMs(10_000) });
    await eventually(async () => (await ids()).length === 1);
    await chat(gateway, "b", [user("y")]);
    expect(engine(0).requests).toHaveLength(1);
    engine(0).hold = false;
    engine(0).release();
    expect((await running).status).toBe(200);
    expect((await removal).revoked).toBe(0);
    expect((await calls(gateway, "a")).calls[0]).toMatchObject({ resubmissions: 0 });
    expect(await ids()).toEqual(["e1"]);
  });

  it("loses calls that outlast the drain to another engine, where they go on", async () => {
    await serve(gateway, "e0", engine(0).url, TINY);
    engine(0).faults = [{ kind: "hang" }];
    const running = chat(gateway, "a", [user("x")]);
    await eventually(() => engine(0).running === 1);
    await serve(gateway, "e1", engine(1).url, TINY);
    expect((await gateway.fleet.removeEngine({ id: "e0", drain: durationFromMs(50) })).revoked).toBe(1);
    expect((await running).status).toBe(200);
    expect((await calls(gateway, "a")).calls[0]).toMatchObject({ resubmissions: 1 });
    expect(engine(1).requests).toHaveLength(1);
  });

  it("may be the last one: its calls wait for the next", async () => {
    await serve(gateway, "e0", engine(0).url, TINY);
    engine(0).faults = [{ kind: "hang" }];
    const running = chat(gateway, "a", [user("x")]);
    await eventually(() => engine(0).running === 1);
    await gateway.fleet.removeEngine({ id: "e0" });
    const later = chat(gateway, "b", [user("y")]);
    await eventually(async () => (await gateway.fleet.listEngines({})).waitingCalls["job"] === 2);
    await serve(gateway, "e0", engine(1).url, TINY);
    expect([(await running).status, (await later).status]).toEqual([200, 200]);
    expect(engine(1).requests).toHaveLength(2);
  });

  it("is removed once: again is no error, and it cannot be unfenced", async () => {
    await serve(gateway, "e0", engine(0).url, TINY);
    await gateway.fleet.removeEngine({ id: "e0" });
    await expect(gateway.fleet.removeEngine({ id: "e0" })).resolves.toMatchObject({ revoked: 0 });
    await expect(gateway.fleet.fenceEngine({ id: "e0" })).rejects.toMatchObject({ code: "NOT_FOUND" });
  });
});

describe("registration", () => {
  it("under a new address takes the calls from the old one", async () => {
    await serve(gateway, "e0", engine(0).url, TINY);
    engine(0).faults = [{ kind: "hang" }];
    const running = chat(gateway, "a", [user("x")]);
    await eventually(() => engine(0).running === 1);
    await serve(gateway, "e0", engine(1).url, TINY);
    expect((await running).status).toBe(200);
    expect(engine(1).requests).toHaveLength(1);
  });

  it("names the control URL to whoever lists, and calls only the data URL", async () => {
    const [data, control] = [engine(0).url, engine(1).url];
    await gateway.fleet.registerEngine({ id: "e0", url: data, controlUrl: control });
    expect((await gateway.fleet.listEngines({})).engines[0]).toMatchObject({ url: data, controlUrl: control });
    await expect(gateway.fleet.registerEngine({ id: "e1", url: data, controlUrl: "x" })).rejects.toThrow("controlUrl");
  });

  it("is waited for by a gateway that knows no engine yet", async () => {
    const { status, body } = await chat(gateway, "a", [user("x")]);
    expect([status, body.error?.code]).toEqual([503, "policy_not_ready"]);
  });
});
