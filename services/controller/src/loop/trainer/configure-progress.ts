// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { WhetstoneError } from "@whetstone/core";
import { type Notice, NoticeSchema, type TrainProgress } from "@whetstone/proto/trainer/v1/trainer";

/** Phases of Configure (trainer.proto), as people read them. */
const PHASES: Readonly<Record<string, string>> = {
  fetching: "fetches the model",
  loading: "loads the model",
  restoring: "restores its newest checkpoint",
};

/** Follows a trainer that gets ready: what people are told of it, and when it has stood still for too long. */
export class ConfigureProgress {
  readonly #stallMs: number;
  #last: Pick<TrainProgress, "phase" | "share"> = { phase: "", share: 0 };
  #changedAt = performance.now();

  constructor(stallMs: number) {
    this.#stallMs = stallMs;
  }

  /** @throws TRAINER_FAILED when neither phase nor share has changed for the given time */
  notice(progress: TrainProgress): Notice {
    const now = performance.now();
    if (progress.phase !== this.#last.phase || progress.share !== this.#last.share) this.#changedAt = now;
    this.#last = progress;
    const doing = `The trainer ${PHASES[progress.phase] ?? `gets ready (${progress.phase})`}: ${percent(progress)} %`;
    if (now - this.#changedAt >= this.#stallMs)
      throw new WhetstoneError(
        "TRAINER_FAILED",
        `${doing}, and has not gone on for ${Math.round(this.#stallMs / 1000)} s; see the trainer's log, and whether the ` +
          "disks of the model folder and of the run folder answer",
      );
    return create(NoticeSchema, { reason: "TrainerConfiguring", message: `${doing}.` });
  }
}

function percent({ share }: TrainProgress): number {
  return Math.floor(Math.min(1, Math.max(0, share)) * 100);
}
