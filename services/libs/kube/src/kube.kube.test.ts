// SPDX-License-Identifier: Apache-2.0
// Against a real API server.
import { ConfigError, WhetstoneError } from "@whetstone/core";
import { createMetrics, silentLogger } from "@whetstone/telemetry";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { setCondition } from "./conditions.ts";
import { recordEvent } from "./events.ts";
import { addFinalizer, removeFinalizer } from "./finalizers.ts";
import { type Kube, openKube } from "./kube.ts";
import { CONFIG_MAPS, type KubeObject, LEASES, NAMESPACES, ownedBy, PODS, resource } from "./objects.ts";

const namespace = `a-kube-${process.pid}`;
const metrics = createMetrics({ component: "test", processMetrics: false });
let kube: Kube;
beforeAll(async () => {
  kube = openKube({ logger: silentLogger, metrics, namespace });
  await kube.create(NAMESPACES, { metadata: { name: namespace } });
});
afterAll(async () => {
  await kube.delete(NAMESPACES, namespace);
  kube[Symbol.dispose]();
});

const codeOf = async (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => "no error",
    (error: unknown) => WhetstoneError.from(error).code,
  );

describe("client", () => {
  it("creates, reads, patches and deletes, with an error's code for everything else", async () => {
    expect(await kube.get(CONFIG_MAPS, "a")).toBeUndefined();
    const created = await kube.create(CONFIG_MAPS, { metadata: { name: "a" }, data: { x: "1", y: "1" } });
    expect(await codeOf(kube.create(CONFIG_MAPS, { metadata: { name: "a" } }))).toBe("ALREADY_EXISTS");
    const patched = await kube.patch(CONFIG_MAPS, "a", { data: { y: null, z: "2" } });
    expect(patched.data).toEqual({ x: "1", z: "2" });
    const stale = { metadata: { resourceVersion: created.metadata.resourceVersion }, data: {} };
    expect(await codeOf(kube.patch(CONFIG_MAPS, "a", stale))).toBe("CONFLICT");
    expect(await codeOf(kube.delete(CONFIG_MAPS, "a", { uid: "another" }))).toBe("CONFLICT");
    expect(await kube.delete(CONFIG_MAPS, "a", { uid: created.metadata.uid })).toBe(true);
    expect(await kube.delete(CONFIG_MAPS, "a")).toBe(false);
    expect(await codeOf(kube.patch(CONFIG_MAPS, "a", {}))).toBe("NOT_FOUND");
    expect(await codeOf(kube.create(CONFIG_MAPS, { metadata: { name: "a", namespace: "no-such" } }))).toBe("NOT_FOUND");
  });

  it("says which fields the server refused", async () => {
    const pod = { metadata: { name: "Bad_Name" }, spec: { containers: [] } };
    const error = await kube.create(PODS, pod).catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(ConfigError);
    expect((error as ConfigError).violations.map(({ path }) => path)).toEqual(
      expect.arrayContaining(["metadata.name", "spec.containers"]),
    );
  });

  it("applies only what is said, and takes fields over only when told to", async () => {
    await kube.apply(CONFIG_MAPS, { metadata: { name: "b" }, data: { mine: "1", both: "1" } });
    const other = { metadata: { name: "b" }, data: { both: "2" } };
    expect(await codeOf(kube.apply(CONFIG_MAPS, other, { fieldManager: "other", force: false }))).toBe("CONFLICT");
    await kube.apply(CONFIG_MAPS, other, { fieldManager: "other" });
    const left = await kube.apply(CONFIG_MAPS, { metadata: { name: "b" }, data: {} });
    expect(left.data).toEqual({ both: "2" });
    const again = await kube.apply(CONFIG_MAPS, { metadata: { name: "b" }, data: {} });
    expect(again.metadata.resourceVersion).toBe(left.metadata.resourceVersion);
  });

  it("applies a status without touching the spec", async () => {
    const container = { name: "c", image: "none:1" };
    await kube.create(PODS, { metadata: { name: "p" }, spec: { schedulerName: "nobody", containers: [container] } });
    const conditions = setCondition([], { type: "whetstone.dev/Tested", status: true, reason: "Test" });
    const status = { conditions: conditions.map((each) => ({ ...each })) };
    const applied = await kube.applyStatus(PODS, { metadata: { name: "p" }, status });
    expect(applied.status?.conditions?.map(({ type }) => type)).toContain("whetstone.dev/Tested");
    expect(applied.spec?.containers[0]?.image).toBe("none:1");
    await kube.delete(PODS, "p", { graceSeconds: 0 });
  });

  it("lists page by page and by label", async () => {
    const make = (i: number): Promise<unknown> =>
      kube.create(CONFIG_MAPS, { metadata: { name: `page-${i}`, labels: { half: String(i % 2), test: "pages" } } });
    for (let i = 0; i < 520; i += 20) await Promise.all(Array.from({ length: 20 }, (_, k) => make(i + k)));
    expect(await kube.list(CONFIG_MAPS, { labels: "test=pages" })).toHaveLength(520);
    expect(await kube.list(CONFIG_MAPS, { labels: "half=1" })).toHaveLength(260);
    expect(await metrics.render()).toMatch(/kube_requests_total\{verb="list",kind="ConfigMap",code="200"[^}]*\} 3/);
  });

  it("knows which kinds the cluster has", async () => {
    expect(await kube.has(LEASES)).toBe(true);
    expect(await kube.has(resource("no.such.group/v1", "Nothing", "nothings"))).toBe(false);
    expect(await codeOf(kube.list(resource("no.such.group/v1", "Nothing", "nothings")))).toBe("NOT_FOUND");
  });

  it("owners take their children with them; a finalizer keeps the owner until it is taken off", async () => {
    const owner = await kube.create(CONFIG_MAPS, { metadata: { name: "owner" } });
    await kube.create(CONFIG_MAPS, { metadata: { name: "child", ownerReferences: [ownedBy(owner, CONFIG_MAPS)] } });
    const kept = await addFinalizer(kube, CONFIG_MAPS, owner, "whetstone.dev/test");
    expect(await codeOf(addFinalizer(kube, CONFIG_MAPS, owner, "whetstone.dev/test"))).toBe("CONFLICT");
    await kube.delete(CONFIG_MAPS, "owner");
    const deleting = await kube.get(CONFIG_MAPS, "owner");
    expect(deleting?.metadata.deletionTimestamp).toBeDefined();
    expect(kept.metadata.finalizers).toEqual(["whetstone.dev/test"]);
    await removeFinalizer(kube, CONFIG_MAPS, deleting ?? kept, "whetstone.dev/test");
    expect(await kube.get(CONFIG_MAPS, "owner")).toBeUndefined();
    await removeFinalizer(kube, CONFIG_MAPS, deleting ?? kept, "whetstone.dev/test");
    await vi.waitFor(async () => expect(await kube.get(CONFIG_MAPS, "child")).toBeUndefined(), 30_000);
  });

  it("tells people once, counts what repeats, and stops at a flood", async () => {
    const about = await kube.create(CONFIG_MAPS, { metadata: { name: "eventful" } });
    for (let i = 0; i < 3; i++) recordEvent(kube, about, { of: CONFIG_MAPS, reason: "Repeated", message: "again" });
    for (let i = 0; i < 100; i++)
      recordEvent(kube, about, { of: CONFIG_MAPS, reason: "Flood", message: `number ${i}` });
    const events = resource<KubeObject & { reason?: string; series?: { count: number }; regarding?: { name: string } }>(
      "events.k8s.io/v1",
      "Event",
      "events",
    );
    await vi.waitFor(async () => {
      const told = (await kube.list(events)).filter(({ regarding }) => regarding?.name === "eventful");
      expect(told.find(({ reason }) => reason === "Repeated")?.series?.count).toBe(3);
      expect(told.filter(({ reason }) => reason === "Flood")).toHaveLength(22);
    }, 60_000);
  });

  it("asks its guard before every change, and before nothing else", async () => {
    let refusing = false;
    using guarded = kube.separate({
      guard: () => {
        if (refusing) throw new WhetstoneError("STALE_EPOCH", "over");
      },
    });
    await guarded.create(CONFIG_MAPS, { metadata: { name: "guarded" } });
    refusing = true;
    const object = { metadata: { name: "guarded" } };
    for (const call of [
      () => guarded.create(CONFIG_MAPS, { metadata: { name: "other" } }),
      () => guarded.apply(CONFIG_MAPS, object),
      () => guarded.applyStatus(CONFIG_MAPS, object),
      () => guarded.patch(CONFIG_MAPS, "guarded", {}),
      () => guarded.delete(CONFIG_MAPS, "guarded"),
    ])
      expect(await codeOf((async () => call())())).toBe("STALE_EPOCH");
    expect(await guarded.get(CONFIG_MAPS, "guarded")).toBeDefined();
  });
});
