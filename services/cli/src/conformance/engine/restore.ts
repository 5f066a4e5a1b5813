// SPDX-License-Identifier: Apache-2.0
/** Brings an engine back to what it was before it was checked: its weights, its label, resumed. */
import { type Engine, type Fields, must, type WeightsRecord } from "./engine.ts";

export interface Original {
  /** Undefined: it did not say. */
  readonly label: string | undefined;
  readonly weights: WeightsRecord;
}

/**
 * Weights that could not be loaded again leave it paused, as the protocol has it: it would answer under a label that is wrong.
 * @returns what was done
 * @throws Error when it is not as it was
 */
export async function restore(engine: Engine, { label, weights }: Original): Promise<string> {
  const { model } = engine.settings;
  const done: string[] = [];
  if (!weights.areOriginal && model !== undefined) {
    await engine.pause("abort", true);
    await engine.mustReload(model);
  }
  if (weights.wereLoaded) done.push(`weights of ${model}`);
  if (label !== undefined) {
    if ((await engine.label()) !== label) await engine.setLabel(label);
    must((await engine.label()) === label, `its label is ${await engine.label()}, and was ${label}`);
    done.push(`label ${label}`);
  }
  await wake(engine);
  // It is told to whatever it says of itself, since that may be what is wrong with it.
  await engine.resume();
  must(!(await engine.isPaused()), "it stays paused");
  return [...done, "resumed"].join(", ");
}

/** An engine that sleeps cannot be resumed. vLLM says that it sleeps when it is only paused; waking it does no harm then. */
async function wake({ api }: Engine): Promise<void> {
  const { status, body } = await api.get("/is_sleeping");
  const { is_sleeping: isSleeping } = (body ?? {}) as Fields;
  if (status === 200 && isSleeping === true) await api.post("/wake_up");
}
