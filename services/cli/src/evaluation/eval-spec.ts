// SPDX-License-Identifier: Apache-2.0
/** An evaluation is a job of no steps: validation only. */
import type { Violation } from "../cli-error.ts";
import { badInput } from "../cli-error.ts";

/** Names the episodes: "<job>/v0-eval-<task>/s<attempt>". */
export const EVAL_VARIANT = "eval";

export interface EvalRequest {
  readonly name: string;
  /** Absolute. Absent: what the job file names. */
  readonly model?: string;
  readonly attempts: number;
  /** As a job names it. Absent: the job file's validation dataset. */
  readonly dataset?: object;
  /** Only the first n tasks. */
  readonly take?: number;
  /** Most episodes at a time. */
  readonly concurrency?: number;
  readonly agent?: string;
  readonly environment?: string;
  /** In place of the job file's, setting by setting. */
  readonly sampling?: Readonly<Record<string, number>>;
  readonly seed?: string;
}

type Document = Record<string, unknown>;

/** The document of the evaluation job. `base` is a parsed job file, whose agent, environment and limits are kept. */
export function evalDocument(base: Document | undefined, request: EvalRequest): Document {
  const { algorithm, limits, model, module, roles } = base ?? {};
  const sampling = merged(base?.["sampling"], request.sampling);
  const variant = { name: EVAL_VARIANT, attempts: request.attempts, ...(sampling === undefined ? {} : { sampling }) };
  const dataset = evalDataset(base, request);
  return present({
    ...players(base, request),
    ...{ algorithm, limits, module, roles, sampling },
    seed: request.seed ?? base?.["seed"],
    model: request.model === undefined ? model : { path: request.model },
    name: request.name,
    validation: present({
      ...{ dataset, atStart: true, atEnd: false, variants: [variant] },
      concurrency: request.concurrency,
    }),
    loop: { steps: 0 },
  });
}

/** Without a job file the environment's kind is the agent's, too: the built-in ones come in pairs. */
function players(base: Document | undefined, request: EvalRequest): Document {
  const kind = request.environment ?? "frozenlake";
  if (base === undefined) return { agent: { kind: request.agent ?? kind }, environment: { kind } };
  return {
    agent: request.agent === undefined ? base["agent"] : { kind: request.agent },
    environment: request.environment === undefined ? base["environment"] : { kind: request.environment },
  };
}

function evalDataset(base: Document | undefined, { dataset, take }: EvalRequest): unknown {
  const validation = base?.["validation"] as { dataset?: object } | undefined;
  const found = dataset ?? validation?.dataset;
  if (found !== undefined) return take === undefined ? found : { ...found, take };
  const reason = "needed: a dataset's name or file, or --tasks first:count of task seeds, e.g. 100000:100";
  throw badInput([{ path: "--dataset", reason }]);
}

function merged(base: unknown, own: EvalRequest["sampling"]): object | undefined {
  if (own === undefined || Object.keys(own).length === 0) return base as object | undefined;
  return { ...(base as object | undefined), ...own };
}

function present(fields: Document): Document {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
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
