// SPDX-License-Identifier: Apache-2.0
// What a careless or hostile client sends: sound requests with something wrong in them.
import type { Rng } from "@whetstone/core";
import type { Endpoint } from "./sound-requests.ts";

export interface Asked {
  readonly method: string;
  /** Below a session's, or the server's, root. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Buffer | undefined;
}

const deepList = (depth: number): unknown => (depth === 0 ? [] : [deepList(depth - 1)]);

const ODD: readonly unknown[] = [
  ...[
    null,
    true,
    false,
    0,
    -0,
    1,
    -1,
    0.5,
    1e308,
    -1e308,
    2 ** 53,
    2 ** 31,
    65,
    1000,
    "",
    " ",
    "0",
    "auto",
    "none",
    "required",
    "any",
  ],
  ...[
    "text",
    "json_object",
    "user",
    "assistant",
    "system",
    "tool",
    "developer",
    "forecast",
    "job",
    "__proto__",
    "constructor",
  ],
  ...[
    "\u0000",
    "\ud800",
    "\udc00x",
    "🙂".repeat(30),
    "<|im_end|>",
    "<|im_start|>system\n",
    "<tool_call>",
    "</think>",
    "{{ x }}",
    "{% raw %}",
  ],
  ...["x".repeat(5_000), "y".repeat(90_000), "\n".repeat(300), "../../etc/passwd", "%s%n", "null", "[]", "{", '{"a":'],
  ...[
    [],
    {},
    [[]],
    [null],
    [{}],
    [1, 2, 3],
    ["a", "b"],
    { a: 1 },
    { type: "text" },
    { type: "function" },
    { role: "user" },
  ],
  ...[
    { type: "text", text: 5 },
    { role: "assistant" },
    { role: "assistant", tool_calls: [null] },
    { toString: 1 },
    { length: -1 },
  ],
  ...[
    { role: "assistant", tool_calls: [{ function: { name: "forecast", arguments: "[1" } }] },
    { $ref: "#" },
    deepList(60),
    deepList(70),
  ],
  ...[Array.from({ length: 3_000 }, () => 1), Array.from({ length: 700 }, () => ({ role: "user", content: "x" }))],
];

const FIELDS =
  "model messages input prompt system instructions tools tool_choice response_format text reasoning stop stop_sequences stream n seed " +
  "max_tokens max_completion_tokens max_output_tokens temperature top_p top_k min_p logprobs top_logprobs logit_bias store " +
  "previous_response_id chat_template_kwargs stream_options thinking metadata functions audio role content tool_calls tool_call_id " +
  "name arguments type id call_id output parameters input_schema return_token_ids parallel_tool_calls echo best_of suffix __proto__ toString";
const NAMES = FIELDS.split(" ");

/** One to three things wrong with a request, of its body, its text, its headers or its path. */
export function mutated(rng: Rng, { method, path, bodies }: Endpoint): Asked {
  const body = bodies.length === 0 ? undefined : (JSON.parse(JSON.stringify(rng.choice(bodies))) as object);
  let asked: Asked = { method, path, headers: { "content-type": "application/json" }, body: undefined };
  let value: unknown = body;
  let text: string | Buffer | undefined;
  for (let left = 1 + rng.integer(3); left > 0; left--) {
    const where = body === undefined ? 17 + rng.integer(4) : rng.integer(20);
    if (where < 16) value = withChange(rng, value);
    else if (where < 17) text = withBrokenText(rng, text ?? JSON.stringify(value));
    else asked = where < 19 ? withHeader(rng, asked) : withPath(rng, asked);
  }
  if (body === undefined) return asked;
  return { ...asked, body: text ?? JSON.stringify(value) };
}

/** Something at a random place of a value is something else. */
function withChange(rng: Rng, value: unknown): unknown {
  if (typeof value !== "object" || value === null) {
    // Half of the time what may well be right.
    const alike = ODD.filter((odd) => typeof odd === typeof value);
    return rng.choice(rng.integer(2) === 0 && alike.length > 0 ? alike : ODD);
  }
  const keys = Object.keys(value);
  const inner = rng.integer(4) > 0 && keys.length > 0;
  if (!inner) return changedHere(rng, value as Record<string, unknown>);
  const key = rng.choice(keys);
  const changed = withChange(rng, (value as Record<string, unknown>)[key]);
  if (Array.isArray(value)) return value.map((one: unknown, i) => (String(i) === key ? changed : one));
  return { ...value, [key]: changed };
}

function changedHere(rng: Rng, value: Record<string, unknown>): unknown {
  const keys = Object.keys(value);
  const key = keys.length > 0 ? rng.choice(keys) : "a";
  const odd = rng.choice(ODD);
  if (Array.isArray(value)) {
    const list: unknown[] = value;
    return rng.choice([
      [...list, odd],
      list.slice(1),
      [...list, ...list],
      [odd, ...list],
      list.toReversed(),
      { ...list },
      odd,
    ]);
  }
  const { [key]: taken, ...rest } = value;
  return rng.choice([
    rest,
    { ...value, [rng.choice(NAMES)]: odd },
    { ...rest, [rng.choice(NAMES)]: taken },
    [value],
    odd,
    { ...value, [key]: [taken] },
  ]);
}

function withBrokenText(rng: Rng, text: string | Buffer): Buffer {
  const bytes = Buffer.from(text);
  const at = rng.integer(bytes.length + 1);
  const junk = Buffer.from(Array.from({ length: 1 + rng.integer(8) }, () => rng.integer(256)));
  switch (rng.integer(6)) {
    case 5:
      return Buffer.alloc(0);
    case 0:
      return bytes.subarray(0, at);
    case 1:
      return Buffer.concat([bytes.subarray(0, at), junk, bytes.subarray(at)]);
    case 2:
      return Buffer.concat([bytes, bytes]);
    case 3:
      return Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), bytes]);
    default:
      if (at < bytes.length) bytes[at] = rng.integer(256);
      return bytes;
  }
}

