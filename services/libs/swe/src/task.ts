// SPDX-License-Identifier: Apache-2.0
import { z } from "zod";

/** Lines of a file that a bug has changed, or a repair. */
export const EditSchema = z.strictObject({
  /** Relative to the repository. */
  path: z.string().min(1).max(1000),
  /** Where the block begins in the library as it was published, from 1. */
  line: z.int().min(1),
  /** Whole lines, with their ends. */
  before: z.string().max(100_000),
  after: z.string().max(100_000),
});
export type Edit = z.output<typeof EditSchema>;

export const DIFFICULTIES = ["easy", "medium", "hard"] as const;
export type Difficulty = (typeof DIFFICULTIES)[number];

/** A library with a bug, and the tests that notice it. About 1 KB: sources and the tests that pass are named, not held. */
export const SweTaskSchema = z.strictObject({
  /** "<name>-<version>", the folder of the library. */
  library: z.string().regex(/^[\w.-]{1,200}$/u),
  /** SHA-256 of its source package. */
  sdist: z.string().regex(/^[0-9a-f]{64}$/u),
  /** What the agent is told. */
  statement: z.string().min(1).max(20_000),
  /** From the vague to the exact; a job says how many of them the agent is told. */
  hints: z.array(z.string().max(2000)).max(10).default([]),
  difficulty: z.enum(DIFFICULTIES),
  /** What was done at each place. */
  bugs: z.array(z.string().max(100)).min(1).max(10),
  /** The bug, as it was planted. The agent never sees it. */
  edits: z.array(EditSchema).min(1).max(50),
  /** Tests that fail because of the bug. All other stable tests of the library pass, and have to go on passing. */
  failToPass: z.array(z.string().min(1)).min(1).max(200),
});
export type SweTask = z.output<typeof SweTaskSchema>;
