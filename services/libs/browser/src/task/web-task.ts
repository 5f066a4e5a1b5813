// SPDX-License-Identifier: Apache-2.0
import type { Judgement } from "@whetstone/sdk";
import type { Page } from "playwright-core";
import type { Site } from "../pool/site.ts";

export interface SetupOptions {
  /** Integer in [0, 2^53): the same seed gives the same task. */
  readonly seed: number;
  readonly signal: AbortSignal;
}

/** What there is to judge after an action. */
export interface WebState {
  /** The page that is looked at. */
  readonly page: Page;
  /** The one that `setup` was given. */
  readonly firstPage: Page;
  /** What the agent said to the user, the newest last. */
  readonly messages: readonly string[];
  /** Why the agent says that it cannot be done. */
  readonly infeasible: string | undefined;
  readonly seed: number;
  readonly signal: AbortSignal;
}

/** What is to be done on the web: where it begins, and when it is done. One instance is one episode's. */
export interface WebTask {
  /** CSS pixels. */
  readonly viewport: { readonly width: number; readonly height: number };
  /** Coordinates of actions are pixels of a picture so many times as large as the page. Default 1. */
  readonly scale?: number | undefined;
  /** Sites that this process answers. */
  readonly sites?: readonly Site[] | undefined;
  /** What pages may connect to, each "host:port". Default: nothing. */
  readonly reach?: readonly string[] | undefined;
  /** Opens the first page. @returns the goal. What it throws is the environment's failure. */
  setup(page: Page, options: SetupOptions): Promise<string>;
  /** After each action. What it throws is the environment's failure, or of the class that an EpisodeError names. */
  judge(state: WebState): Promise<Judgement>;
  /** At the episode's end, once its pages are closed. */
  close?(): void;
}
