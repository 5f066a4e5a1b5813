// SPDX-License-Identifier: Apache-2.0
import { type FieldRules, fieldsWith, HONOURED, IGNORED, refused } from "../field-rules.ts";

/** Every field of a message request that the gateway knows. */
export const REQUEST_FIELDS: FieldRules = new Map([
  ...fieldsWith(HONOURED, ["max_tokens", "messages", "model", "seed", "stop_sequences", "stream", "system"]),
  ...fieldsWith(HONOURED, ["temperature", "tool_choice", "tools", "top_k", "top_p"]),

  // Whether and how long a model thinks is its template's to say; its thoughts come as it writes them.
  ...fieldsWith(IGNORED, ["context_management", "metadata", "output_config", "service_tier", "thinking"]),

  ["container", refused([], "run tools in the agent")],
  ["mcp_servers", refused([[]], "call them in the agent")],
]);
