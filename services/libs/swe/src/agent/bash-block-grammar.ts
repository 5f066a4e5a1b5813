// SPDX-License-Identifier: Apache-2.0
import { splitThinking } from "@whetstone/sdk";
import { SUBMIT } from "../tools/bash-tool.ts";
import { badCall, type Grammar } from "./grammar.ts";

// mini-swe-agent's: exactly one block of a shell command in an answer.

const BLOCK = /^```(?:mswea_bash_command|bash|sh)[ \t]*\n([\s\S]*?)^```[ \t]*$/gmu;

export const bashBlockGrammar: Grammar = {
  outputRole: "user",
  describe: () => `Answer with your reasoning, followed by exactly one command in a block of its own:

\`\`\`bash
grep -rn "def parse" src | head
\`\`\`

You are told the command's exit code and output, and answer with the next one. Each command runs in a new shell in the root of the
repository: files stay, \`cd\` and variables do not. When you are done, submit with this command alone:

\`\`\`bash
echo ${SUBMIT}
\`\`\``,

  read(response, { reasoning }, turn) {
    const { thought, answer } = splitThinking(response);
    const blocks = [...answer.matchAll(BLOCK)].map(([, command = ""]) => command.trim());
    const [command = ""] = blocks;
    const found = {
      thought: reasoning ?? [thought, answer.replace(BLOCK, "").trim()].filter(Boolean).join("\n"),
      text: "",
    };
    if (blocks.length === 1 && command !== "") {
      const call = { id: `call_${turn}_0`, name: "bash", argumentsJson: JSON.stringify({ command }) };
      return { ...found, calls: [call] };
    }
    const what = blocks.length === 1 ? "the block is empty" : `there were ${blocks.length} blocks`;
    const form = "```bash\n<command>\n```";
    return {
      ...found,
      calls: [badCall(turn, `the answer must hold exactly one command, and ${what}. Write:\n${form}`)],
    };
  },
};
