// SPDX-License-Identifier: Apache-2.0
/** An evaluation is a job of no steps: validation only. */
import type { Violation } from "./cli-error.ts";
import { badInput } from "./cli-error.ts";

export interface EvalRequest {
  readonly name: string;
  /** Absolute. Absent: what the job file names. */
  readonly model?: string;
  readonly attempts: number;
  /** Absent: the job file's validation dataset. */
  readonly tasks?: { readonly first: number; readonly count: number };
  readonly environment?: string;
}

/** The document of the evaluation job. `base` is a parsed job file, whose agent, environment and limits are kept. */
export function evalDocument(base: Record<string, unknown> | undefined, request: EvalRequest): Record<string, unknown> {
  const { agent, environment, algorithm, sampling, limits, seed, model, module, roles } = base ?? {};
  const kind = request.environment ?? "frozenlake";
  const kept = {
    agent: agent ?? { kind },
    environment: environment ?? { kind },
    algorithm,
    sampling,
    limits,
    seed,
    model,
    module,
    roles,
  };
  const given = Object.fromEntries(Object.entries(kept).filter(([, value]) => value !== undefined));
  const variant = { name: "eval", attempts: request.attempts, ...(sampling === undefined ? {} : { sampling }) };
  return {
    ...given,
    name: request.name,
    ...(request.model === undefined ? {} : { model: { path: request.model } }),
    validation: { dataset: evalDataset(base, request), atStart: true, atEnd: false, variants: [variant] },
    loop: { steps: 0 },
  };
}

function evalDataset(base: Record<string, unknown> | undefined, { tasks }: EvalRequest): unknown {
  if (tasks) return { seeds: tasks };
  const validation = base?.["validation"] as { dataset?: unknown } | undefined;
  if (validation?.dataset !== undefined) return validation.dataset;
  throw badInput([{ path: "--tasks", reason: "needed: first:count of the task seeds, e.g. 100000:100" }]);
}

/** "100000:50" → {first, count}. */
export function parseTasks(text: string): { first: number; count: number } {
  const match = /^(\d+):(\d+)$/.exec(text);
  const count = Number(match?.[2]);
  if (match && count >= 1) return { first: Number(match[1]), count };
  throw badInput([{ path: "--tasks", reason: `"${text}" is not first:count, e.g. 100000:100` }]);
}

/** "1,4" → [1, 4]; each from 1 to `attempts`. */
export function parseKs(text: string, attempts: number): number[] {
  const ks = text.split(",").map((part) => Number(part.trim()));
  const violations: Violation[] = ks.flatMap((k) =>
    Number.isInteger(k) && k >= 1 && k <= attempts
      ? []
      : [{ path: "--k", reason: `each must be from 1 to --attempts (${attempts}), not "${text}"` }],
  );
  if (violations.length > 0) throw badInput(violations.slice(0, 1));
  return ks;
}
