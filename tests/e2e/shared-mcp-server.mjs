// SPDX-License-Identifier: Apache-2.0
// A shared MCP server of the older generation, over streamable HTTP and with nothing installed: the program of a pod. Its tool says a word.
// It keeps no sessions, so that any replica answers.
const { createServer } = process.getBuiltinModule("node:http");

const TOOL = {
  name: "say",
  description: "Says a word.",
  inputSchema: { type: "object", properties: { word: { type: "string" } }, required: ["word"] },
};

const ANSWERS = {
  initialize: ({ protocolVersion }) => ({
    result: { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "words", version: "1" } },
  }),
  "tools/list": () => ({ result: { tools: [TOOL] } }),
  "tools/call": ({ arguments: { word } }) => ({ result: { content: [{ type: "text", text: `${word} and more` }] } }),
};

createServer((request, response) => {
  if (request.method !== "POST") return response.writeHead(405).end();
  let body = "";
  request.on("data", (part) => (body += part));
  return request.on("end", () => {
    const { id, method, params } = JSON.parse(body);
    if (id === undefined) return response.writeHead(202).end();
    const answer = ANSWERS[method]?.(params) ?? { error: { code: -32601, message: "unknown method" } };
    response.writeHead(200, { "content-type": "application/json" });
    return response.end(JSON.stringify({ jsonrpc: "2.0", id, ...answer }));
  });
}).listen(Number(process.env.PORT));
