// SPDX-License-Identifier: Apache-2.0
import { DatabaseSync } from "node:sqlite";
import { createRng, deriveSeed } from "@whetstone/core";
import type { SiteAnswer, SiteRequest } from "@whetstone/browser";
import fastify, { type FastifyInstance } from "fastify";
import type { Goal, SiteKind } from "./site.ts";

const FORM = "application/x-www-form-urlencoded";
const MAX_FORM_BYTES = 64 * 1024;
/** Seeds are tried one after the other until a goal fits the site. */
const TRIES = 50;

/** One site for one episode: a database in memory and a server without a port. */
export class OwnSite implements Disposable {
  readonly goal: Goal;
  readonly #kind: SiteKind;
  readonly #db: DatabaseSync;
  readonly #app: FastifyInstance;
  /** State that the goal wants. */
  readonly #wanted: string | undefined;

  /** @param goal  name of one of the kind's goals; undefined: drawn by the seed */
  constructor(kind: SiteKind, seed: number, goal?: string) {
    this.#kind = kind;
    this.#db = filled(kind, seed);
    this.goal = drawGoal(kind, this.#db, { seed, goal });
    this.#wanted = this.goal.change === undefined ? undefined : changed(kind, seed, this.goal.change);
    this.#app = fastify({ bodyLimit: MAX_FORM_BYTES });
    this.#app.addContentTypeParser(FORM, { parseAs: "string" }, (_, body, done) =>
      done(null, Object.fromEntries(new URLSearchParams(body as string))),
    );
    kind.routes(this.#app, this.#db);
  }

  async answer({ method, path, headers, body }: SiteRequest): Promise<SiteAnswer> {
    const request = { method: method as "GET", url: path, headers, ...(body === undefined ? {} : { payload: body }) };
    const { statusCode, headers: own, rawPayload } = await this.#app.inject(request);
    const named = Object.entries(own).filter(([name, value]) => value !== undefined && name !== "content-length");
    return {
      status: statusCode,
      headers: Object.fromEntries(named.map(([name, value]) => [name, String(value)])),
      body: rawPayload,
    };
  }

  /** Whether the site is in the state that the goal wants. True: it wants none. */
  get isAsWanted(): boolean {
    return this.#wanted === undefined || stateOf(this.#kind, this.#db) === this.#wanted;
  }

  [Symbol.dispose](): void {
    void this.#app.close();
    this.#db.close();
  }
}

function filled(kind: SiteKind, seed: number): DatabaseSync {
  const db = new DatabaseSync(":memory:");
  db.exec(kind.schema);
  kind.fill(db, createRng(deriveSeed(seed, kind.name)));
  return db;
}

function changed(kind: SiteKind, seed: number, change: (db: DatabaseSync) => void): string {
  const db = filled(kind, seed);
  try {
    change(db);
    return stateOf(kind, db);
  } finally {
    db.close();
  }
}

function stateOf({ state }: SiteKind, db: DatabaseSync): string {
  return JSON.stringify(state.map((table) => db.prepare(`SELECT * FROM ${table}`).all()));
}

function drawGoal(kind: SiteKind, db: DatabaseSync, wanted: { seed: number; goal: string | undefined }): Goal {
  const rng = createRng(deriveSeed(wanted.seed, kind.name, "goal"));
  const names = wanted.goal === undefined ? Object.keys(kind.goals) : [wanted.goal];
  for (let tries = 0; tries < TRIES; tries += 1) {
    const made = kind.goals[rng.choice(names)]?.(db, rng);
    if (made !== undefined) return made;
  }
  throw new Error(`the ${kind.name} of seed ${wanted.seed} holds nothing for ${names.join(", ")}`);
}
