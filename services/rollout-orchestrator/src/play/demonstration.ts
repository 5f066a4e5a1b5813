// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { Deadline, exponentialBackoff, retry, WhetstoneError } from "@whetstone/core";
import type { RolloutTask } from "@whetstone/proto/events/v1/events";
import {
  type ChatMessage,
  type Episode,
  type ModelCall,
  ModelCallSchema,
  type Task,
} from "@whetstone/proto/types/v1/types";
import { classify, EpisodeError, type Failure, isRetried, NO_FAILURE } from "@whetstone/sdk";
import type { Delivery } from "../tasks/delivery.ts";
import { budgetsOf, episodeTimeoutMs } from "./limits.ts";
import { nothingPlayed, seal } from "../seal/seal.ts";
import { sessionName } from "./session-name.ts";
import type { GatewayChoice } from "./gateway.ts";

const BACKOFF = exponentialBackoff({ initialMs: 500, maxMs: 5_000 });

interface Rendered {
  readonly calls: ModelCall[];
  readonly failure: Failure;
}

/** What of a pair is rewarded, and is to become likelier than the other. */
const CHOSEN = 0;

/**
 * A demonstration becomes an episode without agent and environment: its conversation as the calls that would have sampled it.
 * The two of a pair are the members of a group: what was chosen has reward 1, what was rejected 0.
 */
export async function demonstrate(gateway: GatewayChoice, delivery: Delivery, signal: AbortSignal): Promise<Episode> {
  const { task } = delivery;
  const startedAtMs = Date.now();
  const startedAt = performance.now();
  using deadline = Deadline.after(episodeTimeoutMs(task), signal);
  const { calls, failure } = await render(gateway, delivery, deadline.signal);
  if (signal.aborted) throw new WhetstoneError("CANCELLED", `episode ${task.episodeId} was cancelled`);
  const totalMs = performance.now() - startedAt;
  const isChosen = isPair(task.task) && task.sample === CHOSEN;
  const played = {
    ...nothingPlayed(task),
    ...(isChosen && { reward: 1, isCorrect: true }),
    terminationReason: failure === NO_FAILURE ? "ENV_DONE" : failure.class === "DEADLINE" ? "DEADLINE" : "ERROR",
    failure,
    startedAtMs,
    timing: { totalMs, modelMs: totalMs, environmentMs: 0, waitingMs: 0 },
  } as const;
  return seal(delivery, played, calls);
}

async function render(gateway: GatewayChoice, { task, attempt }: Delivery, signal: AbortSignal): Promise<Rendered> {
  const { field, messages, recorded } = conversationOf(task);
  if (recorded.length > 0) return { calls: recorded.map(demonstratedCall), failure: NO_FAILURE };
  const conversation = { messages, tools: task.task?.tools ?? [] };
  try {
    if (!messages.some(({ role }) => role === "assistant")) {
      throw new EpisodeError("TASK", `task.${field}: needs at least one assistant message`);
    }
    const calls = await retry(
      (n) => gateway.pick().render(sessionName(task.episodeId, attempt, n), task.model, conversation, signal),
      {
        attempts: 1 + budgetsOf(task).retryLimit,
        backoff: BACKOFF,
        signal,
        isRetryable: (error) => isRetried(classify(error, "model").class),
      },
    );
    return { calls, failure: NO_FAILURE };
  } catch (error) {
    const failure = classify(error, "model");
    return { calls: [], failure: { ...failure, ...(signal.aborted ? { class: "DEADLINE" } : {}), phase: "render" } };
  }
}

function isPair(task: Task | undefined): boolean {
  if (task === undefined) return false;
  return [task.chosen, task.rejected, task.chosenCalls, task.rejectedCalls].some((list) => list.length > 0);
}

interface Given {
  readonly field: string;
  readonly messages: readonly ChatMessage[];
  /** In place of messages. */
  readonly recorded: readonly ModelCall[];
}

function conversationOf({ task, sample }: RolloutTask): Given {
  if (task === undefined || !isPair(task))
    return { field: "demonstration", messages: task?.demonstration ?? [], recorded: [] };
  if (sample === CHOSEN) return { field: "chosen", messages: task.chosen, recorded: task.chosenCalls };
  return { field: "rejected", messages: task.rejected, recorded: task.rejectedCalls };
}

/** Nobody sampled it for this job: it has no log-probabilities and no versions. */
function demonstratedCall({ id, parentId, promptIds, completionIds, demonstrationMask, text }: ModelCall): ModelCall {
  const ids = { id, parentId, promptIds, completionIds, demonstrationMask };
  return create(ModelCallSchema, { ...ids, text, role: "agent", finishReason: "stop" });
}
