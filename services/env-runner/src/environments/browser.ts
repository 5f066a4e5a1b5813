// SPDX-License-Identifier: Apache-2.0
import { BrowserEnvironment, checkSite, siteTask, type WebTask } from "@whetstone/browser";
import { ConfigError, nearest, parseOrThrow } from "@whetstone/core";
import { HOST_AND_PORT, MOST_REACHED } from "@whetstone/sandbox";
import { defineEnvironment, type RegisteredEnvironment } from "@whetstone/sdk";
import { OwnSiteTask, SITES } from "@whetstone/sites";
import { z } from "zod";
import type { Browsers } from "../browsers/browsers.ts";
import { BROWSER_SETTINGS, checkMarks, optionsOf } from "../browsers/browser-settings.ts";

const pattern = z
  .string()
  .min(1)
  .max(1000)
  .refine((text) => isPattern(text), "must be a regular expression");
const text = z.string().min(1).max(10_000);

const Check = z
  .strictObject({
    answer: z
      .array(text)
      .min(1)
      .max(20)
      .optional()
      .describe("what the agent's last message has to contain, each of these"),
    url: pattern.optional().describe("regular expression of the page's address"),
    texts: z
      .array(z.strictObject({ selector: text, contains: text }))
      .max(20)
      .optional()
      .describe("what elements have to contain, by CSS selector"),
  })
  .refine((check) => Object.values(check).some((part) => part !== undefined), "must say what has to hold");

const BrowserArgs = z.strictObject({
  miniwob: z
    .string()
    .min(1)
    .max(100)
    .optional()
    .describe('a task of MiniWoB++: "click-button"; usually it comes with the task'),
  site: z
    .enum(Object.keys(SITES) as [keyof typeof SITES, ...(keyof typeof SITES)[]])
    .optional()
    .describe("a site of ours instead, made anew for each episode"),
  siteGoal: z
    .string()
    .max(100)
    .optional()
    .describe("which of the site's goals (docs/browser.md). Default: drawn by the seed"),
  seed: z
    .number()
    .int()
    .min(0)
    .max(Number.MAX_SAFE_INTEGER)
    .optional()
    .describe(
      "of the page; with it all episodes of a task see the same page. Default: the episode's own, which is another in each",
    ),
  url: z
    .url({ protocol: /^https?$/u })
    .optional()
    .describe(
      "where to begin on a site, which is reached then; instead of miniwob. {seed} in it is the episode's seed",
    ),
  goal: text.optional().describe("what is to be done at url; usually it comes with the task"),
  check: Check.optional().describe("what has to hold at url, all of it: then the reward is 1"),
  network: z
    .array(z.string().max(300).regex(HOST_AND_PORT, "must be host:port"))
    .max(MOST_REACHED)
    .default([])
    .describe("host:port that pages may connect to beside url's own"),
  ...BROWSER_SETTINGS,
  metadata: z.record(z.string(), z.unknown()).optional().describe("the dataset's other columns; not used"),
});

type BrowserArguments = z.output<typeof BrowserArgs>;

export function browserEnvironment(browsers: Browsers): RegisteredEnvironment {
  return defineEnvironment<BrowserArguments & { readonly task: WebTask }>({
    kind: "browser",
    description:
      "Pages of a browser, read as an accessibility tree: tasks of MiniWoB++, a shop, a forum, or any site by its address.",
    seedable: true,
    parseArgs: (raw) => {
      const args = parseOrThrow(BrowserArgs, raw, "");
      checkMarks(args);
      if (browsers.missing !== undefined) throw new ConfigError([{ path: "", reason: browsers.missing }]);
      return { ...args, task: taskOf(args, browsers) };
    },
    argsSchema: z.toJSONSchema(BrowserArgs, { io: "input" }),
    create: (args) =>
      new BrowserEnvironment({ ...optionsOf(args), pool: () => browsers.pool, task: args.task, seed: args.seed }),
  });
}

/** @throws ConfigError */
function taskOf(args: BrowserArguments, browsers: Browsers): WebTask {
  const { miniwob: name, site, siteGoal, url, goal, check, network, viewport } = args;
  if ([name, site, url].filter((each) => each !== undefined).length !== 1)
    throw refused(
      "miniwob",
      "give one of miniwob, for a task of MiniWoB++, site, for one of ours, and url, for any other",
    );
  if (siteGoal !== undefined && site === undefined) throw refused("siteGoal", "belongs to site");
  if (url === undefined) {
    for (const path of OF_URL) if (args[path] !== undefined) throw refused(path, "belongs to url");
    if (network.length > 0) throw refused("network", "belongs to url");
    return site === undefined ? miniwobTask(name ?? "", browsers) : siteOfOurs(site, siteGoal);
  }
  if (goal === undefined) throw refused("goal", "say what is to be done at url");
  if (check === undefined) throw refused("check", "say what has to hold when it is done");
  return siteTask({ url, goal, network, viewport, check: checkSite(check) });
}

/** @throws ConfigError */
function siteOfOurs(site: keyof typeof SITES, goal: string | undefined): WebTask {
  const goals = Object.keys(SITES[site].goals);
  if (goal === undefined || goals.includes(goal)) return new OwnSiteTask(SITES[site], goal);
  throw refused("siteGoal", `the ${site} has no goal "${goal}"; there are: ${goals.join(", ")}`);
}

const OF_URL = ["goal", "check", "viewport"] as const;

function refused(path: string, reason: string): ConfigError {
  return new ConfigError([{ path, reason }]);
}

function isPattern(source: string): boolean {
  try {
    return new RegExp(source, "u") instanceof RegExp;
  } catch {
    return false;
  }
}

/** @throws ConfigError */
function miniwobTask(name: string, { miniwob }: Browsers): WebTask {
  const refuse = (reason: string): ConfigError => refused("miniwob", reason);
  if (typeof miniwob === "string") throw refuse(miniwob);
  if (miniwob.tasks.includes(name)) return miniwob.task(name);
  const near = nearest(name, miniwob.tasks);
  throw refuse(`there is no task "${name}"${near === undefined ? "" : `; did you mean "${near}"?`}`);
}
