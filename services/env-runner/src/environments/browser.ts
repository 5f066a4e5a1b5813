// SPDX-License-Identifier: Apache-2.0
import { ACTION_FORMS, ACTION_SUBSETS, BrowserEnvironment, DEFAULT_SUBSETS, type WebTask } from "@whetstone/browser";
import { ConfigError, nearest, parseOrThrow } from "@whetstone/core";
import { defineEnvironment, type RegisteredEnvironment } from "@whetstone/sdk";
import { z } from "zod";
import type { Browsers } from "../browsers/browsers.ts";

const milliseconds = z.number().int().min(1).max(600_000);

const BrowserArgs = z.strictObject({
  miniwob: z
    .string()
    .min(1)
    .max(100)
    .optional()
    .describe('a task of MiniWoB++: "click-button"; usually it comes with the task'),
  actions: z
    .enum(ACTION_FORMS)
    .default("text")
    .describe("text: BrowserGym's grammar, for the agent web; tools: tool calls, for the agent tool"),
  actionSubsets: z
    .array(z.enum(ACTION_SUBSETS))
    .min(1)
    .max(ACTION_SUBSETS.length)
    .default([...DEFAULT_SUBSETS])
    .describe("what the agent may do, by BrowserGym's groups"),
  severalActions: z.boolean().default(false).describe("several actions may be given at once"),
  maxSteps: z.number().int().min(1).max(1000).default(10).describe("actions"),
  maxTreeCharacters: z
    .number()
    .int()
    .min(100)
    .max(1_000_000)
    .default(30_000)
    .describe("of a page's text; the rest is left out and the agent is told"),
  genericNodes: z
    .boolean()
    .default(false)
    .describe("elements without a meaning of their own (div, span) are shown, too: on some pages they are clicked"),
  setupTimeoutMs: milliseconds.default(60_000).describe("to open the first page"),
  stepTimeoutMs: milliseconds.default(60_000).describe("of one action, and of reading the page after it"),
  elementTimeoutMs: milliseconds.default(2_000).describe("how long an action waits for its element to be usable"),
  quietMs: z
    .number()
    .int()
    .min(0)
    .max(10_000)
    .default(50)
    .describe("after an action the page is looked at once it has not changed for so long"),
  maxQuietWaitMs: milliseconds.default(500).describe("a page that goes on changing is looked at after this time"),
  metadata: z.record(z.string(), z.unknown()).optional().describe("the dataset's other columns; not used"),
});

type BrowserArguments = z.output<typeof BrowserArgs>;

export function browserEnvironment(browsers: Browsers): RegisteredEnvironment {
  return defineEnvironment<BrowserArguments & { readonly task: WebTask }>({
    kind: "browser",
    description: "Pages of a browser, read as an accessibility tree: MiniWoB++.",
    seedable: true,
    parseArgs: (raw) => {
      const args = parseOrThrow(BrowserArgs, raw, "");
      if (browsers.missing !== undefined) throw new ConfigError([{ path: "", reason: browsers.missing }]);
      return { ...args, task: taskOf(args, browsers) };
    },
    argsSchema: z.toJSONSchema(BrowserArgs, { io: "input" }),
    create: (args) =>
      new BrowserEnvironment({
        pool: () => browsers.pool,
        task: args.task,
        form: args.actions,
        subsets: args.actionSubsets,
        severalActions: args.severalActions,
        maxSteps: args.maxSteps,
        maxTreeCharacters: args.maxTreeCharacters,
        withGeneric: args.genericNodes,
        times: {
          setupMs: args.setupTimeoutMs,
          stepMs: args.stepTimeoutMs,
          elementMs: args.elementTimeoutMs,
          quietMs: args.quietMs,
          mostMs: args.maxQuietWaitMs,
        },
      }),
  });
}

/** @throws ConfigError */
function taskOf({ miniwob: name }: BrowserArguments, { miniwob }: Browsers): WebTask {
  const refuse = (reason: string): ConfigError => new ConfigError([{ path: "miniwob", reason }]);
  if (name === undefined) throw refuse('name a task: "click-button"');
  if (typeof miniwob === "string") throw refuse(miniwob);
  if (miniwob.tasks.includes(name)) return miniwob.task(name);
  const near = nearest(name, miniwob.tasks);
  throw refuse(`there is no task "${name}"${near === undefined ? "" : `; did you mean "${near}"?`}`);
}
