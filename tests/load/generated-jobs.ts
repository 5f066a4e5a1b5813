// SPDX-License-Identifier: Apache-2.0
/**
 * Thousands of generated job specifications through a bare gRPC client against a local runtime of its own: each is refused
 * by path or accepted; some of the accepted are run, and each of those ends or is cancelled. Prints what it does on
 * standard error and one JSON line; exit status 1 when anything was not as it must be.
 *
 *   node tests/load/generated-jobs.ts --specs 10000 --run 100 --seed 1 --patience 60
 *
 * `--patience`: seconds that a job gets before it is cancelled.
 */
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { clone, type DescMessage, type Message } from "@bufbuild/protobuf";
import { reflect } from "@bufbuild/protobuf/reflect";
import { status } from "@grpc/grpc-js";
import { createRng, Gate } from "@whetstone/core";
import { type BareClient, openBareClient, type Refusal, refusalOf } from "../support/bare-client.ts";
import { generateSpecs, isPathOf, soundJobs } from "../support/generated-specs.ts";
import { type LocalRuntime, smallJob, startLocalRuntime } from "../support/local-runtime.ts";

const CANCEL_MS = 5_000;
const ORDINARY_MS = 180_000;
const AT_A_TIME = 4;
const FINISHED = /SUCCEEDED|FAILED|CANCELLED/;

const { values } = parseArgs({
  options: {
    specs: { type: "string", default: "10000" },
    run: { type: "string", default: "100" },
    seed: { type: "string", default: "1" },
    patience: { type: "string", default: "60" },
  },
});
const options = {
  specs: Number(values.specs),
  run: Number(values.run),
  seed: Number(values.seed),
  patienceMs: Number(values.patience) * 1000,
};

interface Checked {
  readonly accepted: { readonly spec: Message; readonly changes: readonly string[] }[];
  refused: number;
  slowestMs: number;
  readonly failures: string[];
}

const say = (text: string): void => void process.stderr.write(`${text}\n`);

async function main(): Promise<void> {
  const startedAt = performance.now();
  await using runtime = await startLocalRuntime();
  using client = await openBareClient(runtime.address("controller"));
  const before = processes(runtime);
  const checked = await checkAll(client, client.message("whetstone.jobs.v1.JobSpec"), runtime);
  say(`${checked.accepted.length} accepted, ${checked.refused} refused, ${checked.failures.length} neither`);
  const ran = await runSome(client, checked);
  const ordinary = await runOrdinary(client, runtime);
  const restarted = processes(runtime).filter((service, i) => service !== before[i]);
  const failures = [...checked.failures, ...ran.failures, ...restarted.map((service) => `restarted: ${service}`)];
  if (ordinary !== "SUCCEEDED") failures.push(`the ordinary job afterwards: ${ordinary}`);
  const line = {
    benchmark: "generated-jobs",
    ...options,
    accepted: checked.accepted.length,
    refused: checked.refused,
    slowestCheckMs: Math.round(checked.slowestMs),
    ran: ran.count,
    phases: ran.phases,
    slowestEndMs: Math.round(ran.slowestEndMs),
    cancelled: ran.cancelled,
    slowestCancelMs: Math.round(ran.slowestCancelMs),
    restarted: restarted.length,
    ordinary,
    failures: failures.length,
    firstFailures: failures.slice(0, 10),
    seconds: Math.round((performance.now() - startedAt) / 1000),
  };
  process.stdout.write(`${JSON.stringify(line)}\n`);
  process.exitCode = failures.length > 0 ? 1 : 0;
}

/** Dry runs: nothing is stored. */
async function checkAll(client: BareClient, schema: DescMessage, runtime: LocalRuntime): Promise<Checked> {
  const checked: Checked = { accepted: [], refused: 0, slowestMs: 0, failures: [] };
  const gate = new Gate(AT_A_TIME);
  const running = new Set<Promise<void>>();
  let done = 0;
  const one = async (spec: Message, changes: readonly string[]): Promise<void> => {
    const startedAt = performance.now();
    const answer = await client
      .send("SubmitJob", requestOf(client, spec, true))
      .catch((error: unknown) => refusalOf(error));
    checked.slowestMs = Math.max(checked.slowestMs, performance.now() - startedAt);
    const fault = "violations" in answer ? faultOf(answer as unknown as Refusal, schema) : undefined;
    if (fault !== undefined) checked.failures.push(`${changes.join("; ")}: ${fault}`);
    else if ("violations" in answer) checked.refused++;
    else checked.accepted.push({ spec, changes });
    if (++done % 500 === 0)
      say(`${done} specs, ${checked.accepted.length} accepted, ${checked.failures.length} failures`);
  };
  for (const { spec, changes } of generateSpecs(schema, soundJobs(runtime.model), {
    seed: options.seed,
    count: options.specs,
  })) {
    const slot = await gate.acquire();
    const work = one(spec, changes).finally(() => {
      slot[Symbol.dispose]();
      running.delete(work);
    });
    running.add(work);
  }
  await Promise.all(running);
  return checked;
}

