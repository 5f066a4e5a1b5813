// SPDX-License-Identifier: Apache-2.0
// Against a real API server, through a proxy that fails on order. Every fault is checked to have happened.
import { createRng, sleep, WhetstoneError } from "@whetstone/core";
import { silentLogger } from "@whetstone/telemetry";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { FaultProxy, type ProxyFault } from "../test-support/fault-proxy.ts";
import { elect } from "./election.ts";
import { type Kube, openKube } from "./kube.ts";
import { CONFIG_MAPS, type ConfigMap, LEASES, NAMESPACES } from "./objects.ts";
import { reflect, type Reflector } from "./reflector.ts";

const namespace = `a-faults-${process.pid}`;
let direct: Kube;
let proxy: FaultProxy;
let proxied: Kube;
beforeAll(async () => {
  direct = openKube({ logger: silentLogger, namespace });
  await direct.create(NAMESPACES, { metadata: { name: namespace } });
});
afterAll(async () => {
  await direct.delete(NAMESPACES, namespace);
  direct[Symbol.dispose]();
});
beforeEach(async () => {
  proxy = await FaultProxy.start();
  proxied = openKube({ logger: silentLogger, server: proxy.url, namespace });
  return async () => {
    proxied[Symbol.dispose]();
    await proxy[Symbol.asyncDispose]();
  };
});

const LABELS = "test=faults";
const TIMING = { firstBackoffMs: 100, maxBackoffMs: 1000, silenceMs: 3000 };
const put = (name: string, v: number): Promise<unknown> =>
  direct.apply(CONFIG_MAPS, { metadata: { name, labels: { test: "faults" } }, data: { v: String(v) } });

function watchAll(): Reflector<ConfigMap> {
  return reflect(proxied, CONFIG_MAPS, { labels: LABELS, onChange: () => undefined, timing: TIMING });
}

/** Until memory holds exactly what the server does. */
async function agrees(reflector: Reflector<ConfigMap>, timeout = 20_000): Promise<void> {
  const truth = await direct.list(CONFIG_MAPS, { labels: LABELS });
  const shape = (objects: readonly { metadata: { name: string }; data?: unknown }[]): string[] =>
    objects.map(({ metadata, data }) => `${metadata.name} ${JSON.stringify(data)}`).toSorted();
  await vi.waitFor(() => expect(shape(reflector.all())).toEqual(shape(truth)), { timeout, interval: 50 });
}

describe("reflector and a server in trouble", () => {
  it.each<[ProxyFault, "list" | "watch"]>([
    ["429", "list"],
    ["503", "list"],
    ["cut", "list"],
    ["429", "watch"],
    ["503", "watch"],
    ["410", "watch"],
    ["expired", "watch"],
    ["cut", "watch"],
    ["hang", "watch"],
  ])("%s at a %s: everything is seen again, within a minute and without a storm", async (fault, asked) => {
    await put("before", 1);
    if (asked === "list") proxy.next("list", fault);
    using reflector = watchAll();
    await reflector.synced;
    if (asked === "watch") {
      await waitFor(() => proxy.asked.watch === 1);
      proxy.next("watch", fault);
      proxy.cutWatches();
    }
    await put("after", Date.now());
    await agrees(reflector, 60_000);
    expect(proxy.fired.get(fault)).toBeGreaterThanOrEqual(1);
    expect(proxy.asked.list).toBeLessThanOrEqual(2);
    expect(proxy.asked.watch).toBeLessThanOrEqual(4);
  });

  it("a network that dies without a word is left after the silence limit", async () => {
    using reflector = watchAll();
    await reflector.synced;
    await waitFor(() => proxy.asked.watch === 1);
    proxy.freeze(true);
    await put("unheard", 7);
    await sleep(4500);
    expect(reflector.get("unheard")?.data?.["v"]).not.toBe("7");
    proxy.freeze(false);
    await agrees(reflector, 30_000);
  });

  it("after 30 random faults among 300 changes memory equals the server, and lists stay rare", async () => {
    const rng = createRng(7);
    using reflector = watchAll();
    await reflector.synced;
    for (let i = 0; i < 300; i++) {
      const name = `r-${rng.integer(30)}`;
      if (rng.next() < 0.25) await direct.delete(CONFIG_MAPS, name);
      else await put(name, i);
      if (i % 10 === 0) {
        await waitFor(() => proxy.watching === 1);
        proxy.next("watch", rng.choice(["429", "503", "expired", "cut", "410"] as const));
        proxy.cutWatches();
      }
    }
    await agrees(reflector, 60_000);
    const fired = [...proxy.fired.values()].reduce((sum, count) => sum + count, 0);
    expect(fired).toBeGreaterThanOrEqual(58); // 30 cuts, and what their watches met then.
    const expiries = (proxy.fired.get("410") ?? 0) + (proxy.fired.get("expired") ?? 0);
    expect(proxy.asked.list).toBeLessThanOrEqual(1 + expiries);
  });
});

