// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { type BatchEntry, type BatchManifest, BatchManifestSchema } from "@whetstone/proto/events/v1/events";
import type { EvaluateResult } from "@whetstone/proto/trainer/v1/trainer";
import type { CompiledJob } from "../../jobs/compiled-job.ts";
import { entryOf } from "../batch/batch.ts";
import { FailureTally } from "../batch/commonest-failure.ts";
import { judge, type Sound } from "../batch/members.ts";
import type { SealedEpisode } from "../batch/sealed-episode.ts";
import type { ValidationScore } from "./validation-result.ts";

/** Asks the trainer. Undefined: it has gone on to a later version. */
type Evaluate = (manifest: BatchManifest) => Promise<EvaluateResult | undefined>;

/** Gathers rendered demonstrations for the trainer to evaluate, group by group. Only whole groups are: half a pair says nothing. */
export class HeldOut {
  readonly #job: CompiledJob;
  readonly #step: number;
  readonly #failures = new FailureTally();
  readonly #entries: BatchEntry[] = [];
  #group: { readonly name: string; readonly members: Sound[] } = { name: "", members: [] };
  #added = 0;

  /** @param step  optimizer steps behind the weights */
  constructor(job: CompiledJob, step: number) {
    this.#job = job;
    this.#step = step;
  }

  /** The members of a group come one after the other. */
  add(id: string, group: string, episode: SealedEpisode): void {
    this.#added++;
    if (group !== this.#group.name) this.#group = { name: group, members: [] };
    const member = judge(this.#job, this.#step, id, episode);
    if (member.kind === "void") this.#failures.add({ summary: episode.summary, reason: member.reason });
    if (member.kind === "sound") this.#group.members.push(member);
    if (this.#group.members.length < this.#job.groupSize) return;
    this.#entries.push(...this.#group.members.map((one) => entryOf(one, group)));
  }

  async score(evaluate: Evaluate): Promise<ValidationScore> {
    const { name, groupSize } = this.#job;
    const manifest = create(BatchManifestSchema, { job: name, step: this.#step, entries: this.#entries });
    const result = this.#entries.length > 0 ? await evaluate(manifest) : undefined;
    const isGone = this.#entries.length > 0 && result === undefined;
    const episodes = result ? this.#entries.length - result.dropped.length : 0;
    for (const { message } of result?.dropped ?? []) this.#failures.add({ summary: undefined, reason: message });
    return {
      tasks: episodes / groupSize,
      episodes,
      voided: this.#added - episodes,
      success: 0,
      meanReward: 0,
      passAtK: {},
      commonestFailure: isGone ? "the trainer has gone on to a later version" : this.#failures.commonest(),
      metrics: { ...result?.metrics },
    };
  }
}
