// SPDX-License-Identifier: Apache-2.0
// A `command` agent in its sandbox calls the model with its key, and is led to no other session's key or calls.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { canHaveSandboxes } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type LocalRuntime, startLocalRuntime } from "../../support/local-runtime.ts";

/** Ends with what it saw where that is not what it should, which fails the job. */
const PROGRAM = `
import json, os, urllib.error, urllib.request
base, own = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]
root = base.removesuffix("/v1")
message = {"role": "user", "content": "hi"}
body = json.dumps({"model": os.environ["WHETSTONE_MODEL"], "messages": [message], "max_tokens": 4}).encode()

def ask(url, key):
    headers = {"authorization": "Bearer " + key, "content-type": "application/json"}
    try:
        return urllib.request.urlopen(urllib.request.Request(url, body, headers)).status
    except urllib.error.HTTPError as error:
        return error.code

chat = "/v1/chat/completions"
seen = [ask(root + chat, own), ask(root + chat, "none"), ask(root + "/s/other/key", own), ask(root + "/s/other" + chat, "none")]
if seen != [200, 401, 404, 404]:
    raise SystemExit(f"{base}: {seen}")
json.dump({"reward": 1}, open(os.environ["WHETSTONE_RESULT_FILE"], "w"))
`;

describe.runIf(canHaveSandboxes)("a program in a sandbox", () => {
  let runtime: LocalRuntime;
  beforeAll(async () => {
    runtime = await startLocalRuntime();
  }, 120_000);
  afterAll(() => runtime?.[Symbol.asyncDispose](), 30_000);

  it("plays with its own key, and finds no way to another's", () => {
    const args = { command: ["python3", "-c", PROGRAM], exitCodes: { "1": "TASK" } };
    const job = {
      name: "program",
      agent: { kind: "command", args },
      train: { seeds: { first: "1", count: "1000" } },
      algorithm: { policyGradient: { groupSize: 4 } },
      loop: { steps: 1, batchGroups: 2 },
      sampling: { temperature: 1, maxTokens: 8 },
      limits: { episodeTimeout: "60s" },
    };
    const file = join(runtime.data, "program.json");
    writeFileSync(file, JSON.stringify(job));
    const { status, output } = runtime.whet("train", file);
    expect(status, output).toBe(0);
    const sound = { trained: 8, voided: 0, lost: 0, duplicated: 0, stale: 0, unlabelled: 0 };
    expect(runtime.whet("jobs", "audit", "program").json).toMatchObject(sound);
  }, 120_000);
});
