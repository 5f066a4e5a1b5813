// SPDX-License-Identifier: Apache-2.0
// Certificates in the Secrets of a real cluster: filled, kept, renewed, by several at once.
import { execFileSync } from "node:child_process";
import { openKube, SECRETS } from "@whetstone/kube";
import { silentLogger as logger } from "@whetstone/telemetry";
import { afterAll, beforeAll, expect, it } from "vitest";
import { keepCertificates } from "../../services/controller/src/adapters/certificate-secrets.ts";

const NAMESPACE = `certificates-${process.pid}`;
const kubectl = (...args: string[]): string => execFileSync("kubectl", args, { encoding: "utf8" });
const wish = {
  authority: "r-ca",
  days: 90,
  leaves: [
    { role: "controller" as const, secret: "r-controller-tls", names: ["r-controller"] },
    { role: "client" as const, secret: "r-client", names: [] },
  ],
};

beforeAll(() => {
  kubectl("create", "namespace", NAMESPACE);
  for (const name of ["r-ca", "r-controller-tls", "r-client"])
    kubectl("-n", NAMESPACE, "create", "secret", "generic", name);
});
afterAll(() => {
  kubectl("delete", "namespace", NAMESPACE, "--wait=false");
});

it("fills empty Secrets once, whoever comes first, and mends what was damaged", async () => {
  using kube = openKube({ logger, namespace: NAMESPACE });
  // A Job and a controller at the same moment: one of them loses, and has nothing to do when it looks again.
  const outcomes = await Promise.allSettled([
    keepCertificates(kube, wish, logger),
    keepCertificates(kube, wish, logger),
  ]);
  expect(outcomes.map(({ status }) => status)).toContain("fulfilled");
  await keepCertificates(kube, wish, logger);
  expect(await keepCertificates(kube, wish, logger)).toBe(0);

  const files = (await kube.get(SECRETS, "r-client"))?.data ?? {};
  expect(Object.keys(files).sort()).toEqual(["ca.crt", "tls.crt", "tls.key"]);
  expect(Object.keys((await kube.get(SECRETS, "r-controller-tls"))?.data ?? {})).not.toContain("next.key");
  await kube.patch(SECRETS, "r-client", { data: { "tls.key": null } });
  expect(await keepCertificates(kube, wish, logger)).toBe(1);
  expect((await kube.get(SECRETS, "r-client"))?.data?.["ca.crt"]).toBe(files["ca.crt"]);
});

it("says which Secret is not there", async () => {
  using kube = openKube({ logger, namespace: NAMESPACE });
  await expect(keepCertificates(kube, { ...wish, authority: "other" }, logger)).rejects.toThrow(/no Secret .*\/other/);
});
