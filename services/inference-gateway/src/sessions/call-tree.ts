// SPDX-License-Identifier: Apache-2.0
import { create, toBinary, toJsonString } from "@bufbuild/protobuf";
import { durationFromMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { CallTreeSchema } from "@whetstone/proto/inference/v1/inference";
import type { CallTree } from "@whetstone/proto/inference/v1/inference";
import { ForkReason as WireForkReason, ModelCallSchema } from "@whetstone/proto/types/v1/types";
import type { ModelCall, Sampling } from "@whetstone/proto/types/v1/types";
import { rolesOf } from "./conversations.ts";
import type { CallRecord, ForkReason } from "./call-record.ts";

const WIRE_FORK_REASON = {
  none: WireForkReason.UNSPECIFIED,
  no_prefix: WireForkReason.NO_PREFIX,
  branch: WireForkReason.BRANCH,
} as const satisfies Record<ForkReason, WireForkReason>;

/** A body and its content type. */
export interface EncodedTree {
  readonly contentType: string;
  readonly body: Uint8Array | string;
}

/** The calls of a session as they go over the wire: binary when the client accepts it, else protobuf JSON. */
export function encodeCallTree(session: string, calls: readonly CallRecord[], accept: string | undefined): EncodedTree {
  const tree = callTree(session, calls);
  if (accept?.includes("application/x-protobuf") === true) {
    return { contentType: "application/x-protobuf", body: toBinary(CallTreeSchema, tree) };
  }
  return { contentType: "application/json", body: toJsonString(CallTreeSchema, tree) };
}

function callTree(session: string, calls: readonly CallRecord[]): CallTree {
  const inOrder = calls.toSorted((a, b) => a.index - b.index);
  const roles = rolesOf(inOrder);
  const wired = inOrder.map((call) => modelCall(call, call.role ?? roles.get(call) ?? ""));
  return create(CallTreeSchema, { session, calls: wired });
}

function modelCall(call: CallRecord, role: string): ModelCall {
  const { seed, logits: _, ...sampling } = call.sampling;
  return create(ModelCallSchema, {
    id: callId(call),
    parentId: call.parent ? callId(call.parent) : "",
    promptIds: call.promptIds as number[],
    completionIds: call.completionIds as number[],
    logprobs: call.logprobs as number[],
    supportIds: call.supports.flat(),
    supportCounts: call.supports.map((support) => support.length),
    versionSpans: call.spans as { start: number; end: number; policyVersion: bigint }[],
    finishReason: call.finishReason,
    sampling: sampling as Sampling,
    ...(seed === undefined ? {} : { seed: BigInt(seed) }),
    role,
    text: call.text,
    forkReason: WIRE_FORK_REASON[call.forkReason],
    startedAt: timestampFromMs(call.startedAtMs),
    duration: durationFromMs(Math.round(call.durationMs)),
    resubmissions: call.resubmissions,
    cachedTokens: call.cachedTokens,
    demonstrationMask: call.demonstrationMask as number[],
    alteredBy: call.alteredBy as string[],
  });
}

function callId(call: CallRecord): string {
  return `c${call.index}`;
}