/** Values that HTTP allows. None makes a call end early: that would be answered 504, rightly. */
const HEADERS: readonly (readonly [string, readonly string[]])[] = [
  [
    "content-type",
    ["", "text/plain", "application/json; charset=latin1", "multipart/form-data", "x", ";;;", "application/*"],
  ],
  ["x-whetstone-timeout-ms", ["", "0", "-1", "1e9", "abc", "99999999999999", "60000"]],
  ["x-whetstone-role", ["", "x".repeat(3000), "judge", "__proto__"]],
  ["x-whetstone-idempotency-key", ["", "1", "x".repeat(3000)]],
  ["accept", ["", "text/html", "application/x-protobuf", "x".repeat(2000)]],
  ["content-encoding", ["gzip", "br", "identity"]],
  ["anthropic-version", ["", "1"]],
  ["x-request-id", ["", "x".repeat(2000)]],
  ["authorization", ["", "Bearer", "Bearer ", "Basic eDp5", "Bearer unknown", `Bearer ${"k".repeat(5000)}`]],
  ["x-api-key", ["", "unknown", "EMPTY"]],
  ["x-whetstone-relayed", ["1", ""]],
  ["cookie", ["a=b", "x".repeat(17_000)]],
];

function withHeader(rng: Rng, asked: Asked): Asked {
  const [name, values] = rng.choice(HEADERS);
  if (name === "content-type" && rng.integer(3) === 0) {
    const { "content-type": _, ...others } = asked.headers;
    return { ...asked, headers: others };
  }
  return { ...asked, headers: { ...asked.headers, [name]: rng.choice(values) } };
}

const PATH_ENDS = [
  "?",
  "?a=b",
  "?%",
  "/",
  "/x",
  "/job",
  "/%ff",
  "/%2e%2e",
  "/..%2f",
  "%00",
  "//",
  ";x",
  "/job%",
  "/__proto__",
  `/${"m".repeat(3000)}`,
  "?close=true",
];

function withPath(rng: Rng, asked: Asked): Asked {
  const methods = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"];
  if (rng.integer(3) === 0) return { ...asked, method: rng.choice(methods) };
  return { ...asked, path: asked.path + rng.choice(PATH_ENDS) };
}
