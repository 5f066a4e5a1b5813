// SPDX-License-Identifier: Apache-2.0
// What every server of EnvironmentService must do, over the wire, whatever language it is written in. It serves the
// environment "odd": argument `size`, a whole number, and `log`, a file to which its closing appends "closed\n"; its first
// observation is {"board": [1, size]}; the action "throw" fails with "odd", "end" ends the episode with a grade that fails,
// "hang" never ends, every other one is answered with itself, a reward of 0.5 and {"heard": true}.
import { randomUUID } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import { createClient, type RpcClient } from "@whetstone/rpc";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { CANCEL, CLOSE, openSession, type OpenSession, reset, step } from "./session-client.ts";

export interface Served {
  readonly address: string;
  /** As SIGTERM does. */
  close(): Promise<void>;
}
export type Serve = (settings: { readonly slots?: number; readonly drainMs?: number }) => Promise<Served>;

const seconds = (count: number) => ({ seconds: BigInt(count), nanos: 0 });

type Client = RpcClient<typeof EnvironmentService>;
type OpenOptions = Parameters<typeof openSession>[1];

/** @param log  to which its closing is to be written */
async function openedAt(client: Client, log: string, options?: OpenOptions): Promise<OpenSession> {
  const session = openSession(client, options);
  expect(await session.ask(reset("odd", { log }))).toMatchObject({ case: "observation" });
  return session;
}

