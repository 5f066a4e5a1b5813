// SPDX-License-Identifier: Apache-2.0
import { ConfigError } from "@whetstone/core";
import { defineEnvironment, type RegisteredEnvironment } from "@whetstone/sdk";
import {
  calculator,
  Corpus,
  CorpusCache,
  type InterpreterTool,
  type InterpreterToolOptions,
  JavaScriptTool,
  PythonTool,
  searchTool,
  type Tool,
  ToolEnvironment,
} from "@whetstone/tools";
import { z } from "zod";
import { GradedArgs, type Judge, parseGraded, rewardFunctionOf, taskOf } from "./graded.ts";
import { LeastLevel, SandboxChoice } from "../sandboxes/choice.ts";
import type { Sandboxes } from "../sandboxes/sandboxes.ts";

const Document = z.strictObject({
  id: z.string().min(1).max(200),
  title: z.string().max(1000).optional(),
  text: z.string().max(100_000),
});

const ToolArgs = GradedArgs.extend({
  tools: z
    .array(z.enum(["calculator", "search", "python", "javascript"]))
    .max(4)
    .default(["calculator"])
    .describe("what may be called"),
  corpus: z
    .union([z.string().min(1), z.array(Document).max(200)])
    .optional()
    .describe(
      "what search looks in: an artifact (artifact://tasks/…) or path of a JSONL file of {id, title?, text}, or documents",
    ),
  searchResults: z.number().int().min(1).max(10).default(3).describe("documents an answer of search has by default"),
  maxSteps: z.number().int().min(1).max(1000).default(10).describe("turns"),
  toolTimeoutMs: z.number().int().min(1).max(600_000).default(30_000).describe("of one call"),
  pythonMemoryMiB: z
    .number()
    .int()
    .min(32)
    .max(65_536)
    .default(512)
    .describe("of an episode's Python, its processes and files together"),
  javascriptMemoryMiB: z
    .number()
    .int()
    .min(128)
    .max(65_536)
    .default(2048)
    .describe("the same of its JavaScript; at levels B and C Node needs 1,536, most of which it only reserves"),
  sandboxLevel: LeastLevel,
  sandbox: SandboxChoice,
  maxOutputCharacters: z.number().int().min(10).max(1_000_000).default(8_000).describe("of one call's output"),
});

type ToolArguments = z.output<typeof ToolArgs>;

/** Corpora by path: shared by all episodes, none of which can change them. */
const corpora = new CorpusCache();

/** Beyond the time that code has: for the sandbox to start, and for code to be ended. */
const CODE_MORE_MS = 5_000;
/** What says that something was left out. */
const CUT_MARK = 60;

export function toolEnvironment(sandboxes: Sandboxes, judge: Judge): RegisteredEnvironment {
  return defineEnvironment<ToolArguments>({
    kind: "tool",
    description:
      "A question that may be answered with the help of tools: a calculator, a search over a corpus, Python, JavaScript.",
    seedable: true,
    parseArgs: (args) => {
      const parsed = parseGraded(ToolArgs, args, judge);
      if (!parsed.tools.includes("search") || parsed.corpus !== undefined) return parsed;
      throw new ConfigError([{ path: "corpus", reason: "search needs a corpus: a path or a list of documents" }]);
    },
    argsSchema: z.toJSONSchema(ToolArgs, { io: "input" }),
    create: (args) =>
      new ToolEnvironment({
        task: taskOf(args),
        tools: () => openTools(args, sandboxes),
        rewardFunction: rewardFunctionOf(args, judge),
        maxSteps: args.maxSteps,
        timeoutMs: args.toolTimeoutMs + (runsCode(args) ? CODE_MORE_MS : 0),
        maxOutputCharacters: args.maxOutputCharacters,
      }),
  });
}

function runsCode({ tools }: ToolArguments): boolean {
  return tools.includes("python") || tools.includes("javascript");
}

async function openTools(args: ToolArguments, sandboxes: Sandboxes): Promise<Tool[]> {
  const wanted = new Set(args.tools);
  const tools: Tool[] = wanted.has("calculator") ? [calculator] : [];
  if (wanted.has("search")) tools.push(searchTool(await corpusOf(args), { results: args.searchResults }));
  if (!runsCode(args)) return tools;
  const backend = await sandboxes.backend(args);
  const interpreters: InterpreterTool[] = [];
  if (wanted.has("python")) interpreters.push(new PythonTool(backend, codeOptions(args, args.pythonMemoryMiB)));
  if (wanted.has("javascript"))
    interpreters.push(new JavaScriptTool(backend, codeOptions(args, args.javascriptMemoryMiB)));
  for (const interpreter of interpreters) await interpreter.require();
  return [...tools, ...interpreters];
}

async function corpusOf({ corpus = [] }: ToolArguments): Promise<Corpus> {
  return typeof corpus === "string" ? await corpora.get(corpus) : new Corpus(corpus);
}

function codeOptions(
  { maxOutputCharacters, toolTimeoutMs, sandbox }: ToolArguments,
  memoryMiB: number,
): InterpreterToolOptions {
  const maxOutputBytes = Math.max(maxOutputCharacters - CUT_MARK, CUT_MARK);
  return { limits: { memoryMiB }, reach: sandbox.network, maxOutputBytes, timeoutMs: toolTimeoutMs };
}
