// SPDX-License-Identifier: Apache-2.0
import { EpisodeError } from "../failure.ts";
import type { ChatOptions, ModelAnswer, RolloutClient, Usage } from "../rollout-client.ts";
import type { ChatMessage, Episode } from "../types.ts";

/** One answer of a model as it was recorded. */
export interface RecordedAnswer {
  readonly callId: string;
  readonly role: string;
  /** The seed it was sampled with: tells apart calls that a workflow made side by side. Absent: the order decides. */
  readonly seed?: number | undefined;
  readonly text: string;
  /** Default "stop". */
  readonly finishReason?: string | undefined;
  /** Default: nothing, so that no token budget ends the replay. */
  readonly usage?: Usage | undefined;
}

const NOTHING_USED: Usage = { promptTokens: 0, completionTokens: 0 };

/**
 * Answers from a record instead of a model: the same agent and environment must then do the same again. Give a new one to
 * each episode. A call gets the answer of its role and seed, else the role's oldest unused one.
 */
export class RecordedClient implements RolloutClient {
  readonly #answers: RecordedAnswer[];
  readonly #atEnd: () => Error;

  /** @param atEnd  what a call beyond the record fails with */
  constructor(answers: readonly RecordedAnswer[], atEnd: () => Error = recordEnds) {
    this.#answers = [...answers];
    this.#atEnd = atEnd;
  }

  /** Answers that nobody has asked for yet. */
  get left(): number {
    return this.#answers.length;
  }

  chat(_messages: readonly ChatMessage[], { role, seed }: ChatOptions): Promise<ModelAnswer> {
    const exact = this.#answers.findIndex((answer) => answer.role === role && answer.seed === seed);
    const index = exact >= 0 ? exact : this.#answers.findIndex((answer) => answer.role === role);
    const [answer] = index >= 0 ? this.#answers.splice(index, 1) : [];
    if (answer === undefined) return Promise.reject(this.#atEnd());
    const { callId, text, finishReason = "stop", usage = NOTHING_USED } = answer;
    return Promise.resolve({ callId, text, finishReason, usage });
  }
}

/** What an engine's own episode recorded: the answers of its steps, role by role. */
export function recordedAnswers(episode: Pick<Episode, "trajectories">): RecordedAnswer[] {
  return episode.trajectories.flatMap(({ name, steps }) =>
    steps.map(({ callId, modelResponse }) => ({ callId, role: name, text: modelResponse })),
  );
}

function recordEnds(): Error {
  return new EpisodeError("INFRASTRUCTURE", "the record ends here: the model was asked more often than before", {
    code: "DATA_LOSS",
  });
}
