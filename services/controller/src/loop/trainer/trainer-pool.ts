// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import type { TrainerService } from "@whetstone/proto/trainer/v1/trainer";
import type { RpcClient } from "@whetstone/rpc";

/** A trainer that does not say by then what it holds is one that holds nothing. */
const LOOK_MS = 3_000;

type Client = RpcClient<typeof TrainerService>;

interface Member {
  readonly client: Client;
  isLent: boolean;
  /** Uid of the job that had it last. */
  lastJob: string;
}

/** A trainer that belongs to one job until it is given back. */
export interface TrainerLoan extends Disposable {
  readonly client: Client;
}

/** The installation's trainers, each of which works for one job at a time. */
export class TrainerPool implements AsyncDisposable {
  readonly #members: readonly Member[];

  /** @param clients  at least one; closed with the pool */
  constructor(clients: readonly Client[]) {
    this.#members = clients.map((client) => ({ client, isLent: false, lastJob: "" }));
  }

  get size(): number {
    return this.#members.length;
  }

  get clients(): readonly Client[] {
    return this.#members.map(({ client }) => client);
  }

  /**
   * The trainer that has the job at hand already, so that nothing is loaded again and no other one writes to its run folder;
   * else one that answers.
   * @throws FAILED_PRECONDITION when all of them are lent
   */
  async borrow(jobUid: string, signal: AbortSignal): Promise<TrainerLoan> {
    const had = this.#members.find(({ isLent, lastJob }) => !isLent && lastJob === jobUid);
    const found = had ?? (await this.#find(jobUid, signal));
    if (!found) {
      const message = `all ${this.size} trainers work for other jobs`;
      throw new WhetstoneError("FAILED_PRECONDITION", message, { retry: "later" });
    }
    Object.assign(found, { isLent: true, lastJob: jobUid });
    return { client: found.client, [Symbol.dispose]: () => void (found.isLent = false) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#members.map(({ client }) => client[Symbol.asyncDispose]()));
  }

  async #find(jobUid: string, signal: AbortSignal): Promise<Member | undefined> {
    if (this.size === 1) return this.#members.find(({ isLent }) => !isLent);
    const asked = await Promise.all(
      this.#members.map(async (member) => ({ member, holds: await holdsOf(member.client, signal) })),
    );
    signal.throwIfAborted();
    const rank = (holds: string | undefined): number => (holds === jobUid ? 0 : holds === "" ? 1 : holds ? 2 : 3);
    const free = asked.filter(({ member }) => !member.isLent);
    return free.sort((a, b) => rank(a.holds) - rank(b.holds))[0]?.member;
  }
}

/** Uid of the job that a trainer has at hand, "" for none; undefined: it does not answer. */
async function holdsOf(client: Client, signal: AbortSignal): Promise<string | undefined> {
  return await client.status({}, { signal, deadlineMs: LOOK_MS }).then(
    ({ jobUid = "" }) => jobUid,
    () => undefined,
  );
}
