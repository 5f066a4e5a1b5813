// SPDX-License-Identifier: Apache-2.0
import { parseAnswer, renderTools } from "@whetstone/tools";
import type { Grammar } from "./grammar.ts";

/** Hermes and Qwen's <tool_call>, or the server's own; an answer without a call is the end. */
export const toolCallGrammar: Grammar = { outputRole: "tool", describe: renderTools, read: parseAnswer };