export function conforms(name: string, serve: Serve): void {
  const start = async (settings: Parameters<Serve>[0] = {}) => {
    const served = await serve(settings);
    const client = createClient(EnvironmentService, served.address);
    const stop = async (): Promise<void> => {
      await client[Symbol.asyncDispose]();
      await served.close();
    };
    return { served, client, [Symbol.asyncDispose]: stop };
  };

  describe(`${name} serves the contract`, () => {
    let shared: Awaited<ReturnType<typeof start>>;
    let client: Client;
    let folder: string;
    let log: string;

    const open = (options?: OpenOptions): OpenSession => openSession(client, options);
    const opened = (options?: OpenOptions): Promise<OpenSession> => openedAt(client, log, options);
    const used = async (): Promise<number> => (await client.describe({})).slotsUsed;
    const closings = (): number => readFileSync(log, { encoding: "utf8", flag: "a+" }).split("\n").length - 1;

    beforeAll(async () => {
      folder = mkdtempSync(join(tmpdir(), "whetstone-odd-"));
      shared = await start();
      ({ client } = shared);
    });
    // An environment may write its log after the session's last answer: the folder goes once the server has ended.
    afterAll(async () => {
      await shared[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true });
    });
    beforeEach(() => {
      log = join(folder, randomUUID());
    });

    it("answers reset and step with what the environment said", async () => {
      const session = open();
      expect((await session.ask(reset("odd", { size: 7 }))).value).toMatchObject({
        text: "",
        data: { kind: { case: "structValue" } },
      });
      expect((await session.ask(step("Up"))).value).toMatchObject({
        ...{ text: "Up", reward: 0.5, terminated: false, truncated: false },
        info: { heard: true },
      });
      await session.end();
    });

    it("answers close with closed, and ends", async () => {
      const session = await opened();
      expect((await session.ask(CLOSE)).case).toBe("closed");
      expect((await session.read()).case).toBeUndefined();
      expect(closings()).toBe(1);
    });

    it("takes a reset and a close that come together", async () => {
      const session = open();
      session.send(reset("odd"));
      session.send(CLOSE);
      expect([(await session.read()).case, (await session.read()).case]).toEqual(["observation", "closed"]);
    });

    it.each(["end of the requests", "cancelled call", "deadline"])("closes the environment by %s", async (how) => {
      const cancel = new AbortController();
      const session = await opened({ signal: cancel.signal, ...(how === "deadline" ? { deadlineMs: 1_000 } : {}) });
      if (how === "end of the requests") await session.end();
      if (how === "cancelled call") cancel.abort();
      await expect.poll(async () => [closings(), await used()]).toEqual([1, 0]);
    });

    it("stops a running step when asked, with CANCELLED", async () => {
      const session = await opened();
      session.send(step("hang"));
      expect(await session.ask(CANCEL)).toMatchObject({ case: "error", value: { code: "CANCELLED" } });
      await expect.poll(used).toBe(0);
    });

    it("stops a running step when the call is cancelled", async () => {
      const cancel = new AbortController();
      const session = await opened({ signal: cancel.signal });
      session.send(step("hang"));
      cancel.abort();
      await expect.poll(used).toBe(0);
    });

    it("tells its slots, and refuses one more than there are", async () => {
      await using own = await start({ slots: 1 });
      const first = await openedAt(own.client, log);
      expect(await own.client.describe({})).toMatchObject({ slots: 1, slotsUsed: 1, draining: false });
      const refused = openedAt(own.client, log);
      await expect(refused).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED", retry: "later" });
      await first.end();
      await expect.poll(async () => (await own.client.describe({})).slotsUsed).toBe(0);
      await openedAt(own.client, log);
    });

    it.each([
      ["an unknown kind", "nothing", {}, "kind", /known: .*odd/],
      ["an unknown argument", "odd", { sise: 4 }, "args.sise", /unknown setting/],
      ["a wrong argument", "odd", { size: "x" }, "args.size", /size|number/],
    ])("says TASK of %s, with its path", async (...[, kind, args, field, message]) => {
      const answer = await open().ask(reset(kind, args));
      expect(answer).toMatchObject({ case: "error", value: { code: "TASK", field } });
      expect((answer.value as { message: string }).message).toMatch(message);
    });

    it("says ENVIRONMENT of a step that throws, and closes the environment", async () => {
      const session = await opened();
      const answer = await session.ask(step("throw"));
      expect(answer).toMatchObject({
        value: { code: "ENVIRONMENT", message: expect.stringContaining("odd") as string },
      });
      expect((await session.read()).case).toBeUndefined();
      expect(closings()).toBe(1);
    });

    it("says GRADER of a grade that throws, and closes the environment", async () => {
      expect(await (await opened()).ask(step("end"))).toMatchObject({ value: { code: "GRADER" } });
      await expect.poll(closings).toBe(1);
    });

    it.each([
      ["a step before the reset", [step("Up")]],
      ["a second reset", [reset("odd"), reset("odd")]],
    ])("fails the call of %s", async (_name, requests) => {
      const session = open();
      const answers = async (): Promise<void> => {
        for (const request of requests) await session.ask(request);
      };
      await expect(answers()).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
    });

    it("describes its kinds and their arguments", async () => {
      const { kinds } = await client.describe({});
      const { argsSchemaJson = "" } = kinds.find(({ kind }) => kind === "odd") ?? {};
      expect(JSON.parse(argsSchemaJson)).toMatchObject({ properties: { size: { type: "integer" } } });
    });

    describe("and drains", () => {
      afterEach(() => client.drain({ undo: true }));

      it("without new sessions, while open ones finish, until that is undone", async () => {
        const before = await used();
        const session = await opened();
        expect((await client.drain({ deadline: seconds(60) })).slotsUsed).toBe(before + 1);
        expect(await open().ask(reset("odd"))).toMatchObject({ value: { code: "DRAINING" } });
        expect((await session.ask(step("Up"))).case).toBe("observation");
        expect(await client.describe({})).toMatchObject({ draining: true });
        await session.end();
        await expect.poll(used).toBe(before);
        await client.drain({ undo: true });
        await (await opened()).end();
      });

      it("handing back at the deadline, unasked, and never later than first said", async () => {
        const session = await opened();
        await client.drain({ deadline: { seconds: 0n, nanos: 100e6 } });
        await client.drain({ deadline: seconds(60) });
        expect(await session.read()).toMatchObject({ value: { code: "DRAINING" } });
        await expect.poll(used).toBe(0);
      });

      it("handing back at once, also what is at work, when it has to end without time for it", async () => {
        await using own = await start();
        const [session, busy] = [await openedAt(own.client, log), await openedAt(own.client, log)];
        busy.send(step("hang"));
        const closed = own.served.close();
        for (const each of [session, busy]) expect(await each.read()).toMatchObject({ value: { code: "DRAINING" } });
        await closed;
      });

      it("waiting for its sessions when it has to end, whatever it is told then", async () => {
        await using own = await start({ drainMs: 60_000 });
        const session = await openedAt(own.client, log);
        const closed = own.served.close();
        await expect.poll(async () => (await own.client.describe({})).draining).toBe(true);
        await own.client.drain({ undo: true });
        expect(await openSession(own.client).ask(reset("odd"))).toMatchObject({ value: { code: "DRAINING" } });
        expect((await session.ask(step("Up"))).case).toBe("observation");
        await session.end();
        await closed;
      });
    });
  });
}
