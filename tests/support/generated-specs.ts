// SPDX-License-Identifier: Apache-2.0
// Job specifications made from the contract's descriptor: sound ones with extremes at some of their fields.
import {
  create,
  type DescField,
  type DescMessage,
  fromJson,
  type JsonObject,
  type Message,
  ScalarType,
} from "@bufbuild/protobuf";
import { reflect, type ReflectMessage } from "@bufbuild/protobuf/reflect";
import { type Struct, StructSchema, type Value, ValueSchema } from "@bufbuild/protobuf/wkt";
import { createRng, type Rng } from "@whetstone/core";

/** Fields from the root to one that holds a value. */
export type FieldPath = readonly DescField[];

export interface GeneratedSpec {
  readonly spec: Message;
  /** What was done to the sound spec, for people: `loop.steps = 4294967295`. */
  readonly changes: readonly string[];
}

const UINT32 = [0, 1, 2, 3, 4, 7, 8, 9, 16, 33, 1000, 1024, 1025, 65_536, 1_000_001, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1];
const UINT64 = [0n, 1n, 2n, 3n, 1000n, 2n ** 31n, 2n ** 32n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 63n, 2n ** 64n - 1n];
const INT64 = [0n, 1n, -1n, -5n, 60n, 86_400n, 2n ** 31n, 315_576_000_001n, 2n ** 63n - 1n, -(2n ** 63n)];
const INT32 = [0, 1, -1, 500_000_000, 999_999_999, 1_000_000_000, 2 ** 31 - 1, -(2 ** 31)];
const DOUBLES = [
  0,
  -0,
  1,
  -1,
  0.5,
  0.999,
  2,
  1e-320,
  1e-30,
  1e-6,
  1e6,
  1e30,
  Number.MAX_VALUE,
  -1e9,
  NaN,
  Infinity,
  -Infinity,
];
const ENUMS = [0, 1, 2, 3, 77, 99, -1, 2 ** 31 - 1, -(2 ** 31)];
const TEXTS = [
  ...[
    "",
    "a",
    "A",
    "ä",
    "a.b",
    "a/b",
    "a b",
    "a\nb",
    "a\0b",
    " ",
    "*",
    ">",
    "-",
    "a-",
    "_",
    "ws.>",
    "🎲",
    "\u202e",
    "%s%n",
  ],
  ...[
    "../..",
    "/",
    "/etc/passwd",
    "/nowhere/at/all",
    "{}",
    "null",
    "__proto__",
    "constructor",
    "frozenlake",
    "math",
    "command",
  ],
  ...["http://127.0.0.1:1", "file:///etc/passwd", "a".repeat(64), "a".repeat(5000), "0".repeat(64), "JUDGE_API_KEY"],
];
const ARGUMENTS: readonly JsonObject[] = [
  {},
  { a: 1 },
  { size: 1e300 },
  { size: -1 },
  { size: NaN },
  { maxSteps: Infinity },
  { variant: "" },
  { "": null, __proto__x: [[]] },
  { list: Array.from({ length: 1000 }, (_, i) => i) },
  { text: "x".repeat(200_000) },
  nested(40),
  nested(90),
];

/** The same seed gives the same specs. `bases`: sound jobs in protobuf's JSON form. */
export function* generateSpecs(
  schema: DescMessage,
  bases: readonly JsonObject[],
  { seed, count }: { readonly seed: number; readonly count: number },
): Generator<GeneratedSpec> {
  const rng = createRng(seed);
  const paths = [...pathsOf(schema)];
  for (let i = 0; i < count; i++) {
    const spec = fromJson(schema, { ...rng.choice(bases), name: `gen-${seed}-${i}` });
    // The first ones go through the fields, one by one; the others change one field or a few.
    const chosen = i < paths.length ? [paths[i] as FieldPath] : pick(paths, rng);
    yield { spec, changes: chosen.map((path) => change(reflect(schema, spec), path, rng)) };
  }
}

