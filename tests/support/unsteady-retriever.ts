// SPDX-License-Identifier: Apache-2.0
// A retrieval server that is slow, breaks off or talks nonsense at one request of seven, and finds "<query> and more" at the others.
// It is a process of its own, since tests wait for commands without looking at anything else; GET says how many it spoiled.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface UnsteadyRetriever extends Disposable {
  readonly url: string;
  /** Requests that it spoiled, by kind. */
  spoiled(): Promise<Readonly<Record<(typeof KINDS)[number], number>>>;
}

const EVERY = 7;
const KINDS = ["slow", "dead", "lying"] as const;
const SLOW_MS = 4_000;

export async function startUnsteadyRetriever(): Promise<UnsteadyRetriever> {
  const child = spawn(process.execPath, [import.meta.filename], { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  const url = line.toString().trim();
  return {
    url,
    spoiled: async () => (await (await fetch(url)).json()) as Record<(typeof KINDS)[number], number>,
    [Symbol.dispose]: () => void child.kill("SIGKILL"),
  };
}

function serve(): void {
  const spoiled = { slow: 0, dead: 0, lying: 0 };
  let asked = 0;
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (request.method === "GET") return void response.end(JSON.stringify(spoiled));
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const { queries } = JSON.parse(Buffer.concat(parts).toString()) as { queries: string[] };
    const document = { contents: `Words\n${queries[0]} and more` };
    const found = JSON.stringify({ result: [[{ document, score: 1 }]] });
    asked += 1;
    const kind = asked % EVERY === 0 ? KINDS[(asked / EVERY) % KINDS.length] : undefined;
    if (kind !== undefined) spoiled[kind] += 1;
    if (kind === "dead") response.destroy();
    else if (kind === "lying") response.end('{"result": [[{"document": 3}]]}');
    else setTimeout(() => response.end(found), kind === "slow" ? SLOW_MS : 0);
  };
  const server = createServer((request, response) => void answer(request, response));
  server.listen(0, "127.0.0.1", () => {
    console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}/retrieve`);
  });
}

if (import.meta.main) serve();
