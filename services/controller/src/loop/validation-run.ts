import { create } from "@bufbuild/protobuf";
import { timestampNow } from "@bufbuild/protobuf/wkt";
import { durationOf } from "../domain/duration.ts";
import { type ValidationResult, ValidationResultSchema } from "@whetstone/proto/jobs/v1/jobs";
import type { EpisodeSummary } from "@whetstone/proto/types/v1/types";
import type { CompiledVariant } from "../domain/compiled-job.ts";
import type { TaskList } from "../domain/dataset.ts";
import { validationTask } from "../domain/tasks.ts";
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
    const variants = this.#context.job.validation?.variants ?? [];
    const startedAt = performance.now();
    await this.#dispatch(step, variants, signal);
    for (const variant of variants) await this.#sealed(step, variant, signal);
    return variants.map((variant) => this.#score(step, variant, performance.now() - startedAt));
  }

  async #dispatch(step: number, variants: readonly CompiledVariant[], signal: AbortSignal): Promise<void> {
    const { spec, job } = this.#context;
    for (const variant of variants) {
      const tasks = this.#places(variant)
        .map(({ index, attempt }) =>
          validationTask(spec, job, { step, variant, index, attempt, task: this.#parts.tasks.at(index) }),
        )
        .filter((task) => !this.#parts.episodes.find(task.episodeId));
      await this.#parts.queue.publish(tasks, signal);
    }
  }

  async #sealed(step: number, variant: CompiledVariant, signal: AbortSignal): Promise<void> {
    for (;;) {
      const seen = this.#parts.episodes.size;
      if (this.#places(variant).every((place) => this.#find(step, variant, place))) return;
      await this.#parts.episodes.grown(seen, signal);
    }
  }

  #score(step: number, variant: CompiledVariant, elapsedMs: number): ValidationResult {
    const byTask: EpisodeSummary[][] = Array.from({ length: this.#parts.tasks.length }, () => []);
    for (const place of this.#places(variant)) {
      const summary = this.#find(step, variant, place);
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

  #find(step: number, variant: CompiledVariant, place: { index: number; attempt: number }): EpisodeSummary | undefined {
    const id = `${this.#context.job.name}/v${step}-${variant.name}-${place.index}/s${place.attempt}`;
    return this.#parts.episodes.find(id)?.summary;
  }

  #places(variant: CompiledVariant): { index: number; attempt: number }[] {
    return Array.from({ length: this.#parts.tasks.length * variant.attempts }, (_, i) => ({
      index: Math.floor(i / variant.attempts),
      attempt: i % variant.attempts,
    }));
  }
}
