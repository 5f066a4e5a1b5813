// SPDX-License-Identifier: Apache-2.0
// Faults of volumes and of certificates. Each must be named in the job's status within ten seconds while its cause lasts, and
// training must go on within a minute after that.
import { setTimeout as delay } from "node:timers/promises";

import { kubectl } from "./cluster.ts";
import { type Jobs, until } from "./jobs.ts";
import { deleteNow, pods } from "./pods.ts";
import { NAMESPACE, whet } from "./whet.ts";
import { fill, free, harmOptimizer, lackVolumes, type VolumeName } from "./volumes.ts";

const NAMED_MS = 10_000;
const FULL_MS = 20_000;
export const SOON_MS = 60_000;

export interface StorageFault {
  readonly name: string;
  readonly lacks?: string | undefined;
  readonly withinMs: number;
  inject(): Promise<number>;
}

/** @param kill  ends a part's process and waits until it has started again */
export function storageFaults(job: string, jobs: Jobs, kill: (part: string) => Promise<void>): StorageFault[] {
  const volume = (name: string, inject: () => Promise<number>): StorageFault => ({
    ...{ name, inject, withinMs: SOON_MS, lacks: lackVolumes },
  });
  return [
    volume("data volume full 20 s", () => full("data", /(space|full).*\/data/is, job, jobs)),
    volume("NATS volume full 20 s", () => full("nats", /NATS.*(refuse|write).*space/is, job, jobs)),
    volume("newest optimizer file gone", () => harmed("rm $file", job, jobs, kill)),
    volume("a byte flipped in the newest optimizer file", () => harmed(FLIP, job, jobs, kill)),
    ...certificates().map(({ secret, part }) => ({
      name: `certificate deleted: ${secret}`,
      withinMs: SOON_MS,
      inject: () => withoutCertificate(secret, part, job, jobs),
    })),
  ];
}

/** Of the byte in the middle, every bit. */
const FLIP = [
  "at=$(($(stat -c %s $file) / 2))",
  "byte=$(od -An -tu1 -j $at -N 1 $file)",
  `printf "\\\\$(printf %03o $((byte ^ 255)))" | dd of=$file bs=1 seek=$at conv=notrunc status=none`,
].join(" && ");

async function full(name: VolumeName, named: RegExp, job: string, jobs: Jobs): Promise<number> {
  const end = performance.now() + FULL_MS;
  fill(name);
  try {
    await isNamed(named, job, jobs);
    await statusSays(named);
    await delay(Math.max(0, end - performance.now()));
  } finally {
    free(name);
  }
  return performance.now();
}

async function harmed(change: string, job: string, jobs: Jobs, kill: (part: string) => Promise<void>): Promise<number> {
  const uid = (await jobs.find(job))?.uid;
  if (!uid) throw new Error(`${job} is not there`);
  const killed = kill("trainer");
  harmOptimizer(uid, change); // The old process is dead, and the new one has not read anything yet.
  await killed;
  const doneAt = performance.now();
  await isNamed(/checkpoint/i, job, jobs);
  return doneAt;
}

/** A pod that needs it starts meanwhile. The leader's own must not go before it has made its certificate again. */
async function withoutCertificate(secret: string, part: string | undefined, job: string, jobs: Jobs): Promise<number> {
  const before = uidOf(secret);
  kubectl("-n", NAMESPACE, "delete", "secret", secret);
  const pod = part === undefined || part === "controller" ? undefined : pods(part)[0];
  if (pod) deleteNow(pod);
  await isNamed(new RegExp(secret), job, jobs);
  await until(`${secret} is there again`, 30_000, () => ![undefined, before].includes(uidOf(secret)));
  const doneAt = performance.now();
  if (part === "controller") for (const one of pods(part)) deleteNow(one);
  return doneAt;
}

/** Of the record, or of the object: NATS, which has the records, may be what is amiss. */
async function isNamed(pattern: RegExp, job: string, jobs: Jobs): Promise<void> {
  let last = "";
  await until(`the status of ${job} names ${pattern}`, NAMED_MS, async () => {
    last = `${(await jobs.find(job))?.status?.message ?? ""} ${objectSays()}`;
    return pattern.test(last);
  }).catch((error: unknown) => {
    throw new Error(`${(error as Error).message}; it said "${last}"`, { cause: error });
  });
}

/** What an operator looks at: the object, and `whet status`. */
async function statusSays(pattern: RegExp): Promise<void> {
  await until(`a TrainingJob's status names ${pattern}`, NAMED_MS, () => pattern.test(objectSays()));
  const { output } = whet("status");
  if (!pattern.test(output)) throw new Error(`whet status does not name ${pattern}: ${output}`);
}

function objectSays(): string {
  return kubectl("-n", NAMESPACE, "get", "trainingjobs", "-o", "jsonpath={.items[*].status.message}");
}

/** The authority's last: what it signs from then on is not known everywhere for up to two minutes. */
function certificates(): { secret: string; part: string | undefined }[] {
  const label = "app.kubernetes.io/component=certificates";
  const names = kubectl("-n", NAMESPACE, "get", "secrets", "-l", label, "-o", "name").trim().split("\n");
  const running = new Set(pods().map(({ part }) => part));
  const isAuthority = (name: string): number => Number(name.endsWith("-ca"));
  const inTurn = names.filter(Boolean).sort((a, b) => isAuthority(a) - isAuthority(b));
  return inTurn.map((name) => {
    const secret = name.replace(/^secret\//, "");
    const part = /-([a-z-]+)-tls$/.exec(secret.replace(/^[^-]+/, ""))?.[1];
    return { secret, part: part !== undefined && running.has(part) ? part : undefined };
  });
}

function uidOf(secret: string): string | undefined {
  const args = ["-n", NAMESPACE, "get", "secret", secret, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}"];
  return kubectl(...args) || undefined;
}