function pick(paths: readonly FieldPath[], rng: Rng): FieldPath[] {
  const count = rng.choice([1, 1, 1, 2, 2, 3, 5]);
  return Array.from({ length: count }, () => rng.choice(paths));
}

/** Every field below a message; messages themselves, too: they may be absent. */
export function* pathsOf(desc: DescMessage, before: FieldPath = []): Generator<FieldPath> {
  for (const field of desc.fields) {
    const path = [...before, field];
    yield path;
    if (field.message && field.message.typeName !== StructSchema.typeName) yield* pathsOf(field.message, path);
  }
}

function change(root: ReflectMessage, path: FieldPath, rng: Rng): string {
  const name = path.map((field) => field.localName).join(".");
  if (rng.integer(8) === 0 || isPlainMessage(path.at(-1) as DescField)) {
    const isEmpty = rng.integer(2) === 0;
    apply(root, path, (parent, field) =>
      isEmpty && field.fieldKind === "message" ? setEmpty(parent, field) : parent.clear(field),
    );
    return `${name} ${isEmpty ? "empty" : "absent"}`;
  }
  let shown = "";
  apply(root, path, (parent, field) => {
    const value = extreme(field, rng);
    shown = show(value);
    if (field.fieldKind === "list") setList(parent, field, value, rng);
    else
      parent.set(field, field.fieldKind === "message" ? reflect(StructSchema, structOf(value as JsonObject)) : value);
  });
  return `${name} = ${shown}`;
}

const isPlainMessage = (field: DescField): boolean =>
  field.message !== undefined && field.message.typeName !== StructSchema.typeName;

function setEmpty(parent: ReflectMessage, field: DescField & { fieldKind: "message" }): void {
  parent.set(field, reflect(field.message));
}

/** Makes what is missing on the way: a message where there is none, a first member where a list is empty. */
function apply(
  message: ReflectMessage,
  [field, ...rest]: FieldPath,
  change: (parent: ReflectMessage, field: DescField) => void,
): void {
  if (!field) return;
  if (rest.length === 0) return change(message, field);
  if (field.fieldKind === "list") {
    const list = message.get(field);
    if (list.size === 0) list.add(reflect(field.message as DescMessage));
    return apply(list.get(0) as ReflectMessage, rest, change);
  }
  const inner = message.get(field) as ReflectMessage;
  apply(inner, rest, change);
  message.set(field, inner);
}

function setList(parent: ReflectMessage, field: DescField & { fieldKind: "list" }, value: unknown, rng: Rng): void {
  const list = parent.get(field);
  for (let i = rng.choice([1, 2, 100]); i > 0; i--) list.add(value);
}

function extreme(field: DescField, rng: Rng): unknown {
  if (field.enum) return rng.choice(ENUMS);
  if (field.message) return rng.choice(ARGUMENTS);
  switch (field.scalar) {
    case ScalarType.BOOL:
      return rng.integer(2) === 0;
    case ScalarType.STRING:
      return rng.choice(TEXTS);
    case ScalarType.BYTES:
      return new Uint8Array(rng.choice([0, 1, 5000]));
    case ScalarType.UINT32:
      return rng.choice(UINT32);
    case ScalarType.UINT64:
      return rng.choice(UINT64);
    case ScalarType.INT32:
      return rng.choice(INT32);
    case ScalarType.INT64:
      return rng.choice(INT64);
    case ScalarType.DOUBLE:
      return rng.choice(DOUBLES);
    default:
      throw new Error(`no extremes of ${field.parent.typeName}.${field.name}: add its type`);
  }
}

function nested(depth: number): JsonObject {
  return depth === 0 ? {} : { a: nested(depth - 1) };
}

/** protobuf's own conversion refuses numbers that JSON does not have; the wire has them. */
function structOf(json: JsonObject): Struct {
  return create(StructSchema, { fields: Object.fromEntries(Object.entries(json).map(([k, v]) => [k, valueOf(v)])) });
}

