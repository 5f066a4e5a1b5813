// SPDX-License-Identifier: Apache-2.0
import type { ToolSpec } from "@whetstone/sdk";
import { describe, expect, it } from "vitest";
import { bashBlockGrammar } from "./bash-block-grammar.ts";
import { functionGrammar } from "./function-grammar.ts";
import { SWE_INSTANCE_TEMPLATE, SWE_SYSTEM_TEMPLATE, SweAgent } from "./swe-agent.ts";

const EDITOR: ToolSpec = {
  type: "function",
  function: {
    name: "file_editor",
    description: "Edits.",
    parameters: {
      type: "object",
      properties: {
        command: { type: "string", enum: ["view", "insert"], description: "What." },
        new_str: { type: "string" },
        insert_line: { type: "integer" },
        view_range: { type: "array" },
        concise: { type: "boolean" },
      },
      required: ["command"],
    },
  },
};

const read = (text: string) => functionGrammar.read(text, {}, 3, [EDITOR]);
const argumentsOf = (text: string): unknown => JSON.parse(read(text).calls[0]?.argumentsJson ?? "null");

describe("<function=…>", () => {
  it("is read with the types that the tool asks for, and text as it is", () => {
    const text = `I insert.
<function=file_editor>
<parameter=command> insert </parameter>
<parameter = new_str >
    return 1

</parameter>
<parameter=insert_line>12</parameter>
<parameter=view_range>[1, -1]</parameter>
<parameter=concise>True</parameter>
</function>
<function=file_editor><parameter=command>view</parameter></function>`;
    const { thought, calls } = read(text);
    expect({ thought, names: calls.map(({ id, name }) => `${id} ${name}`) }).toEqual({
      thought: "I insert.",
      names: ["call_3_0 file_editor"],
    });
    const args = { command: "insert", new_str: "    return 1\n", insert_line: 12, view_range: [1, -1], concise: true };
    expect(argumentsOf(text)).toEqual(args);
  });

  it("keeps the indentation of one line", () => {
    expect(argumentsOf("<function=file_editor><parameter=new_str>    x = 1</parameter></function>")).toEqual({
      new_str: "    x = 1",
    });
  });

  it.each(["(3, 4)", "3 4", "3,4"])("reads the range %s", (range) => {
    const text = `<function=file_editor><parameter=view_range>${range}</parameter></function>`;
    expect(argumentsOf(text)).toEqual({ view_range: [3, 4] });
  });

  it("leaves what it cannot read to the tool's own check", () => {
    const text =
      "<function=file_editor><parameter=insert_line>last</parameter><parameter=concise>maybe</parameter></function>";
    expect(argumentsOf(text)).toEqual({ insert_line: "last", concise: "maybe" });
  });

  it.each([
    ["I am done.", /calls no function/u],
    ["", /calls no function/u],
    ["<function=file_editor><parameter=command>view", /has no end/u],
    ["<function=file_editor>view</function>", /"view" stands outside of a parameter/u],
    ["<function=file_editor><parameter=command>a</parameter><parameter=command>b</parameter></function>", /twice/u],
  ])("tells what is wrong with %j", (text, problem) => {
    expect(read(text).calls).toMatchObject([{ name: "", problem: expect.stringMatching(problem) }]);
  });

  it("reads no call in the model's thinking", () => {
    const text = "<think><function=file_editor></function></think>No call.";
    expect(read(text)).toMatchObject({ calls: [{ problem: expect.stringMatching(/calls no function/u) }] });
  });
});

describe("one block of bash", () => {
  it.each(["bash", "sh", "mswea_bash_command"])("marked %s is a call", (mark) => {
    const { thought, calls } = bashBlockGrammar.read(
      `Look.\n\n\`\`\`${mark}\nls\ncat <<'X'\n\`\`\`x\nX\n\`\`\`\n`,
      {},
      0,
      [],
    );
    expect({ thought, calls: calls.map(({ argumentsJson }) => JSON.parse(argumentsJson) as unknown) }).toEqual({
      thought: "Look.",
      calls: [{ command: "ls\ncat <<'X'\n```x\nX" }],
    });
  });

  it.each([
    ["no block", /there were 0 blocks/u],
    ["```bash\nls\n```\n```bash\nls\n```", /there were 2 blocks/u],
    ["```bash\n\n```", /the block is empty/u],
    ["```python\nprint()\n```", /there were 0 blocks/u],
  ])("tells what is wrong with %j", (text, problem) => {
    expect(bashBlockGrammar.read(text, {}, 0, []).calls).toMatchObject([{ problem: expect.stringMatching(problem) }]);
  });
});

describe("an agent", () => {
  const templates = { systemTemplate: SWE_SYSTEM_TEMPLATE, instanceTemplate: SWE_INSTANCE_TEMPLATE };
  const options = { ...templates, grammar: "function", stepsLeft: true, warnAtTokens: 100 } as const;

  it("is told of its tools, its task, and what is left", () => {
    const agent = new SweAgent(options);
    agent.reset();
    agent.updateFromEnv({ question: "It has {tools}." }, 0, false, { tools: [EDITOR], turns: 2, maxSteps: 9 });
    agent.updateFromModel("x", {});
    const toolOutputs = [{ toolCallId: "a", name: "", output: "Error: no.", isError: true }];
    agent.updateFromEnv({ toolOutputs }, 0, false, { maxSteps: 9, curTokens: 100 });
    const [system, task, answer, output] = agent.chatCompletions;
    expect(system?.content).toMatch(
      /## file_editor[\s\S]*command \(string, required\): What\. One of: view, insert\.[\s\S]*## finish/u,
    );
    expect(task?.content).toMatch(/<issue>\nIt has \{tools\}\.\n<\/issue>/u);
    expect(answer).toEqual({ role: "assistant", content: "x" });
    expect(output).toEqual({
      role: "user",
      content: expect.stringMatching(/^Error: no\.\nSteps left: 1\. Submit[\s\S]*hardly any room/u),
    });
  });
});
