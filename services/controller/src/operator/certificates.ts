// SPDX-License-Identifier: Apache-2.0
import { sleep, WhetstoneError } from "@whetstone/core";
import { openKube } from "@whetstone/kube";
import type { Logger } from "@whetstone/telemetry";
import { ROLES } from "@whetstone/tls";
import { z } from "zod";
import { keepCertificates } from "../adapters/certificate-secrets.ts";
import type { CertificatesWish } from "../domain/certificate-plan.ts";
import type { OperatorParts } from "./operator.ts";

const EVERY_MS = 600_000;
const RETRY_MS = 2_000;
const ATTEMPTS = 30;

const WishSchema: z.ZodType<CertificatesWish> = z.strictObject({
  authority: z.string().min(1),
  days: z.number().min(1),
  leaves: z.array(z.strictObject({ role: z.enum(ROLES), secret: z.string().min(1), names: z.array(z.string()) })),
});

/** WHETSTONE_CERTIFICATES, JSON: what the chart's `tls.mode: selfSigned` asks for. Undefined: somebody else makes them. */
export function certificatesWish(text: string | undefined): CertificatesWish | undefined {
  return text ? WishSchema.parse(JSON.parse(text)) : undefined;
}

/** `certificates`: makes what is missing and ends. A Job of every installation and upgrade, before any service can start. */
export async function makeCertificates(env: NodeJS.ProcessEnv, logger: Logger): Promise<void> {
  const wish = certificatesWish(env["WHETSTONE_CERTIFICATES"]);
  if (wish === undefined) throw new WhetstoneError("INVALID_ARGUMENT", "WHETSTONE_CERTIFICATES is not set");
  using kube = openKube({ logger, namespace: env["WHETSTONE_KUBE_NAMESPACE"] });
  for (let attempt = 1; ; attempt += 1) {
    try {
      await keepCertificates(kube, wish, logger);
      return;
    } catch (error) {
      if (attempt === ATTEMPTS) throw error;
      logger.warn("certificates_not_made", { attempt, error });
    }
    await sleep(RETRY_MS);
  }
}

/** Renews them while this replica leads. */
export function startCertificates(
  { kube, config, logger }: OperatorParts,
  signal: AbortSignal,
): Promise<AsyncDisposable> {
  const wish = certificatesWish(config.certificates);
  const keeping = wish === undefined ? Promise.resolve() : keep();
  return Promise.resolve({ [Symbol.asyncDispose]: () => keeping });

  async function keep(): Promise<void> {
    while (!signal.aborted) {
      const done = await keepCertificates(kube, wish as CertificatesWish, logger).then(
        () => true,
        (error: unknown) => {
          logger.warn("certificates_not_kept", { error });
          return false;
        },
      );
      await sleep(done ? EVERY_MS : RETRY_MS * 10, signal).catch(() => undefined);
    }
  }
}
