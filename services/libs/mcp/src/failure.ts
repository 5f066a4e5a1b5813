// SPDX-License-Identifier: Apache-2.0
import { ProtocolError, ProtocolErrorCode } from "@modelcontextprotocol/client";
import { SandboxError } from "@whetstone/sandbox";
import { EpisodeError } from "@whetstone/sdk";
import { ToolError } from "@whetstone/tools";

// I6: whose fault it is. The model's (arguments that the server refuses, a tool's own error, a slow call of a server that still
// answers) is an output that it reads. What the server got wrong is ENVIRONMENT, what the sandbox got wrong INFRASTRUCTURE:
// neither says anything about the policy, so the episode is played again and never scored.

const MAX_CHARACTERS = 600;

/** @param during  what was asked of the server. @param why  what is known of its end */
export function serverFailed(during: string, error: unknown, why = ""): EpisodeError {
  if (error instanceof EpisodeError) return error;
  if (error instanceof SandboxError) return sandboxFailed(error);
  const said = error instanceof Error ? error.message : String(error);
  const parts = [said, why].filter((part) => part !== "").join("; ");
  return new EpisodeError("ENVIRONMENT", `MCP server, ${during}: ${parts.slice(0, MAX_CHARACTERS)}`, { cause: error });
}

export function sandboxFailed(error: SandboxError): EpisodeError {
  return new EpisodeError("INFRASTRUCTURE", `MCP server's sandbox: ${error.message}`, {
    code: error.code,
    cause: error,
  });
}

/** The server's word for arguments that it does not take: the one error of the protocol that is the model's. */
export function refusedArguments(error: unknown): ToolError | undefined {
  if (!(error instanceof ProtocolError) || error.code !== Number(ProtocolErrorCode.InvalidParams)) return undefined;
  return new ToolError(error.message.slice(0, MAX_CHARACTERS), { cause: error });
}