/** What is wrong with a refusal. */
function faultOf({ code, details, violations }: Refusal, schema: DescMessage): string | undefined {
  if (status[code] !== "INVALID_ARGUMENT") return `${status[code] ?? code}: ${details}`;
  if (details.includes("the request cannot be decoded")) return undefined; // Nested beyond protobuf's own bound.
  if (violations.length === 0) return `no violations: ${details}`;
  const nowhere = violations.find(({ path, reason }) => !isPathOf(schema, path) && !/^and \d+ more/.test(reason));
  return nowhere && `no path of a job: "${nowhere.path}" (${nowhere.reason})`;
}

function requestOf(client: BareClient, spec: Message, dryRun: boolean): Message {
  const request = reflect(client.message("whetstone.jobs.v1.SubmitJobRequest"));
  const { spec: field, dryRun: flag } = request.desc.field;
  if (!field || !flag) throw new Error("SubmitJobRequest has other fields");
  request.set(field, reflect(client.message("whetstone.jobs.v1.JobSpec"), spec));
  request.set(flag, dryRun);
  return request.message;
}

async function runSome(client: BareClient, { accepted }: Checked) {
  const result = {
    count: 0,
    phases: {} as Record<string, number>,
    slowestEndMs: 0,
    cancelled: 0,
    slowestCancelMs: 0,
    failures: [] as string[],
  };
  const schema = client.message("whetstone.jobs.v1.JobSpec");
  for (const { spec, changes } of createRng(options.seed).shuffle(accepted).slice(0, options.run)) {
    const short = clone(schema, spec);
    atMostTwoSteps(schema, short);
    const name = `run-${options.seed}-${result.count++}`;
    setName(schema, short, name);
    const ended = await runOne(client, short, name).catch((error: unknown) => ({ fault: refusalOf(error).details }));
    if ("fault" in ended) {
      result.failures.push(`${changes.join("; ")}: ${ended.fault}`);
      continue;
    }
    result.phases[ended.phase] = (result.phases[ended.phase] ?? 0) + 1;
    if (ended.cancelMs === undefined) result.slowestEndMs = Math.max(result.slowestEndMs, ended.endMs);
    else {
      result.cancelled++;
      result.slowestCancelMs = Math.max(result.slowestCancelMs, ended.cancelMs);
    }
    say(`${name}: ${ended.phase} after ${Math.round(ended.endMs)} ms; ${changes.join("; ")} ${ended.message}`);
  }
  return result;
}

async function runOne(client: BareClient, spec: Message, name: string) {
  const startedAt = performance.now();
  await client.send("SubmitJob", requestOf(client, spec, false));
  let job = await finished(client, name, options.patienceMs);
  if (job) return { ...job, endMs: performance.now() - startedAt, cancelMs: undefined };
  const cancelledAt = performance.now();
  await client.call("CancelJob", { name });
  job = await finished(client, name, CANCEL_MS);
  const cancelMs = performance.now() - cancelledAt;
  if (!job) {
    await finished(client, name, 120_000); // The next one must not pay for it.
    return { fault: `not cancelled within ${CANCEL_MS} ms, but after ${Math.round(performance.now() - cancelledAt)}` };
  }
  return { ...job, endMs: cancelledAt - startedAt, cancelMs };
}

/** Undefined: not in this time. */
async function finished(client: BareClient, name: string, forMs: number) {
  const end = performance.now() + forMs;
  while (performance.now() < end) {
    const { job } = (await client.call("GetJob", { name })) as {
      job: { status?: { phase?: string; message?: string } };
    };
    const { phase = "", message = "" } = job.status ?? {};
    if (FINISHED.test(phase)) return { phase: phase.replace("JOB_PHASE_", ""), message };
    await delay(50);
  }
  return undefined;
}

async function runOrdinary(client: BareClient, runtime: LocalRuntime): Promise<string> {
  await client.call("SubmitJob", { spec: smallJob("ordinary", runtime.model) });
  return (await finished(client, "ordinary", ORDINARY_MS))?.phase ?? "not finished";
}

function setName(schema: DescMessage, spec: Message, name: string): void {
  const field = schema.field["name"];
  if (field) reflect(schema, spec).set(field, name);
}

function atMostTwoSteps(schema: DescMessage, spec: Message): void {
  const loop = reflect(schema, spec).get(schema.field["loop"] as never) as unknown as ReturnType<typeof reflect>;
  const steps = loop.desc.field["steps"];
  if (steps && (loop.get(steps) as number) > 2) loop.set(steps, 2);
}

/** Pid and crashes of every service. */
function processes(runtime: LocalRuntime): string[] {
  return runtime.services().map(({ name, pid, crashes }) => `${name} ${pid} ${crashes}`);
}

await main();
