// SPDX-License-Identifier: Apache-2.0
export { ALIVE_MS } from "./connection.ts";
export type { McpTool } from "./mcp-tool.ts";
export { type McpToolsOptions, openMcpTools } from "./open-mcp-tools.ts";
export { type HttpServer, type McpLimits, PLACE_OF_SERVERS, type StdioServer } from "./settings.ts";
