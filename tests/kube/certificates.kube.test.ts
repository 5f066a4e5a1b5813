// SPDX-License-Identifier: Apache-2.0
// Certificates in the Secrets of a real cluster: filled, kept, renewed, made again, by several at once.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Kube, openKube, SECRETS } from "@whetstone/kube";
import { silentLogger as logger } from "@whetstone/telemetry";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { keepCertificates } from "../../services/controller/src/operator/certificates/secrets.ts";
import { InstallationNotices } from "../../services/controller/src/operator/installation-notices.ts";
import type { Config } from "../../services/controller/src/config.ts";
import { startCertificates } from "../../services/controller/src/operator/certificates/reconciler.ts";
import { kubeconfigOf } from "../support/cluster.ts";

const NAMESPACE = `certificates-${process.pid}`;
const kubectl = (...args: string[]): string => execFileSync("kubectl", args, { encoding: "utf8" });
const desired = {
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
    keepCertificates(kube, desired, logger),
    keepCertificates(kube, desired, logger),
  ]);
  expect(outcomes.map(({ status }) => status)).toContain("fulfilled");
  await keepCertificates(kube, desired, logger);
  expect(await keepCertificates(kube, desired, logger)).toEqual({ written: [], mended: [] });

  const files = (await kube.get(SECRETS, "r-client"))?.data ?? {};
  expect(Object.keys(files).sort()).toEqual(["ca.crt", "tls.crt", "tls.key"]);
  expect(Object.keys((await kube.get(SECRETS, "r-controller-tls"))?.data ?? {})).not.toContain("next.key");
  await kube.patch(SECRETS, "r-client", { data: { "tls.key": null } });
  expect(await keepCertificates(kube, desired, logger)).toMatchObject({ mended: ["r-client"] });
  expect((await kube.get(SECRETS, "r-client"))?.data?.["ca.crt"]).toBe(files["ca.crt"]);
});

describe("the leader, with the rights that the chart gives it", () => {
  const folder = mkdtempSync(join(tmpdir(), "whetstone-certificates-"));
  const before = process.env["KUBECONFIG"];
  const stop = new AbortController();
  const notices = new InstallationNotices();
  let kube: Kube;
  let keeping: AsyncDisposable;
  const leaf = { role: "trainer" as const, secret: "test-trainer-tls", names: [] };
  const nats = { role: "nats" as const, secret: "test-nats-tls", names: [] };
  const labels = { "app.kubernetes.io/instance": "test" };
  const config = {
    certificates: JSON.stringify({ authority: "test-ca", days: 90, leaves: [leaf, nats], labels }),
  } as Config;
  const read = async (name: string) => {
    const text = kubectl("-n", NAMESPACE, "get", "secret", name, "--ignore-not-found", "-o", "json");
    return text === "" ? undefined : (JSON.parse(text) as { data?: Record<string, string>; metadata: object });
  };
  const file = async (name: string, key: string) => (await read(name))?.data?.[key] ?? "";
  const madeWithin30s = (what: string, done: () => Promise<boolean>) => waitFor(done, { timeoutMs: 30_000, what });

  beforeAll(async () => {
    process.env["KUBECONFIG"] = kubeconfigOf("controller", NAMESPACE, folder);
    kube = openKube({ logger, namespace: NAMESPACE });
    process.env["KUBECONFIG"] = before;
    keeping = await startCertificates({ kube, config, logger, notices }, stop.signal);
    await madeWithin30s("certificates", async () => (await file("test-nats-tls", "tls.key")) !== "");
  });
  afterAll(async () => {
    stop.abort();
    await keeping[Symbol.asyncDispose]();
    kube[Symbol.dispose]();
    rmSync(folder, { recursive: true });
  });

  it("makes a deleted, an emptied and a damaged certificate again within 30 s", async () => {
    const old = await file("test-trainer-tls", "tls.crt");
    kubectl("-n", NAMESPACE, "delete", "secret", "test-trainer-tls");
    await madeWithin30s("the deleted one", async () => !["", old].includes(await file("test-trainer-tls", "tls.crt")));
    const isSaid = () => notices.all().some(({ message }) => message.includes("test-trainer-tls was missing"));
    await waitFor(isSaid, { timeoutMs: 10_000, what: "a word of it" });
    expect((await read("test-trainer-tls"))?.metadata).toMatchObject({ labels });
    for (const data of [null, { "tls.crt": "dG9ybg==" }]) {
      kubectl("-n", NAMESPACE, "patch", "secret", "test-nats-tls", "--type=merge", "-p", JSON.stringify({ data }));
      const good = async () => (await file("test-nats-tls", "tls.crt")).length > 100;
      await madeWithin30s("the emptied or damaged one", good);
    }
  });

  it("makes a deleted authority again, and all go on trusting the lost one", async () => {
    const pem = async (name: string, key: string) => Buffer.from(await file(name, key), "base64").toString();
    const [ca, trainer] = [await pem("test-ca", "tls.crt"), await pem("test-trainer-tls", "tls.crt")];
    kubectl("-n", NAMESPACE, "delete", "secret", "test-ca");
    await madeWithin30s("the authority", async () => !["", ca].includes(await pem("test-ca", "tls.crt")));
    const next = await pem("test-ca", "tls.crt");
    const knowsBoth = async (name: string) => {
      const bundle = await pem(name, "ca.crt");
      return bundle.includes(ca) && bundle.includes(next);
    };
    await madeWithin30s("both in the bundles", async () => (await knowsBoth(leaf.secret)) && knowsBoth(nats.secret));
    expect(await pem("test-trainer-tls", "tls.crt")).toBe(trainer);
  });

  it("may make no other Secret", async () => {
    const other = { metadata: { name: "other", namespace: NAMESPACE } };
    await expect(kube.create(SECRETS, other)).rejects.toThrow(/forbidden/);
    await expect(kube.apply(SECRETS, other)).rejects.toThrow(/forbidden/);
    await expect(kube.list(SECRETS)).rejects.toThrow(/forbidden/);
  });
});
