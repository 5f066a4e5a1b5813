// SPDX-License-Identifier: Apache-2.0
import { TrainerService } from "@whetstone/proto/trainer/v1/trainer";
import { createClient, implement, startServer } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { afterEach, beforeEach, expect, it } from "vitest";
import { TrainerPool } from "./trainer-pool.ts";

let stack: AsyncDisposableStack;
const forever = new AbortController().signal;
beforeEach(() => void (stack = new AsyncDisposableStack()));
afterEach(() => stack.disposeAsync());

/** A pool of trainers with these jobs at hand; undefined: one that is away. */
async function poolOf(...holds: (string | undefined)[]): Promise<{ pool: TrainerPool; addresses: string[] }> {
  const addresses: string[] = [];
  for (const jobUid of holds) {
    if (jobUid === undefined) {
      addresses.push("127.0.0.1:1");
      continue;
    }
    const service = implement(TrainerService, { status: () => Promise.resolve({ ...(jobUid && { jobUid }) }) });
    const server = stack.use(
      await startServer({ host: "127.0.0.1", port: 0, logger: silentLogger, services: [service] }),
    );
    addresses.push(server.address);
  }
  const pool = stack.use(new TrainerPool(addresses.map((address) => createClient(TrainerService, address))));
  return { pool, addresses };
}

const indexOf = (pool: TrainerPool, client: unknown): number => pool.clients.indexOf(client as never);

it("gives a job the trainer that has it at hand, else one that has none, and a silent one last", async () => {
  const { pool } = await poolOf(undefined, "other", "", "mine");
  expect(indexOf(pool, (await pool.borrow("mine", forever)).client)).toBe(3);
  expect(indexOf(pool, (await pool.borrow("new", forever)).client)).toBe(2);
  expect(indexOf(pool, (await pool.borrow("newer", forever)).client)).toBe(1);
  expect(indexOf(pool, (await pool.borrow("newest", forever)).client)).toBe(0);
});

it("gives a job that is started again the trainer that it had", async () => {
  const { pool } = await poolOf("", "");
  const first = await pool.borrow("a", forever);
  const second = await pool.borrow("b", forever);
  first[Symbol.dispose]();
  second[Symbol.dispose]();
  expect((await pool.borrow("b", forever)).client).toBe(second.client);
});

it("refuses when all are lent", async () => {
  const { pool } = await poolOf("");
  const loan = await pool.borrow("a", forever);
  await expect(pool.borrow("b", forever)).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
  loan[Symbol.dispose]();
  await pool.borrow("b", forever);
});
