import { exponentialBackoff, isAbort, sleep, WhetstoneError } from "@whetstone/core";
import type { Logger } from "@whetstone/telemetry";
import type { RpcClient } from "@whetstone/rpc";
import type { JobSpec } from "@whetstone/proto/jobs/v1/jobs";
import { type TrainProgress, type TrainResult, TrainerService } from "@whetstone/proto/trainer/v1/trainer";
import type { Trainer, TrainerState } from "../loop/ports.ts";

/** A trainer that is silent for longer is asked again. It sends progress at least every second of work. */
const SILENCE_MS = 120_000;
const CONFIGURE_MS = 300_000;

interface Options {
  readonly client: RpcClient<typeof TrainerService>;
  readonly runPathOf: (jobUid: string) => string;
  readonly logger: Logger;
}

/** The trainer service, with the patience that its restarts need: whatever was lost is configured and asked for again. */
export class TrainerClient implements Trainer {
  readonly #options: Options;
  #configured: { spec: JobSpec; jobUid: string; epoch: bigint } | undefined;
  #waitedMs = 0;

  constructor(options: Options) {
    this.#options = options;
  }

  async configure(spec: JobSpec, jobUid: string, epoch: bigint, signal: AbortSignal): Promise<TrainerState> {
    this.#configured = { spec, jobUid, epoch };
    return this.#patiently(() => this.#configureOnce(signal), signal);
  }

  async trainStep(
    manifest: Uint8Array,
    onProgress: (progress: TrainProgress) => void,
    signal: AbortSignal,
  ): Promise<TrainResult> {
    let lost = false;
    return this.#patiently(async () => {
      if (lost) await this.#configureOnce(signal);
      lost = true;
      return this.#trainOnce(manifest, onProgress, signal);
    }, signal);
  }

  takeWaitedMs(): number {
    const waited = this.#waitedMs;
    this.#waitedMs = 0;
    return waited;
  }

  async #configureOnce(signal: AbortSignal): Promise<TrainerState> {
    const configured = this.#configured;
    if (!configured) throw new WhetstoneError("INTERNAL", "the trainer was used before it was configured");
    const { spec, jobUid, epoch } = configured;
    const request = { spec, jobUid, epoch, runPath: this.#options.runPathOf(jobUid) };
    const answer = await this.#options.client.configure(request, { signal, deadlineMs: CONFIGURE_MS });
    if (!answer.weights)
      throw new WhetstoneError("CONTRACT_VIOLATION", "the trainer was configured but names no weights");
    return { step: answer.step, weights: answer.weights };
  }

  async #trainOnce(
    manifest: Uint8Array,
    onProgress: (progress: TrainProgress) => void,
    signal: AbortSignal,
  ): Promise<TrainResult> {
    const silence = new AbortController();
    const timer = setTimeout(() => silence.abort(), SILENCE_MS);
    try {
      const request = { epoch: this.#configured?.epoch ?? 0n, manifest };
      const stream = this.#options.client.trainStep(request, { signal: AbortSignal.any([signal, silence.signal]) });
      for await (const { kind } of stream) {
        timer.refresh();
        if (kind.case === "progress") onProgress(kind.value);
        if (kind.case === "result") return kind.value;
      }
      throw new WhetstoneError("UNAVAILABLE", "the trainer ended a step without a result", { retry: "later" });
    } catch (error) {
      if (silence.signal.aborted && !signal.aborted)
        throw new WhetstoneError("UNAVAILABLE", `the trainer was silent for ${SILENCE_MS} ms`, {
          retry: "later",
          cause: error,
        });
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Repeats what failed because the trainer was away; anything else is the caller's to know. */
  async #patiently<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const backoffMs = exponentialBackoff({ initialMs: 200, maxMs: 2000 });
    for (let attempt = 1; ; attempt++) {
      const startedAt = performance.now();
      try {
        return await work();
      } catch (error) {
        if (signal.aborted || !isTrainerAway(error)) throw error;
        this.#options.logger.warn("trainer_away", { error });
        await sleep(backoffMs(attempt), signal);
        this.#waitedMs += performance.now() - startedAt;
      }
    }
  }
}

function isTrainerAway(error: unknown): boolean {
  const { code } = WhetstoneError.from(error);
  return code === "UNAVAILABLE" || (code === "CANCELLED" && !isAbort(error)) || code === "DEADLINE_EXCEEDED";
}
