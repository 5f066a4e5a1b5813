// SPDX-License-Identifier: Apache-2.0
import { X509Certificate } from "node:crypto";
import { expect, it } from "vitest";
import { type DesiredCertificates, planCertificates, type SecretData } from "./plan.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const START = new Date("2026-01-01T00:00:00Z");
const desired: DesiredCertificates = {
  authority: "ca",
  days: 90,
  leaves: [
    { role: "controller", secret: "c", names: ["rel-controller", "10.0.0.1"] },
    { role: "trainer", secret: "t", names: [] },
  ],
};

/** A cluster's Secrets, and every pass over them. */
class World {
  readonly secrets = new Map<string, SecretData>();
  at = START.getTime();

  pass(afterMs = 0, wanted = desired): string[] {
    this.at += afterMs;
    const writes = planCertificates(wanted, this.secrets, new Date(this.at));
    for (const [name, data] of writes) this.secrets.set(name, data);
    return [...writes.keys()];
  }

  file(secret: string, file: string): string {
    return this.secrets.get(secret)?.[file] ?? "";
  }

  /** Every leaf is trusted by every bundle. */
  get trusted(): boolean {
    const bundles = ["c", "t"].map((name) => this.file(name, "ca.crt").split(/(?<=-----END CERTIFICATE-----\n)/));
    return ["c", "t"].every((name) => {
      const leaf = new X509Certificate(this.file(name, "tls.crt"));
      return bundles.every((bundle) => bundle.some((ca) => leaf.verify(new X509Certificate(ca).publicKey)));
    });
  }
}

it("makes all that is missing, once", () => {
  const world = new World();
  expect(world.pass()).toEqual(["ca", "c", "t"]);
  expect(world.trusted).toBe(true);
  expect(new X509Certificate(world.file("c", "tls.crt")).subjectAltName).toBe(
    "DNS:controller.whetstone, DNS:rel-controller, IP Address:10.0.0.1",
  );
  expect(world.file("c", "tls.key")).not.toBe("");
  expect(Object.keys(world.secrets.get("c") ?? {})).not.toContain("next.key");
  expect(world.pass(DAY)).toEqual([]);
});

it("renews a leaf when a third of its life is left, under the same authority", () => {
  const world = new World();
  world.pass();
  const before = world.file("ca", "tls.crt");
  expect(world.pass(59 * DAY)).toEqual([]);
  expect(world.pass(2 * DAY)).toEqual(["c", "t"]);
  expect(world.file("ca", "tls.crt")).toBe(before);
  expect(world.trusted).toBe(true);
});

it("makes a leaf anew when its names change, or it was damaged", () => {
  const world = new World();
  world.pass();
  const [controller, trainer] = desired.leaves as [(typeof desired.leaves)[0], (typeof desired.leaves)[0]];
  const moved = { ...desired, leaves: [controller, { ...trainer, names: ["elsewhere"] }] };
  expect(world.pass(0, moved)).toEqual(["t"]);
  world.secrets.set("c", { ...world.secrets.get("c"), "tls.key": "torn" });
  expect(world.pass(0, moved)).toEqual(["c"]);
});

it("changes the authority without a moment of distrust", () => {
  const world = new World();
  world.pass();
  const first = world.file("ca", "tls.crt");
  world.secrets.set("ca", { ...world.secrets.get("ca"), rotate: "now" });
  expect(world.pass(DAY)).toEqual(["ca", "c", "t"]); // All learn the next one.
  expect(world.file("ca", "tls.crt")).toBe(first);
  const leafBefore = world.file("t", "tls.crt");
  expect(world.pass(HOUR / 2)).toEqual([]);
  expect(world.file("t", "tls.crt")).toBe(leafBefore);
  // It signs now. Who has not got a new leaf yet is trusted still.
  expect(world.pass(HOUR)).toEqual(["ca", "c", "t"]);
  expect(world.file("ca", "tls.crt")).not.toBe(first);
  expect(new X509Certificate(leafBefore).verify(new X509Certificate(first).publicKey)).toBe(true);
  expect(world.file("c", "ca.crt")).toContain(first);
  expect(world.pass(HOUR / 2)).toEqual([]);
  expect(world.pass(HOUR)).toEqual(["ca", "c", "t"]); // The first is forgotten.
  expect(world.file("c", "ca.crt")).not.toContain(first);
  expect(world.trusted).toBe(true);
  expect(world.pass(DAY)).toEqual([]);
});

it.each([
  ["deleted", () => undefined],
  ["emptied", () => ({})],
  ["damaged", (data: SecretData) => ({ ...data, "tls.key": "torn" })],
])("makes a new authority without a moment of distrust when the old one is %s", (_, harm) => {
  const world = new World();
  world.pass();
  const [first, leaf] = [world.file("ca", "tls.crt"), world.file("t", "tls.crt")];
  const harmed = harm(world.secrets.get("ca") ?? {});
  if (harmed) world.secrets.set("ca", harmed);
  else world.secrets.delete("ca");
  expect(world.pass(DAY)).toEqual(["ca", "c", "t"]); // Leaves stay, and learn the new one beside the old one.
  expect(world.file("ca", "tls.crt")).not.toBe(first);
  expect(world.file("t", "tls.crt")).toBe(leaf);
  expect(world.file("t", "ca.crt")).toContain(first);
  expect(world.trusted).toBe(true);
  expect(world.pass(HOUR / 2)).toEqual([]);
  world.secrets.delete("c"); // One that is made now is of the new one: all know it.
  expect(world.pass()).toEqual(["c"]);
  expect(world.trusted).toBe(true);
  expect(world.pass(HOUR)).toEqual(["t"]);
  expect(world.trusted).toBe(true);
  expect(world.pass(2 * HOUR)).toEqual(["ca", "c", "t"]); // The lost one is forgotten.
  expect(world.file("c", "ca.crt")).not.toContain(first);
  expect(world.trusted).toBe(true);
  expect(world.pass(DAY)).toEqual([]);
});

it("makes a deleted certificate again, of the same authority, and leaves the others alone", () => {
  const world = new World();
  world.pass();
  const before = world.file("ca", "tls.crt");
  world.secrets.delete("t");
  expect(world.pass()).toEqual(["t"]);
  expect(world.file("ca", "tls.crt")).toBe(before);
  expect(world.trusted).toBe(true);
});

it("does not stumble over a certificate that is no certificate while the authority changes", () => {
  const world = new World();
  world.pass();
  world.secrets.delete("ca");
  world.pass();
  world.secrets.set("t", { ...world.secrets.get("t"), "tls.crt": "torn", "ca.crt": "torn" });
  expect(world.pass()).toEqual(["t"]);
  expect(world.trusted).toBe(true);
});

it("changes the authority by itself before it ends", () => {
  const world = new World();
  world.pass();
  const first = world.file("ca", "tls.crt");
  for (let hours = 0; hours < 3650 * 24; hours += 24 * 20) {
    world.pass(20 * DAY);
    expect(world.trusted).toBe(true);
  }
  expect(world.file("ca", "tls.crt")).not.toBe(first);
});
