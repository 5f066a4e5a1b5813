// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import type { ServedName as ToldName } from "@whetstone/proto/inference/v1/inference";
import type { ServingKey } from "@whetstone/proto/serving/v1/serving";
import { ApiError } from "../completion/api-error.ts";
import type { CompletionRequest } from "../completion/request.ts";
import { conversationShare } from "./conversation-share.ts";
import { KeyLimits } from "./key-limits.ts";

/** A name under which a policy is served to clients with keys, as the controller told it. */
export interface ServedName {
  readonly name: string;
  readonly policy: string;
  /** Undefined: all conversations get `policy`. */
  readonly canary: { readonly policy: string; readonly percent: number } | undefined;
}

/** Who asks for a served name, by a key. */
export interface KeyHolder {
  /** Of the key. */
  readonly name: string;
  serving: ServedName;
  readonly limits: KeyLimits;
}

/** Which of a serving's weights answer. */
export type ServedWeights = "newest" | "canary";

/** The names that are served here, and who may ask for them. */
export class ServedNames {
  /** By the SHA-256 of the key. */
  #holders = new Map<string, KeyHolder>();

  /** All there are, in place of those before. What a key that stays has used up stays used up. */
  put(told: readonly ToldName[], nowMs: number): void {
    const holders = new Map<string, KeyHolder>();
    for (const one of told) {
      const serving = servedName(one);
      for (const key of one.keys) holders.set(key.sha256, this.#holder(key, serving, nowMs));
    }
    this.#holders = holders;
  }

  /** Undefined: nobody was given this key, or it was taken back. */
  find(key: string): KeyHolder | undefined {
    if (this.#holders.size === 0) return undefined;
    return this.#holders.get(createHash("sha256").update(key).digest("hex"));
  }

  #holder(key: ServingKey, serving: ServedName, nowMs: number): KeyHolder {
    const known = this.#holders.get(key.sha256);
    if (known === undefined || known.serving.name !== serving.name)
      return { name: key.name, serving, limits: new KeyLimits(key, nowMs) };
    known.serving = serving;
    known.limits.change(key);
    return known;
  }
}

function servedName({ name, policy, canaryPolicy, canaryPercent }: ToldName): ServedName {
  return { name, policy, canary: canaryPolicy === "" ? undefined : { policy: canaryPolicy, percent: canaryPercent } };
}

/**
 * Which weights answer: the canary's, if the conversation is one of its share and an engine serves it.
 * @param isServed  whether an engine takes calls for the policy
 * @throws ApiError 404 where the request names another model
 */
export function chooseWeights(
  { name, canary }: ServedName,
  request: Pick<CompletionRequest, "model" | "messages" | "prompt">,
  isServed: (policy: string) => boolean,
): ServedWeights {
  if (request.model !== name) {
    const message = `this key is for the model "${name}", not for "${request.model}"`;
    throw new ApiError("NOT_FOUND", "model_not_found", message, { param: "model" });
  }
  if (canary === undefined || conversationShare(request) >= canary.percent) return "newest";
  return isServed(canary.policy) ? "canary" : "newest";
}
