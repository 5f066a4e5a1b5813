// SPDX-License-Identifier: Apache-2.0
export { TOOL_SYSTEM_PROMPT, ToolAgent, type ToolAgentOptions } from "./tool-agent.ts";
export { FINISH, ToolEnvironment, type ToolEnvironmentOptions, type ToolOutputs } from "./tool-environment.ts";
export { calculator } from "./calculator.ts";
export { Corpus, CorpusCache, type CorpusDocument, type Found, loadCorpus, type Searcher } from "./corpus.ts";
export { type InterpreterTool, type InterpreterToolOptions } from "./interpreter-tool.ts";
export { JavaScriptTool } from "./javascript.ts";
export { PythonTool } from "./python.ts";
export { searchTool, type SearchToolOptions } from "./search.ts";
export { type ParsedAnswer, parseAnswer, parseToolCalls, renderTools } from "./tool-calls.ts";
export { toolCallFormatReward } from "./tool-call-reward.ts";
export { type ParsedToolCall, type ToolLimits, type ToolOutput, ToolRegistry } from "./tool-registry.ts";
export {
  defineTool,
  FinalOutput,
  OutputWithImages,
  Tool,
  type ToolDefinition,
  type ToolDescription,
  ToolError,
  type ToolRunOptions,
} from "./tool.ts";
