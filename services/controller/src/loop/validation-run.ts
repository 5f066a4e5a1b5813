// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { timestampNow } from "@bufbuild/protobuf/wkt";
import { durationOf } from "../domain/duration.ts";
import type { RolloutTask } from "@whetstone/proto/events/v1/events";
import { type ValidationResult, ValidationResultSchema } from "@whetstone/proto/jobs/v1/jobs";
import type { EpisodeSummary } from "@whetstone/proto/types/v1/types";
import type { CompiledVariant } from "../domain/compiled-job.ts";
import type { TaskList } from "../domain/dataset.ts";
import { validationGroup, validationTask } from "../domain/tasks.ts";
import { scoreValidation } from "../domain/validation-result.ts";
import type { JobContext } from "./job-context.ts";
import type { EpisodeIndex, TaskQueue } from "./ports.ts";

interface Parts {
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

/** Plays every validation task with every variant and scores them. The ids follow from the step, so a rerun finds its work. */
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
    const places = variants.flatMap((variant) => this.#places(variant).map((place) => ({ step, variant, ...place })));
    await this.#play(places, concurrency, signal);
    return variants.map((variant) => this.#score(step, variant, performance.now() - startedAt));
  }

  /** Dispatches what is not sealed, no more than `concurrency` at a time, and waits for all of it. */
  async #play(places: readonly Place[], concurrency: number, signal: AbortSignal): Promise<void> {
    const isOpen = (place: Place): boolean => this.#find(place) === undefined;
    const waiting = places.filter(isOpen);
    let open: Place[] = [];
    while (waiting.length > 0) {
      const seen = this.#parts.episodes.size;
      open = open.filter(isOpen);
      const next = waiting.splice(0, concurrency - open.length);
      await this.#parts.queue.publish(
        next.map((place) => this.#task(place)),
        signal,
      );
      open.push(...next);
      if (waiting.length > 0) await this.#parts.episodes.grown(seen, signal);
    }
    await this.#sealed(open, signal);
  }

  /** Looks at each episode once more only after it was sealed: thousands wait here. */
  async #sealed(places: readonly Place[], signal: AbortSignal): Promise<void> {
    for (const place of places) {
      for (;;) {
        const seen = this.#parts.episodes.size;
        if (this.#find(place)) break;
        await this.#parts.episodes.grown(seen, signal);
      }
    }
  }

  #task({ step, variant, index, attempt }: Place): RolloutTask {
    const { spec, job } = this.#context;
    return validationTask(spec, job, { step, variant, index, attempt, task: this.#parts.tasks.at(index) });
  }

  #score(step: number, variant: CompiledVariant, elapsedMs: number): ValidationResult {
    const byTask: EpisodeSummary[][] = Array.from({ length: this.#parts.tasks.length }, () => []);
    for (const place of this.#places(variant)) {
      const summary = this.#find({ step, variant, ...place });
      if (summary) byTask[place.index]?.push(summary);
    }
    return create(ValidationResultSchema, {
      ...scoreValidation(byTask, variant.attempts),
      step,
      variant: variant.name,
      policyVersion: BigInt(step),
      duration: durationOf(elapsedMs),
      finishedAt: timestampNow(),
    });
  }

  #find({ step, variant, index, attempt }: Place): EpisodeSummary | undefined {
    const id = `${this.#context.job.name}/${validationGroup(step, variant.name, index)}/s${attempt}`;
    return this.#parts.episodes.find(id)?.summary;
  }

  #places(variant: CompiledVariant): { index: number; attempt: number }[] {
    return Array.from({ length: this.#parts.tasks.length * variant.attempts }, (_, i) => ({
      index: Math.floor(i / variant.attempts),
      attempt: i % variant.attempts,
    }));
  }
}
