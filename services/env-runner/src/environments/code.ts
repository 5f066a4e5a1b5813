// SPDX-License-Identifier: Apache-2.0
import { CodeEnvironment, CodeTests } from "@whetstone/code";
import { parseOrThrow } from "@whetstone/core";
import { defineEnvironment, type RegisteredEnvironment } from "@whetstone/sdk";
import { z } from "zod";
import { LeastLevel, SandboxChoice } from "../sandboxes/choice.ts";
import type { Sandboxes } from "../sandboxes/sandboxes.ts";

const CodeArgs = z.strictObject({
  question: z.string().min(1).max(100_000).describe("what the agent sees"),
  tests: CodeTests.describe("how its program is tested; usually it comes with the task, as the question does"),
  reward: z
    .enum(["all", "share"])
    .default("all")
    .describe("all: 1 if every case passes, else 0; share: the share of cases that pass"),
  maxTurns: z.number().int().min(1).max(100).default(1).describe("programs; what the tests said comes between them"),
  shownCases: z
    .number()
    .int()
    .min(0)
    .max(1000)
    .default(0)
    .describe("of so many cases, from the first, input and expected output are shown when they fail"),
  caseSeconds: z.number().min(1).max(600).default(6).describe("CPU time of one case"),
  memoryMiB: z.number().int().min(32).max(65_536).default(512).describe("of the program with its files"),
  sandboxLevel: LeastLevel,
  sandbox: SandboxChoice,
  metadata: z.record(z.string(), z.unknown()).optional().describe("the dataset's other columns; not used"),
});

export function codeEnvironment(sandboxes: Sandboxes): RegisteredEnvironment {
  return defineEnvironment<z.output<typeof CodeArgs>>({
    kind: "code",
    description: "A question that is answered by a Python program, which is tested in a sandbox.",
    seedable: true,
    parseArgs: (args) => parseOrThrow(CodeArgs, args, ""),
    argsSchema: z.toJSONSchema(CodeArgs, { io: "input" }),
    create: ({ metadata: _, sandbox, sandboxLevel, ...args }) =>
      new CodeEnvironment({
        ...args,
        reach: sandbox.network,
        backend: () => sandboxes.backend({ sandbox, sandboxLevel }),
      }),
  });
}
