// SPDX-License-Identifier: Apache-2.0
import { ConfigError } from "@whetstone/core";
import type { TypedKv } from "@whetstone/messaging";
import type { Job, JobSchema } from "@whetstone/proto/jobs/v1/jobs";

export interface JobPage {
  readonly jobs: Job[];
  /** Empty: there are no more. */
  readonly nextPageToken: string;
}

/** Where a job stands in the list: newest first, by name where two are of one time. */
interface Place {
  readonly name: string;
  readonly revision: number;
  /** Nanoseconds since 1970. */
  readonly createdAt: bigint;
}

const TOKEN = /^(\d{1,20})\/(.+)$/;

/**
 * The list of jobs, page by page. One look at the bucket, without values, tells which records have changed since the last one;
 * only those, to know when they were created, and those of the page are read.
 */
export class JobPages {
  readonly #kv: Pick<TypedKv<typeof JobSchema>, "get" | "revisions">;
  readonly #places = new Map<string, Place>();

  constructor(kv: Pick<TypedKv<typeof JobSchema>, "get" | "revisions">) {
    this.#kv = kv;
  }

  /** @throws ConfigError when the token is none of ours */
  async page(size: number, token: string): Promise<JobPage> {
    const after = placeOf(token);
    const fresh = await this.#learn();
    const order = [...this.#places.values()].sort(byPlace);
    const from = after ? order.findIndex((place) => byPlace(place, after) > 0) : 0;
    const rest = from < 0 ? [] : order.slice(from);
    const wanted = rest.slice(0, size);
    const found = await Promise.all(wanted.map(async ({ name }) => fresh.get(name) ?? (await this.#read(name))));
    const last = wanted.at(-1);
    return {
      jobs: found.filter((job) => job !== undefined),
      nextPageToken: last && rest.length > size ? `${last.createdAt}/${last.name}` : "",
    };
  }

  /** @returns the jobs that it had to read */
  async #learn(): Promise<Map<string, Job>> {
    const revisions = await this.#kv.revisions();
    for (const name of this.#places.keys()) if (!revisions.has(name)) this.#places.delete(name);
    const changed = [...revisions].filter(([name, revision]) => this.#places.get(name)?.revision !== revision);
    const jobs = await Promise.all(changed.map(async ([name]) => [name, await this.#read(name)] as const));
    return new Map(jobs.filter((job): job is [string, Job] => job[1] !== undefined));
  }

  async #read(name: string): Promise<Job | undefined> {
    const record = await this.#kv.get(name);
    if (!record) {
      this.#places.delete(name);
      return undefined;
    }
    const { seconds = 0n, nanos = 0 } = record.value.createdAt ?? {};
    const createdAt = seconds * 1_000_000_000n + BigInt(nanos);
    this.#places.set(name, { name, revision: record.revision, createdAt });
    return record.value;
  }
}

type Order = Pick<Place, "name" | "createdAt">;

function byPlace(a: Order, b: Order): number {
  if (a.createdAt !== b.createdAt) return a.createdAt > b.createdAt ? -1 : 1;
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
}

function placeOf(token: string): Order | undefined {
  if (token === "") return undefined;
  const [, createdAt, name] = TOKEN.exec(token) ?? [];
  if (createdAt === undefined || name === undefined)
    throw new ConfigError([{ path: "pageToken", reason: "must be the nextPageToken of a former answer" }]);
  return { createdAt: BigInt(createdAt), name };
}
