// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { type Awaitable, BaseEnv, type StepOptions } from "../base-env.ts";
import { defineEnvironment, type EnvironmentDefinition, type RegisteredEnvironment } from "../define.ts";
import type { Info } from "../types.ts";

/** What the agent and its pages have come to, as plain data. It is asked for after each action, once the page is quiet. */
export interface PageState {
  /** Of the tab that is looked at. */
  readonly url: string;
  readonly title: string;
  /** What can be read on the page, its first 100,000 characters. */
  readonly text: string;
  /** Those that are sent to `url`. */
  readonly cookies: Readonly<Record<string, string>>;
  readonly localStorage: Readonly<Record<string, string>>;
  /** What the task's `reads` gave, by name; null where one threw, or gave what is no JSON or more than 100,000 characters. */
  readonly values: Info;
  /** What the agent said to the user, the newest last. */
  readonly messages: readonly string[];
  /** Why the agent says that it cannot be done; the episode ends then. */
  readonly infeasible: string | undefined;
}

export interface Judgement {
  /** Of this step. */
  readonly reward: number;
  /** The episode has reached its end. */
  readonly done: boolean;
  readonly info?: Info | undefined;
}

export interface PageRequest {
  readonly method: string;
  /** With what is asked: "/search?q=tea". */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** As text; "": none. */
  readonly body: string;
}

export interface PageAnswer {
  /** Default 200. */
  readonly status?: number | undefined;
  /** Default: HTML in UTF-8. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body: string | Uint8Array;
}

/** An answer with its defaults. */
export interface ServedPage {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Uint8Array;
}

/** Groups of actions, with BrowserGym's names. */
export type ActionSubset = "chat" | "infeas" | "bid" | "coord" | "nav" | "tab";

/** How the pages are shown and acted on: arguments of the environment `browser`, with its defaults (docs/browser.md). */
export interface BrowserSettings {
  readonly viewport?: { readonly width: number; readonly height: number } | undefined;
  readonly actions?: "text" | "tools" | undefined;
  readonly actionSubsets?: ActionSubset[] | undefined;
  readonly severalActions?: boolean | undefined;
  readonly maxSteps?: number | undefined;
  readonly maxTreeCharacters?: number | undefined;
  readonly screenshot?: boolean | undefined;
  readonly marks?: boolean | undefined;
  readonly genericNodes?: boolean | undefined;
  readonly setupTimeoutMs?: number | undefined;
  readonly stepTimeoutMs?: number | undefined;
  readonly elementTimeoutMs?: number | undefined;
  readonly quietMs?: number | undefined;
  readonly maxQuietWaitMs?: number | undefined;
}

/** What is to be done on pages of a browser, and when it is done. One is one episode's. */
export interface BrowserTask {
  readonly goal: string;
  /** Where it begins. Without `serve`, the job's `module.sandbox.network` has to name its host and port. */
  readonly url: string;
  /** Answers what pages ask of the url's own origin: a site that the episode has to itself. A text is a page. */
  readonly serve?: ((request: PageRequest, options: StepOptions) => Awaitable<string | PageAnswer>) | undefined;
  /** JavaScript expressions that are evaluated on the page before each check, by name; each gives JSON. */
  readonly reads?: Readonly<Record<string, string>> | undefined;
  readonly settings?: BrowserSettings | undefined;
  /** Of one call of `check` or `serve`. Default 30,000. */
  readonly callTimeoutMs?: number | undefined;
  /** Asked after each action. What it throws is the environment's failure, and never a reward. */
  check(page: PageState, options: StepOptions): Awaitable<Judgement>;
  /** At the episode's end. */
  close?(): Awaitable<void>;
}

export interface BrowserTaskDefinition<Args = Info> extends Omit<EnvironmentDefinition<Args>, "create"> {
  readonly create: (args: Args, options: BeginOptions) => Awaitable<BrowserTask>;
}

export interface BeginOptions {
  /** The episode's. */
  readonly seed: number;
}

/** Pages of a browser as an environment of a job's own module: the browser is the env-runner's, the task runs where the module does. */
export function defineBrowserTask<Args = Info>(definition: BrowserTaskDefinition<Args>): RegisteredEnvironment {
  const { create } = definition;
  return defineEnvironment<Args>({
    ...definition,
    create: (args) => new BrowserTaskEnvironment((options) => create(args, options)),
  });
}

/** Is played by who has browsers: in this process alone it cannot be. */
export class BrowserTaskEnvironment extends BaseEnv {
  readonly begin: (options: BeginOptions) => Awaitable<BrowserTask>;

  constructor(begin: (options: BeginOptions) => Awaitable<BrowserTask>) {
    super();
    this.begin = begin;
  }

  reset(): never {
    throw new WhetstoneError("UNIMPLEMENTED", "a task of a browser is played by an env-runner, which has browsers");
  }

  step(): never {
    return this.reset();
  }
}
