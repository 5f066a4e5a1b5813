// SPDX-License-Identifier: Apache-2.0
// A server of the newer generation, of the official library, whose folder is its first argument.
const [folder] = process.argv.slice(2);
const { McpServer, fromJsonSchema } = await import(`${folder}/index.mjs`);
const { serveStdio } = await import(`${folder}/stdio.mjs`);

serveStdio(() => {
  const server = new McpServer({ name: "newer", version: "1" });
  const inputSchema = fromJsonSchema({ type: "object", properties: { a: { type: "integer" } }, required: ["a"] });
  const outputSchema = fromJsonSchema({ type: "object", properties: { twice: { type: "integer" } } });
  server.registerTool("double", { inputSchema, outputSchema }, ({ a }) => ({
    content: [],
    structuredContent: { twice: 2 * a },
  }));
  return server;
});
