// SPDX-License-Identifier: Apache-2.0
/** An engine as the gateway knows it, and what it serves. */
import type { Caller } from "./fair-queue.ts";

export type EngineState = "serving" | "fenced" | "quarantined";

/** What an engine serves, as the controller verified it. */
export interface ServedModel {
  readonly policy: string;
  readonly version: bigint;
  /** "<policy>:<version>": what the engine itself must report for every token (I5). */
  readonly label: string;
  readonly modelPath: string;
  /** Where the gateway reads tokenizer and chat template; "" or absent: in `modelPath`. */
  readonly tokenizerPath?: string;
  /** By an adapter that the engine has loaded under the label, beside its weights. */
  readonly isAdapter?: boolean;
}

/** What an engine takes, as it said last. */
export interface Intake {
  /** Longest prompt and completion together, tokens; 0: it has not said. */
  readonly maxModelLen: number;
  /** Pictures in prompts. */
  readonly images: boolean;
}

export interface EngineEntry {
  readonly id: string;
  readonly url: string;
  /** Where it is steered; "": at `url`. The gateway only passes it on. */
  controlUrl: string;
  state: EngineState;
  served?: ServedModel | undefined;
  /** By policy, what it answers for beside `served`. */
  adapters: ReadonlyMap<string, ServedModel>;
  /** Why it is quarantined; "": it is not. */
  reason: string;
  /** Longest prompt and completion together, tokens; 0: it has not said. */
  maxModelLen: number;
  takesImages: boolean;
  readonly leases: Set<Lease>;
}

/** The right to run one call on an engine, under the label it had at dispatch. */
export interface Lease {
  readonly engine: EngineEntry;
  readonly served: ServedModel;
  readonly caller: Caller;
  /** Set by whoever runs the call: ends the attempt, after which the call is resubmitted elsewhere. */
  revoke?: (() => void) | undefined;
}

/** What an engine answers for a policy by: its weights, or an adapter beside them. Undefined: it does not serve it. */
export function servedFor(
  { served, adapters }: Pick<EngineEntry, "served" | "adapters">,
  policy: string,
): ServedModel | undefined {
  return served?.policy === policy ? served : adapters.get(policy);
}

/** All that it serves. */
export function policiesOf({ served, adapters }: EngineEntry): string[] {
  return [...(served ? [served.policy] : []), ...adapters.keys()];
}
