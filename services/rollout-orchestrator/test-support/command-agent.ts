// SPDX-License-Identifier: Apache-2.0
// A program that knows nothing of this repository: it asks twice, and reports by the result file.
import { readFileSync, writeFileSync } from "node:fs";

const { env } = process;
const { id } = JSON.parse(readFileSync(env["WHETSTONE_TASK_FILE"] ?? "", "utf8")) as { id: string };

async function ask(content: string): Promise<string> {
  const answer = await fetch(`${env["OPENAI_BASE_URL"]}/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${env["OPENAI_API_KEY"]}` },
    body: JSON.stringify({ model: env["WHETSTONE_MODEL"], messages: [{ role: "user", content }] }),
  });
  return ((await answer.json()) as { choices: [{ message: { content: string } }] }).choices[0].message.content;
}

await ask(await ask(id));
writeFileSync(env["WHETSTONE_RESULT_FILE"] ?? "", JSON.stringify({ reward: 0.75 }));
