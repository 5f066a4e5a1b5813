// SPDX-License-Identifier: Apache-2.0
// How long others wait for the gateway while it has a message of 15 MB: refused unread where every model's context is short,
// tokenised in a thread where it might fit. One JSON line a case. `node services/inference-gateway/bench/long-message.ts`
import { once } from "node:events";
import { loadavg } from "node:os";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { Pool } from "undici";
import { path, serveGateway, type ServedGateway } from "./served-gateway.ts";

const BYTES = 15_000_000;
const EVERY_MS = 20;
for (const context of [32_768, 1_048_576]) process.stdout.write(`${JSON.stringify(await measure(context))}\n`);

async function measure(context: number) {
  const nodeArgs = ["--import", path("watch-busy.ts")];
  await using gateway = await serveGateway({ nodeArgs, maxModelLen: context });
  const pool = new Pool(gateway.url, { connections: 4 });
  const long = body("0123456789abcde ".repeat(BYTES / 16));
  await chat(pool, long); // Whatever is loaded or compiled for it once.
  const others = askShort(pool);
  await delay(2_000);
  await busyMs(gateway);
  const usual = others.longestMs();
  const startedAt = performance.now();
  const answer = await chat(pool, long);
  const seconds = (performance.now() - startedAt) / 1000;
  await delay(2_000); // Whoever waited last has its answer then.
  const longest = others.longestMs();
  const busy = await busyMs(gateway);
  await others.end();
  await pool.close();
  const round = (value: number): number => Number(value.toFixed(1));
  const said = { longestBusyMs: round(busy), longestAnswerMs: round(longest), longestAnswerBeforeMs: round(usual) };
  return { bench: "long-message", context, answer, seconds: round(seconds), ...said, load: round(loadavg()[0] ?? 0) };
}

function body(content: string): string {
  return JSON.stringify({ model: "job", messages: [{ role: "user", content }], max_tokens: 4 });
}

async function chat(pool: Pool, text: string): Promise<number> {
  const headers = { "content-type": "application/json" };
  const { statusCode, body: answer } = await pool.request({
    method: "POST",
    path: "/v1/chat/completions",
    headers,
    body: text,
  });
  await answer.text();
  return statusCode;
}

/** Short calls, one after the other, until `end`. */
function askShort(pool: Pool) {
  let [longestMs, open] = [0, true];
  const asking = (async () => {
    while (open) {
      const startedAt = performance.now();
      await chat(pool, body("short"));
      longestMs = Math.max(longestMs, performance.now() - startedAt);
      await delay(EVERY_MS);
    }
  })();
  return {
    /** Since the last time. */
    longestMs: (): number => {
      const longest = longestMs;
      longestMs = 0;
      return longest;
    },
    end: async (): Promise<void> => {
      open = false;
      await asking;
    },
  };
}

/** See watch-busy.ts. */
async function busyMs({ process: gateway }: ServedGateway): Promise<number> {
  if (!gateway.stdout) throw new Error("no stream");
  const lines = createInterface({ input: gateway.stdout });
  const line = once(lines, "line");
  gateway.kill("SIGUSR2");
  const [text] = (await line) as [string];
  lines.close();
  return Number(text.split(" ")[1]);
}
