// SPDX-License-Identifier: Apache-2.0
import { sleep, WhetstoneError } from "@whetstone/core";
import { type Kube, openKube, reflect, type Secret, SECRETS, type Stored } from "@whetstone/kube";
import type { Notice } from "@whetstone/proto/trainer/v1/trainer";
import type { Logger } from "@whetstone/telemetry";
import { ROLES } from "@whetstone/tls";
import { z } from "zod";
import { keepCertificates, secretNames } from "./secrets.ts";
import type { DesiredCertificates } from "./plan.ts";
import type { OperatorParts } from "../parts.ts";

const EVERY_MS = 600_000;
const RETRY_MS = 2_000;
/** How long a status speaks of a certificate that was made again: by then it has reached every pod that waits for it. */
const NOTICE_MS = 60_000;
const ATTEMPTS = 30;
/** Whoever deletes one may be about to delete or to make more: an uninstallation, `helm upgrade`. */
const SETTLE_MS = 1_000;

type Said = Pick<Notice, "reason" | "message">;

const DesiredSchema: z.ZodType<DesiredCertificates> = z.strictObject({
  authority: z.string().min(1),
  days: z.number().min(1),
  labels: z.record(z.string(), z.string()).optional(),
  leaves: z.array(z.strictObject({ role: z.enum(ROLES), secret: z.string().min(1), names: z.array(z.string()) })),
});

/** WHETSTONE_CERTIFICATES, JSON: what the chart's `tls.mode: selfSigned` asks for. Undefined: somebody else makes them. */
export function desiredCertificates(text: string | undefined): DesiredCertificates | undefined {
  return text ? DesiredSchema.parse(JSON.parse(text)) : undefined;
}

/** `certificates`: makes what is missing and ends. A Job of every installation and upgrade, before any service can start. */
export async function makeCertificates(env: NodeJS.ProcessEnv, logger: Logger): Promise<void> {
  const desired = desiredCertificates(env["WHETSTONE_CERTIFICATES"]);
  if (desired === undefined) throw new WhetstoneError("INVALID_ARGUMENT", "WHETSTONE_CERTIFICATES is not set");
  using kube = openKube({ logger, namespace: env["WHETSTONE_KUBE_NAMESPACE"] });
  for (let attempt = 1; ; attempt += 1) {
    try {
      await keepCertificates(kube, desired, logger);
      return;
    } catch (error) {
      if (attempt === ATTEMPTS) throw error;
      logger.warn("certificates_not_made", { attempt, error });
    }
    await sleep(RETRY_MS);
  }
}

/** While this replica leads: renews them, and makes again what was deleted, emptied or damaged, as soon as that is seen. */
export function startCertificates(
  { kube, config, logger, notices }: Pick<OperatorParts, "kube" | "config" | "logger" | "notices">,
  signal: AbortSignal,
): Promise<AsyncDisposable> {
  const desired = desiredCertificates(config.certificates);
  const keeping = desired === undefined ? Promise.resolve() : keep(desired);
  return Promise.resolve({ [Symbol.asyncDispose]: () => keeping });

  async function keep(desired: DesiredCertificates): Promise<void> {
    using secrets = watchSecrets(kube, secretNames(desired), signal);
    let noticeUntil = 0;
    while (!signal.aborted) {
      const said = await pass(desired);
      if (said) noticeUntil = performance.now() + NOTICE_MS;
      if (said) notices.set("certificates", [said]);
      await secrets.changed(noticeUntil > performance.now() ? RETRY_MS : EVERY_MS);
      if (noticeUntil <= performance.now()) notices.set("certificates", []);
      await sleep(SETTLE_MS, signal).catch(() => undefined);
    }
  }

  /** @returns what people should know of it */
  async function pass(desired: DesiredCertificates): Promise<Said | undefined> {
    try {
      const { mended } = await keepCertificates(kube, desired, logger);
      return mended.length > 0 ? madeAgain(mended.map((name) => `${kube.namespace}/${name}`)) : undefined;
    } catch (error) {
      if (signal.aborted) return undefined;
      logger.warn("certificates_not_kept", { error });
      return {
        reason: "CertificatesNotMade",
        message: `Certificates could not be looked after: ${textOf(error)}. ${WAIT}`,
      };
    }
  }
}

const WAIT = "What starts meanwhile waits for its certificate, and what runs goes on with the one it has.";

function madeAgain(secrets: readonly string[]): Said {
  const which = secrets.length === 1 ? `Secret ${secrets[0]} was` : `Secrets ${secrets.join(", ")} were`;
  return { reason: "CertificateMadeAgain", message: `${which} missing or damaged, and made again. ${WAIT}` };
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** One watch for each: our rights are for these names only. */
function watchSecrets(
  kube: Kube,
  names: readonly string[],
  signal: AbortSignal,
): Disposable & { changed(withinMs: number): Promise<void> } {
  let change = Promise.withResolvers<void>();
  const onChange = (): void => change.resolve();
  // What is in them is read when it is needed: no key stays in memory.
  const trim = ({ metadata }: Stored<Secret>): Stored<Secret> => ({ metadata });
  const watches = names.map((name) =>
    reflect(kube, SECRETS, { fields: `metadata.name=${name}`, onChange, trim, signal }),
  );
  return {
    async changed(withinMs) {
      const over = new AbortController();
      await Promise.race([change.promise, sleep(withinMs, AbortSignal.any([signal, over.signal]))]).catch(
        () => undefined,
      );
      over.abort();
      change = Promise.withResolvers<void>();
    },
    [Symbol.dispose]: () => watches.forEach((watch) => watch[Symbol.dispose]()),
  };
}
