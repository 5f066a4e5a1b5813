// SPDX-License-Identifier: Apache-2.0
import { ConfigError } from "@whetstone/core";
import { ALIVE_MS, type HttpServer, openMcpTools, PLACE_OF_SERVERS, type StdioServer } from "@whetstone/mcp";
import { HOST_AND_PORT, MOST_REACHED, ProcessBackend } from "@whetstone/sandbox";
import { defineEnvironment, EpisodeError, type RegisteredEnvironment } from "@whetstone/sdk";
import { ToolEnvironment } from "@whetstone/tools";
import { z } from "zod";
import { GradedArgs, type Judge, parseGraded, rewardFunctionOf, taskOf } from "./graded.ts";
import { LeastLevel } from "../sandboxes/choice.ts";
import type { Sandboxes } from "../sandboxes/sandboxes.ts";

const headerName = z.string().regex(/^[A-Za-z0-9-]{1,100}$/u, "must be the name of a header");
const milliseconds = z.number().int().min(1).max(600_000);

const McpArgs = GradedArgs.extend({
  command: z
    .array(z.string().max(4096))
    .min(1)
    .max(64)
    .optional()
    .describe(
      `starts a server of the episode's own, in a sandbox; ${PLACE_OF_SERVERS} is the env-runner's folder of servers`,
    ),
  env: z
    .record(z.string().regex(/^[A-Za-z_]\w*$/u), z.string().max(10_000))
    .default({})
    .describe("variables of the server's process, beside the sandbox's few"),
  files: z
    .record(z.string().min(1).max(500), z.string().max(1_000_000))
    .default({})
    .describe("texts in the server's /workspace, by path"),
  network: z
    .array(z.string().max(300).regex(HOST_AND_PORT, "must be host:port"))
    .max(MOST_REACHED)
    .default([])
    .describe("host:port that the server may connect to"),
  memoryMiB: z
    .number()
    .int()
    .min(32)
    .max(65_536)
    .default(2048)
    .describe("of the server's processes and files together; at level B Node needs 1,536"),
  sandboxLevel: LeastLevel,
  url: z
    .url({ protocol: /^https?$/u })
    .optional()
    .describe("of a server that speaks streamable HTTP and serves others too; instead of command"),
  headers: z.record(headerName, z.string().max(10_000)).default({}).describe("of every request to url"),
  episodeHeader: headerName.optional().describe("header with a random token, another for each episode"),
  tools: z.array(z.string().min(1).max(128)).min(1).max(128).optional().describe("what may be called. Default: all"),
  maxSteps: z.number().int().min(1).max(1000).default(10).describe("turns"),
  startTimeoutMs: milliseconds.default(30_000).describe("for the server to start and list its tools"),
  callTimeoutMs: milliseconds.default(30_000).describe("of one call"),
  maxOutputCharacters: z.number().int().min(10).max(1_000_000).default(8_000).describe("of one call's output"),
  maxMessageBytes: z
    .number()
    .int()
    .min(10_000)
    .max(16 * 2 ** 20)
    .default(2 ** 20)
    .describe("of one message of the server's; a longer one is its failure"),
});

type McpArguments = z.output<typeof McpArgs>;

/** Only of a process; only of a URL. */
const OF_COMMAND = ["env", "files", "network"] as const;

export interface McpEnvironmentOptions {
  readonly sandboxes: Sandboxes;
  readonly judge: Judge;
  /** Folder with installed servers. Undefined: there are only programs of the system, and those that jobs bring. */
  readonly serversPath: string | undefined;
}

export function mcpEnvironment({ sandboxes, judge, serversPath }: McpEnvironmentOptions): RegisteredEnvironment {
  return defineEnvironment<McpArguments>({
    kind: "mcp",
    description: "A question that may be answered with the tools of an MCP server.",
    parseArgs: (raw) => {
      const args = parseGraded(McpArgs, raw, judge);
      const violations = [...violationsOf(args, serversPath)];
      if (violations.length > 0) throw new ConfigError(violations);
      return args;
    },
    argsSchema: z.toJSONSchema(McpArgs, { io: "input" }),
    create: (args) =>
      new ToolEnvironment({
        task: taskOf(args),
        tools: () =>
          openMcpTools(serverOf(args, serversPath), { ...args, backend: () => processBackend(sandboxes, args) }),
        rewardFunction: rewardFunctionOf(args, judge),
        maxSteps: args.maxSteps,
        // The call ends by itself before, and then it is found out whether the server still answers.
        timeoutMs: args.callTimeoutMs + 2 * ALIVE_MS,
        maxOutputCharacters: args.maxOutputCharacters,
      }),
  });
}

function* violationsOf(args: McpArguments, serversPath: string | undefined) {
  const { command, url, headers, episodeHeader } = args;
  if ((command === undefined) === (url === undefined))
    yield { path: "command", reason: "give command, for a server of the episode's own, or url, for a shared one" };
  if (command === undefined) {
    for (const path of OF_COMMAND)
      if (Object.keys(args[path]).length > 0) yield { path, reason: "belongs to command, not to url" };
  } else {
    if (Object.keys(headers).length > 0) yield { path: "headers", reason: "belong to url, not to command" };
    if (episodeHeader !== undefined) yield { path: "episodeHeader", reason: "belongs to url, not to command" };
    const at = command.findIndex((word) => word.includes(PLACE_OF_SERVERS));
    if (at >= 0 && serversPath === undefined)
      yield { path: `command[${at}]`, reason: "this env-runner has no MCP servers (WHETSTONE_MCP_SERVERS_PATH)" };
  }
}

function serverOf(args: McpArguments, serversPath: string | undefined): StdioServer | HttpServer {
  const { command, url, headers, episodeHeader, env, files, network, memoryMiB } = args;
  if (command === undefined) return { url: url ?? "", headers, episodeHeader };
  return { command, env, files, serversPath, reach: network, memoryMiB };
}

async function processBackend(sandboxes: Sandboxes, { sandboxLevel, network }: McpArguments): Promise<ProcessBackend> {
  const backend = await sandboxes.backend({ sandbox: { backend: "process", network }, sandboxLevel });
  if (backend instanceof ProcessBackend) return backend;
  throw new EpisodeError("INFRASTRUCTURE", "an MCP server needs a sandbox on the env-runner's own machine");
}
