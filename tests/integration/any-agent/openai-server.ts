// SPDX-License-Identifier: Apache-2.0
// An agent that knows nothing of Whetstone: a server with an `openai` client as it comes, told base URL and key with each task. It
// trusts the authority that NODE_EXTRA_CA_CERTS names, and has no certificate. Prints its URL, then what it was told.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import OpenAI from "openai";

interface Told {
  readonly task: { readonly id: string };
  readonly baseUrl: string;
  readonly apiKey: string;
  readonly model: string;
  readonly seed: number;
}

async function play({ task, baseUrl, apiKey, model, seed }: Told): Promise<object> {
  const client = new OpenAI({ baseURL: baseUrl, apiKey, maxRetries: 0 });
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: task.id }];
  let said = "";
  for (let turn = 0; turn < 2; turn += 1) {
    const asked = { model, messages, max_tokens: 4 };
    const completion =
      seed % 2 === 0
        ? await client.chat.completions.create(asked)
        : await client.chat.completions.stream(asked).finalChatCompletion();
    const text = completion.choices[0]?.message.content ?? "";
    said += text;
    messages.push({ role: "assistant", content: text }, { role: "user", content: "go on" });
  }
  return { reward: [...said].filter((letter) => letter < "a").length / 8 };
}

const server = createServer((request, response) => {
  let text = "";
  request.on("data", (chunk: Buffer) => (text += chunk.toString()));
  request.on("end", () => {
    const told = JSON.parse(text) as Told;
    console.log(JSON.stringify({ baseUrl: told.baseUrl, apiKey: told.apiKey }));
    play(told).then(
      (result) => response.end(JSON.stringify(result)),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
});
server.listen(0, "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}/play`);
});
