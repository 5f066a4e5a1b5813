// SPDX-License-Identifier: Apache-2.0
import { ACTION_FORMS, ACTION_SUBSETS, type BrowserEnvironmentOptions, DEFAULT_SUBSETS } from "@whetstone/browser";
import { ConfigError } from "@whetstone/core";
import type { BrowserSettings } from "@whetstone/sdk";
import { z } from "zod";

const milliseconds = z.number().int().min(1).max(600_000);

/** How pages are shown and acted on, whoever judges them. */
export const BROWSER_SETTINGS = {
  viewport: z
    .strictObject({ width: z.number().int().min(100).max(4000), height: z.number().int().min(100).max(4000) })
    .optional()
    .describe("CSS pixels of the window at url. Default: 1280 by 720"),
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
  screenshot: z.boolean().default(false).describe("a picture of the window beside each page's text, as PNG"),
  marks: z
    .boolean()
    .default(false)
    .describe("the ids of what can be used are drawn over the screenshot, each in a box (a set of marks)"),
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
};

/** Those of a task of a job's module. */
export const BrowserSettingsSchema: z.ZodType<Settings, BrowserSettings> = z.strictObject(BROWSER_SETTINGS);

type Settings = z.output<z.ZodObject<typeof BROWSER_SETTINGS>>;

/** @throws ConfigError */
export function checkMarks({ marks, screenshot }: Pick<Settings, "marks" | "screenshot">): void {
  if (!marks || screenshot) return;
  throw new ConfigError([{ path: "marks", reason: "are drawn over a screenshot: needs screenshot: true" }]);
}

export function optionsOf(settings: Settings): Omit<BrowserEnvironmentOptions, "pool" | "task"> {
  return {
    form: settings.actions,
    subsets: settings.actionSubsets,
    severalActions: settings.severalActions,
    maxSteps: settings.maxSteps,
    maxTreeCharacters: settings.maxTreeCharacters,
    withGeneric: settings.genericNodes,
    picture: settings.screenshot ? { marks: settings.marks } : undefined,
    times: {
      setupMs: settings.setupTimeoutMs,
      stepMs: settings.stepTimeoutMs,
      elementMs: settings.elementTimeoutMs,
      quietMs: settings.quietMs,
      mostMs: settings.maxQuietWaitMs,
    },
  };
}