function valueOf(json: JsonObject[string]): Value {
  if (json === null) return create(ValueSchema, { kind: { case: "nullValue", value: 0 } });
  if (typeof json === "number") return create(ValueSchema, { kind: { case: "numberValue", value: json } });
  if (typeof json === "string") return create(ValueSchema, { kind: { case: "stringValue", value: json } });
  if (typeof json === "boolean") return create(ValueSchema, { kind: { case: "boolValue", value: json } });
  if (Array.isArray(json))
    return create(ValueSchema, { kind: { case: "listValue", value: { values: json.map(valueOf) } } });
  return create(ValueSchema, { kind: { case: "structValue", value: structOf(json) } });
}

function show(value: unknown): string {
  if (value instanceof Uint8Array) return `${value.length} bytes`;
  if (typeof value === "bigint" || typeof value === "number") return String(value);
  const text = JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 60)}… (${text.length})` : text;
}

/** Whether a path leads to a field of the message; inside free-form arguments, anything does. */
export function isPathOf(schema: DescMessage, path: string): boolean {
  const [head = "", ...rest] = path.split(".");
  const field = schema.fields.find(({ localName }) => localName === head.replace(/\[\d+\]$/, ""));
  if (!field) return false;
  if (rest.length === 0 || field.message?.typeName === StructSchema.typeName) return true;
  return field.message !== undefined && isPathOf(field.message, rest.join("."));
}

/** Small jobs of every kind, with most of the contract's fields set. */
export function soundJobs(model: string): JsonObject[] {
  const environment = { kind: "frozenlake", args: { size: 4, observation: "compact", maxSteps: 4 } };
  const base = {
    name: "sound",
    model: { path: model },
    agent: { kind: "frozenlake", args: { variant: "compact" } },
    environment,
    sampling: { temperature: 1, maxTokens: 2 },
    limits: {
      ...{ maxSteps: 4, maxPromptTokens: 64, maxResponseTokens: 8, enforcePromptLimitEachStep: true },
      ...{ episodeTimeout: "60s", retryLimit: 1, gamma: 1, phaseTimeouts: { reset: "20s", step: "20s", close: "2s" } },
    },
    seed: "3",
    timeout: "600s",
    weight: 2,
  };
  const optimizer = {
    learningRate: 0.001,
    beta1: 0.9,
    beta2: 0.95,
    gradientClip: 1,
    warmupSteps: 1,
    finalRateShare: 0.5,
  };
  const grpo = {
    ...base,
    train: { seeds: { first: "1", count: "1000" }, shuffleSeed: "1", take: "100", repeat: 1 },
    algorithm: {
      policyGradient: {
        groupSize: 2,
        clipLow: 0.2,
        correction: { cap: 2, floor: 0.5, reject: [{ statistic: "REJECTION_STATISTIC_SEQ_MEAN_K3", high: 0.01 }] },
        kl: { coefficient: 0.01, appliedTo: "KL_PLACE_REWARD", target: 0.1, horizon: 1000 },
        optimizer,
        batching: { miniBatches: 1, epochs: 1 },
      },
    },
    loop: { steps: 2, batchGroups: 2, maxPolicyLag: 0, checkpointEvery: 1, groupPolicy: { partial: { minSize: 2 } } },
    roles: [{ name: "agent", advantage: "ADVANTAGE_ESTIMATOR_RLOO" }],
  };
  const variants = [
    { name: "greedy", attempts: 2, sampling: { temperature: 0 } },
    { name: "cut", sampling: { topP: 0.9, topK: 20 } },
  ];
  const validation = {
    dataset: { seeds: { first: "5", count: "4" } },
    everySteps: 1,
    atEnd: true,
    concurrency: 2,
    variants,
  };
  return [grpo, { ...grpo, validation }, { ...base, loop: { steps: 0 }, validation }];
}
