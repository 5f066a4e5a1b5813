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
  library: z
    .string()
    .regex(/^[\w.-]{1,200}$/u)
    .describe('"<name>-<version>", the folder of the library'),
  sdist: z
    .string()
    .regex(/^[0-9a-f]{64}$/u)
    .describe("SHA-256 of its source package"),
  statement: z.string().min(1).max(20_000).describe("what the agent is told"),
  hints: z
    .array(z.string().max(2000))
    .max(10)
    .default([])
    .describe("from the vague to the exact; a job says how many of them the agent is told"),
  difficulty: z.enum(DIFFICULTIES).describe("how hard the bug is to find"),
  bugs: z.array(z.string().max(100)).min(1).max(10).describe("what was done at each place"),
  edits: z.array(EditSchema).min(1).max(50).describe("the bug, as it was planted; the agent never sees it"),
  failToPass: z
    .array(z.string().min(1))
    .min(1)
    .max(200)
    .describe(
      "tests that fail because of the bug; all other stable tests of the library pass, and have to go on passing",
    ),
});
export type SweTask = z.output<typeof SweTaskSchema>;
