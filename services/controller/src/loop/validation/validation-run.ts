// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { timestampNow } from "@bufbuild/protobuf/wkt";
import { episodeId, inTurns } from "@whetstone/core";
import { durationOf } from "../../jobs/duration.ts";
import type { RolloutTask } from "@whetstone/proto/events/v1/events";
import { type ValidationResult, ValidationResultSchema } from "@whetstone/proto/jobs/v1/jobs";
import type { CompiledVariant } from "../../jobs/compiled-job.ts";
import type { TaskList } from "../../datasets/dataset.ts";
import type { SealedEpisode } from "../batch/sealed-episode.ts";
import { validationGroup, validationTask } from "../batch/tasks.ts";
import { HeldOut } from "./held-out.ts";
import { type ValidationScore, ValidationTally } from "./validation-result.ts";
import type { JobContext } from "../job-context.ts";
import type { EpisodeIndex, TaskQueue, Trainer } from "../ports.ts";

interface Parts {
  readonly trainer: Pick<Trainer, "evaluate">;
  readonly episodes: EpisodeIndex;
  readonly queue: TaskQueue;
  readonly tasks: TaskList;
  /** Results of validations that were finished before. */
  readonly known: readonly ValidationResult[];
}

/** One attempt at one task with one variant. */
interface Place {
  readonly step: number;
  readonly variant: CompiledVariant;
  readonly index: number;
  readonly attempt: number;
}

/**
 * Plays every validation task with every variant and scores them, or renders their demonstrations and has the trainer
 * evaluate them. The ids follow from the step, so a rerun finds its work.
 * There may be millions of places, so that none is kept: each pass makes them anew, and gives others their turn.
 */
export class ValidationRun {
  readonly #context: JobContext;
  readonly #parts: Parts;

  constructor(context: JobContext, parts: Parts) {
    this.#context = context;
    this.#parts = parts;
  }

  /** @returns one result a variant; empty when this step was validated before. */
  async run(step: number, signal: AbortSignal): Promise<ValidationResult[]> {
    if (this.#parts.known.some((result) => result.step === step)) return [];
    const { variants = [], concurrency = Infinity } = this.#context.job.validation ?? {};
    const startedAt = performance.now();
    await this.#parts.queue.publish(this.#unsealed(step, concurrency, signal), signal);
    const results: ValidationResult[] = [];
    for (const variant of variants) {
      const score = await this.#score(step, variant, signal);
      const duration = durationOf(performance.now() - startedAt);
      const at = { step, variant: variant.name, policyVersion: BigInt(step), duration, finishedAt: timestampNow() };
      results.push(create(ValidationResultSchema, { ...score, ...at }));
    }
    return results;
  }

  /** The tasks of all places that are not sealed, no more of them open than `concurrency`. */
  async *#unsealed(step: number, concurrency: number, signal: AbortSignal): AsyncGenerator<RolloutTask> {
    const { episodes } = this.#parts;
    const open = new Set<string>();
    let seen = 0;
    for await (const place of inTurns(this.#places(step))) {
      if (this.#find(place)) continue;
      while (open.size >= concurrency) {
        await episodes.grown(seen, signal);
        for (const id of episodes.sealedAfter(seen)) {
          open.delete(id);
          seen++;
        }
      }
      // Without a bound nobody asks what is open, and a million names are many.
      if (concurrency !== Infinity) open.add(this.#idOf(place));
      yield await this.#task(place);
    }
  }

  async #task({ step, variant, index, attempt }: Place): Promise<RolloutTask> {
    const { spec, job } = this.#context;
    return validationTask(spec, job, { step, variant, index, attempt, task: await this.#parts.tasks.at(index) });
  }

  /** Waits for each place in turn: when the last one was found, all were. */
  async #score(step: number, variant: CompiledVariant, signal: AbortSignal): Promise<ValidationScore> {
    if (this.#context.job.validation?.isHeldOut === true) return this.#evaluated(step, variant, signal);
    const tally = new ValidationTally(variant.attempts);
    for await (const place of inTurns(this.#placesOf(step, variant)))
      tally.add(place.index, (await this.#sealed(place, signal)).summary);
    return tally.score();
  }

  async #evaluated(step: number, variant: CompiledVariant, signal: AbortSignal): Promise<ValidationScore> {
    const heldOut = new HeldOut(this.#context.job, step);
    for await (const place of inTurns(this.#placesOf(step, variant)))
      heldOut.add(
        this.#idOf(place),
        validationGroup(step, variant.name, place.index),
        await this.#sealed(place, signal),
      );
    return heldOut.score((manifest) => this.#parts.trainer.evaluate(manifest, signal));
  }

  async #sealed(place: Place, signal: AbortSignal): Promise<SealedEpisode> {
    for (;;) {
      const seen = this.#parts.episodes.size;
      const episode = this.#find(place);
      if (episode) return episode;
      await this.#parts.episodes.grown(seen, signal);
    }
  }

  #find(place: Place): SealedEpisode | undefined {
    return this.#parts.episodes.find(this.#idOf(place));
  }

  #idOf({ step, variant, index, attempt }: Place): string {
    return episodeId(this.#context.job.name, validationGroup(step, variant.name, index), attempt);
  }

  *#places(step: number): Generator<Place> {
    for (const variant of this.#context.job.validation?.variants ?? []) yield* this.#placesOf(step, variant);
  }

  *#placesOf(step: number, variant: CompiledVariant): Generator<Place> {
    for (let index = 0; index < this.#parts.tasks.length; index++)
      for (let attempt = 0; attempt < variant.attempts; attempt++) yield { step, variant, index, attempt };
  }
}