describe("calls and a server in trouble", () => {
  it("429 is waited out, a broken connection is tried once more for reads, and both say so otherwise", async () => {
    await put("target", 1);
    proxy.next("other", "429");
    expect((await proxied.get(CONFIG_MAPS, "target"))?.data?.["v"]).toBe("1");
    proxy.next("other", "cut");
    expect(await proxied.get(CONFIG_MAPS, "target")).toBeDefined();
    proxy.next("other", "cut");
    await expect(proxied.patch(CONFIG_MAPS, "target", {})).rejects.toMatchObject({ code: "UNAVAILABLE" });
    proxy.next("other", "429");
    await expect(proxied.get(CONFIG_MAPS, "target", { timeoutMs: 500 })).rejects.toMatchObject({
      code: "RESOURCE_EXHAUSTED",
      context: { retryAfterMs: 1000 },
    });
  });

  it("a call that hangs ends at its deadline, and at its signal", async () => {
    proxy.next("other", "hang");
    const startedAt = performance.now();
    await expect(proxied.get(CONFIG_MAPS, "target", { timeoutMs: 300 })).rejects.toMatchObject({
      code: "DEADLINE_EXCEEDED",
    });
    expect(performance.now() - startedAt).toBeLessThan(10_000);
    proxy.next("other", "hang");
    const signal = AbortSignal.timeout(100);
    await expect(proxied.get(CONFIG_MAPS, "target", { signal })).rejects.toThrow();
  });
});

describe("election on a real Lease", () => {
  it("a leader whose network dies gives up within 10 s, another follows within 20 s, and never both", async () => {
    // As the chart makes it: without a spec.
    await direct.create(LEASES, { metadata: { name: "leader", labels: { made: "by-the-chart" } } });
    const stop = new AbortController();
    const leading = new Set<string>();
    const history: string[] = [];
    const run = (identity: string, kube: Kube): Promise<string> =>
      elect({
        kube,
        lease: "leader",
        identity,
        signal: stop.signal,
        onLead: async ({ signal }) => {
          leading.add(identity);
          history.push(identity);
          expect(leading.size).toBe(1);
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
          leading.delete(identity);
        },
      }).then(
        () => "stopped",
        (error: unknown) => WhetstoneError.from(error).code,
      );
    const first = run("first", proxied);
    await vi.waitFor(() => expect(history).toEqual(["first"]), 5000);
    const second = run("second", direct);
    await sleep(3000);
    proxy.freeze(true);
    const frozenAt = performance.now();
    expect(await first).toBe("STALE_EPOCH");
    expect(performance.now() - frozenAt).toBeLessThan(10_500);
    await vi.waitFor(() => expect(history).toEqual(["first", "second"]), 12_000);
    expect(performance.now() - frozenAt).toBeLessThan(20_000);
    stop.abort();
    expect(await second).toBe("stopped");
    const lease = await direct.get(LEASES, "leader");
    expect(lease?.spec).toMatchObject({ holderIdentity: "", leaseTransitions: 2 });
    // Helm 4 deletes nothing that does not bear its marks.
    expect(lease?.metadata.labels).toEqual({ made: "by-the-chart" });
  });
});
