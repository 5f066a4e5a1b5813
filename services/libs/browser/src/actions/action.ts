// SPDX-License-Identifier: Apache-2.0
import type { ActionSubset } from "@whetstone/sdk";
import type { Literal } from "./calls.ts";
import type { Tabs } from "../page/tabs.ts";

export const ACTION_SUBSETS = [
  "chat",
  "infeas",
  "bid",
  "coord",
  "nav",
  "tab",
] as const satisfies readonly ActionSubset[];
/** BrowserGym's default. */
export const DEFAULT_SUBSETS: readonly ActionSubset[] = ["chat", "infeas", "bid", "nav", "tab"];

/** What actions work on. */
export interface ActionScene {
  readonly tabs: Tabs;
  /** Coordinates of actions are pixels of a picture so many times as large as the page. */
  readonly scale: number;
  /** How long an action may look for its element, and wait for it to be usable. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** @throws ActionError for an address that the episode may not open */
  readonly checkAddress: (address: string) => void;
  readonly say: (text: string) => void;
  readonly giveUp: (reason: string) => void;
}

export type Arguments = Readonly<Record<string, Literal>>;

export interface Parameter {
  readonly name: string;
  /** As Python writes it: "str", "float", "list[str]". */
  readonly type: string;
  readonly schema: Readonly<Record<string, unknown>>;
  /** Absent: it has to be given. */
  readonly fallback?: Literal;
}

/** Something that an agent may do, of BrowserGym's action space (browsergym.core.action.functions). */
export interface ActionDefinition {
  readonly name: string;
  /** Undefined: always there. */
  readonly subset: ActionSubset | undefined;
  readonly description: string;
  readonly examples: readonly string[];
  readonly parameters: readonly Parameter[];
  /** @throws whatever the agent is to read */
  readonly perform: (args: Arguments, scene: ActionScene) => Promise<unknown>;
}

/** What an action got wrong; the agent reads it. */
export class ActionError extends Error {
  override readonly name: string;

  constructor(kind: "ValueError" | "NameError" | "TypeError" | "Error", message: string) {
    super(message);
    this.name = kind;
  }
}
