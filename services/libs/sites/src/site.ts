// SPDX-License-Identifier: Apache-2.0
import type { DatabaseSync } from "node:sqlite";
import type { Rng } from "@whetstone/core";
import type { FastifyInstance } from "fastify";

/** One of those who use a site by its pages: what is clicked and filled in, by role and name, or said to the user. */
export type Move =
  | { readonly click: readonly [role: string, name: string] }
  | { readonly fill: readonly [name: string, text: string] }
  | { readonly choose: readonly [name: string, option: string] }
  | { readonly say: string };

/** What is asked of an episode, in WebArena's kinds (arXiv 2307.13854): an answer, an address, a state of the site. */
export interface Goal {
  readonly text: string;
  /** What the agent's message has to contain, as whole words; upper and lower case are the same. */
  readonly answer?: string;
  /** Path of the page that has to be looked at. */
  readonly path?: string;
  /** What has to become of the site, and nothing else: a change of its database. */
  readonly change?: (db: DatabaseSync) => void;
  /** One way to do it, which proves that it can be done. */
  readonly moves: readonly Move[];
}

/** Draws a goal that fits what the site holds. Undefined: it holds nothing that fits. */
export type GoalMaker = (db: DatabaseSync, rng: Rng) => Goal | undefined;

/** Rules of a site: the same seed makes the same site. */
export interface SiteKind {
  readonly name: string;
  readonly schema: string;
  fill(db: DatabaseSync, rng: Rng): void;
  routes(app: FastifyInstance, db: DatabaseSync): void;
  /** Tables that are the site's state, each with the order of its rows. */
  readonly state: readonly string[];
  readonly goals: Readonly<Record<string, GoalMaker>>;
}
