// SPDX-License-Identifier: Apache-2.0
import { parseOrThrow } from "@whetstone/core";
import { z } from "zod";
import { defineRollout, type RegisteredRollout } from "../define.ts";
import { EpisodeError } from "../failure.ts";
import type { Task } from "../types.ts";
import { CODING_CLI_NAMES, CODING_CLIS } from "./coding-clis.ts";
import { CommandArgs, playCommand, type RunSandboxed } from "./command.ts";

const CodingCliArgs = CommandArgs.omit({ command: true }).extend({
  cli: z.enum(CODING_CLI_NAMES).describe("Which one it is"),
  program: z.string().startsWith("/").describe("Its path"),
  promptField: z.string().default("question").describe("The field of a task's payload that is its prompt"),
});

type Args = z.output<typeof CodingCliArgs>;

/** The built-in kind "coding-cli": a `command` that knows how the program is started. @param run  absent: there are no sandboxes here */
export function codingCliAgentIn(run?: RunSandboxed): RegisteredRollout {
  return defineRollout<Args>({
    kind: "coding-cli",
    description: `A coding command line, unmodified (${CODING_CLI_NAMES.join(", ")}), with the task's question as its prompt.`,
    parseArgs: (args) => parseOrThrow(CodingCliArgs, args, ""),
    argsSchema: z.toJSONSchema(CodingCliArgs, { io: "input" }),
    run: (input) => {
      const { cli, program, promptField, ...rest } = input.args;
      const command = ["sh", "-c", CODING_CLIS[cli], program, promptOf(input.task, promptField)];
      return playCommand(run, { ...input, args: { ...rest, command } });
    },
  });
}

function promptOf({ payload }: Task, field: string): string {
  const prompt = payload[field];
  if (typeof prompt === "string" && prompt !== "") return prompt;
  throw new EpisodeError("TASK", `payload.${field}: must be the prompt; agent.args.promptField names another field`);
}
