// SPDX-License-Identifier: Apache-2.0
// Episodes of the environment `mcp` by hand, through a real env-runner.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fromJson, type JsonObject, toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import type { Image } from "@whetstone/proto/types/v1/types";
import { createClient } from "@whetstone/rpc";
import { openSession, reset } from "../../../services/env-runner/test-support/session-client.ts";

export const SERVERS = join(import.meta.dirname, "../../../node_modules");
export const CLOSE = { kind: { case: "close", value: {} } } as const;
const ODD_SERVER = readFileSync(join(import.meta.dirname, "odd-server.mjs"), "utf8");
const NEWER_SERVER = readFileSync(join(import.meta.dirname, "newer-server.mjs"), "utf8");
const QUESTION = { question: "Which?", answer: "right", grader: "exact" };

interface Seen {
  readonly output: string;
  readonly isError: boolean;
}

/** Arguments for a server that goes wrong. */
export function odd(mode: string, marker: string, more: JsonObject = {}): JsonObject {
  return { command: ["node", "server.mjs", mode, marker], files: { "server.mjs": ODD_SERVER }, ...more };
}

export function newer(): JsonObject {
  const command = ["node", "server.mjs", "{servers}/@modelcontextprotocol/server/dist"];
  return { command, files: { "server.mjs": NEWER_SERVER } };
}

export function installed(name: string, ...args: string[]): JsonObject {
  return { command: ["node", `{servers}/@modelcontextprotocol/server-${name}/dist/index.js`, ...args] };
}

export class Episodes implements AsyncDisposable {
  readonly #client;

  constructor(address: string) {
    this.#client = createClient(EnvironmentService, address);
  }

  open(args: JsonObject) {
    const session = openSession(this.#client, { deadlineMs: 120_000 });
    /** One turn; its calls' outputs, or how the episode failed. */
    const turn = async (action: JsonObject[] | string): Promise<Turn> => {
      const value = typeof action === "string" ? { action } : { data: fromJson(ValueSchema, action) };
      return read(await session.ask({ kind: { case: "step", value } }));
    };
    return {
      reset: async (): Promise<Turn> => read(await session.ask(reset("mcp", { ...QUESTION, ...args }))),
      call: (name: string, args: JsonObject = {}) => turn([{ id: "c", name, argumentsJson: JSON.stringify(args) }]),
      answer: (text: string) => turn(text),
      close: async () => (await session.ask(CLOSE)).case,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client[Symbol.asyncDispose]();
  }
}

export interface Turn {
  readonly failed?: string;
  readonly field?: string;
  readonly message: string;
  readonly tools: readonly string[];
  readonly output: string;
  readonly isError: boolean;
  readonly images: readonly Image[];
  readonly reward: number | undefined;
  readonly info: JsonObject;
}

type Answer = Awaited<ReturnType<ReturnType<typeof openSession>["ask"]>>;

function read(answer: Answer): Turn {
  const nothing = { message: "", tools: [], output: "", isError: false, images: [], reward: undefined, info: {} };
  if (answer.case === "error")
    return { ...nothing, failed: String(answer.value.code), field: answer.value.field, message: answer.value.message };
  if (answer.case !== "observation") throw new Error(`no observation: ${answer.case}`);
  const { info = {}, reward, data, images } = answer.value;
  const tools = ((info["tools"] ?? []) as { function: { name: string } }[]).map((tool) => tool.function.name);
  const seen = data === undefined ? {} : (toJson(ValueSchema, data) as { toolOutputs?: Seen[] });
  const [first] = seen.toolOutputs ?? [];
  return { ...nothing, tools, output: first?.output ?? "", isError: first?.isError ?? false, images, reward, info };
}

/** Processes, of the host and of sandboxes, that have a word on their command line. */
export function processesWith(word: string): string[] {
  return readdirSync("/proc").filter((pid) => {
    try {
      return /^\d+$/u.test(pid) && readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(word);
    } catch {
      return false; // It ended meanwhile.
    }
  });
}
