// SPDX-License-Identifier: Apache-2.0
import { silentLogger } from "@whetstone/telemetry";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { cutMidLine, hang, refuse, ScriptedApi } from "../test-support/scripted-api.ts";
import { type Kube, openKube } from "./kube.ts";
import { CONFIG_MAPS, type ConfigMap, type Stored } from "./objects.ts";
import { reflect, type ReflectOptions, type Reflector } from "./reflector.ts";

let api: ScriptedApi;
let kube: Kube;
let reflector: Reflector<ConfigMap>;
let changes: string[];
const FAST = { firstBackoffMs: 20, maxBackoffMs: 100, random: () => 1, watchSeconds: () => 300 } as const;

beforeEach(async () => {
  api = await ScriptedApi.start();
  kube = openKube({ logger: silentLogger, server: api.url, namespace: "ns" });
  changes = [];
});

afterEach(async () => {
  reflector[Symbol.dispose]();
  kube[Symbol.dispose]();
  await api[Symbol.asyncDispose]();
});

function start(options: Partial<ReflectOptions<ConfigMap>> = {}): void {
  reflector = reflect(kube, CONFIG_MAPS, { onChange: (key) => changes.push(key), timing: FAST, ...options });
}

const dataOf = (key: string): string | undefined => reflector.get(key)?.data?.["v"];
const eventually = (check: () => void, timeout = 30_000): Promise<void> => vi.waitFor(check, { timeout, interval: 10 });
const watching = (): Promise<void> => eventually(() => expect(api.watching).toBe(1));

describe("reflector", () => {
  it("lists page by page, then sees what comes, changes and goes", async () => {
    for (let i = 0; i < 1200; i++) api.put(`a-${i}`);
    start();
    await reflector.synced;
    expect(reflector.size).toBe(1200);
    expect(api.count("list")).toBe(3);
    await watching();
    changes.length = 0;
    api.put("b", { v: "1" });
    api.put("b", { v: "2" });
    api.remove("a-7");
    await eventually(() => expect(changes).toEqual(["b", "b", "a-7"]));
    expect(dataOf("b")).toBe("2");
    expect(reflector.get("a-7")).toBeUndefined();
    expect(api.count("list")).toBe(3);
  });

  it("keeps no managedFields", async () => {
    api.put("a");
    start();
    await reflector.synced;
    expect(reflector.get("a")?.metadata).not.toHaveProperty("managedFields");
  });

  it("goes on from the last bookmark when a watch ends, without a list", async () => {
    api.put("a");
    start();
    await watching();
    api.bookmark();
    await eventually(() => expect(changes).toEqual(["a"]));
    await new Promise((resolve) => setTimeout(resolve, 50));
    api.endWatches("end");
    await eventually(() => expect(api.count("watch")).toBe(2));
    expect(api.requests.at(-1)?.query.get("resourceVersion")).toBe("11");
    expect(api.count("list")).toBe(1);
  });

  it("misses nothing that happens while its watch is cut", async () => {
    start();
    await watching();
    api.endWatches("cut");
    api.put("while-away", { v: "1" });
    await eventually(() => expect(dataOf("while-away")).toBe("1"));
    expect(api.count("list")).toBe(1);
  });

  it("is not confused by a line that was cut", async () => {
    api.next("watch", cutMidLine);
    start();
    await watching();
    api.put("a", { v: "1" });
    await eventually(() => expect(dataOf("a")).toBe("1"));
    expect(reflector.size).toBe(1);
  });

  it("lists again after 410, and reports what went meanwhile", async () => {
    api.put("stays");
    api.put("goes");
    start();
    await watching();
    changes.length = 0;
    api.endWatches("cut");
    api.remove("goes");
    api.put("came");
    api.forget();
    await eventually(() => expect(changes.toSorted()).toEqual(["came", "goes"]));
    expect(reflector.all().map(({ metadata }) => metadata.name)).toEqual(["stays", "came"]);
    expect(api.count("list")).toBe(2);
  });

  it("takes 410 as an HTTP status too", async () => {
    start();
    await watching();
    api.next("watch", refuse(410));
    api.endWatches("end");
    await eventually(() => expect(api.count("list")).toBe(2));
    await watching();
  });

  it("asks for all at once when the pages' moment was forgotten", async () => {
    for (let i = 0; i < 700; i++) api.put(`a-${i}`);
    api.next("list", (response) => {
      const items = [{ metadata: { name: "a-0", uid: "uid-1", resourceVersion: "1" } }];
      response.end(JSON.stringify({ metadata: { resourceVersion: "1", continue: "500" }, items }));
    });
    api.next("list", refuse(410));
    start();
    await eventually(() => expect(reflector.size).toBe(700));
    expect(api.requests.filter(({ asked }) => asked === "list").map(({ query }) => query.get("limit"))).toEqual([
      "500",
      "500",
      null,
    ]);
  });

  it("waits as long as a busy server asks for", async () => {
    start({ timing: { ...FAST, random: () => 0 } });
    await watching();
    api.next("watch", refuse(429, { "retry-after": "1" }));
    api.endWatches("end");
    await eventually(() => expect(api.count("watch")).toBe(3));
    const [second, third] = api.requests.filter(({ asked }) => asked === "watch").slice(1);
    expect((third?.atMs ?? 0) - (second?.atMs ?? 0)).toBeGreaterThan(950);
    expect(api.count("list")).toBe(1);
  });

  it("does not storm a server that fails: each wait is twice the one before, and no list repeats", async () => {
    start();
    await watching();
    api.next("watch", ...Array.from({ length: 6 }, () => refuse(503)));
    api.endWatches("end");
    await eventually(() => expect(api.count("watch")).toBe(8));
    const times = api.requests.filter(({ asked }) => asked === "watch").map(({ atMs }) => atMs);
    const gaps = times.slice(2).map((at, i) => at - (times[i + 1] ?? 0));
    [20, 40, 80, 100, 100, 100].forEach((wait, i) => expect(gaps[i]).toBeGreaterThan(wait * 0.95));
    expect(api.count("list")).toBe(1);
    await watching();
  });

  it("does not spin on a server that ends every watch at once", async () => {
    start();
    await watching();
    api.next("watch", ...Array.from({ length: 5 }, () => (response: { end(): void }) => response.end()));
    api.endWatches("end");
    await eventually(() => expect(api.count("watch")).toBe(7));
    const times = api.requests.filter(({ asked }) => asked === "watch").map(({ atMs }) => atMs);
    expect((times.at(-1) ?? 0) - (times[1] ?? 0)).toBeGreaterThan(300);
  });

  it("leaves a watch that is silent for too long", async () => {
    api.next("watch", hang);
    api.next("watch", (response) => response.writeHead(200).flushHeaders());
    kube[Symbol.dispose]();
    kube = openKube({ logger: silentLogger, server: api.url, namespace: "ns" });
    start({ timing: { ...FAST, silenceMs: 300 } });
    await eventually(() => expect(api.count("watch")).toBeGreaterThanOrEqual(3), 15_000);
    await watching();
    api.put("a", { v: "1" });
    await eventually(() => expect(dataOf("a")).toBe("1"));
  });

  it("lists again after its interval though the watch is well, and finds what the watch never told", async () => {
    api.put("a", { v: "1" });
    start({ timing: { ...FAST, relistMs: 1000 } });
    await watching();
    expect(Number(api.requests.at(-1)?.query.get("timeoutSeconds"))).toBeLessThanOrEqual(2);
    await eventually(() => expect(api.count("list")).toBe(2), 8000);
    expect(changes).toEqual(["a"]);
  });

  it("survives a handler that throws", async () => {
    start({
      onChange: (key) => {
        changes.push(key);
        throw new Error("broken handler");
      },
    });
    await watching();
    api.put("a");
    api.put("b");
    await eventually(() => expect(changes).toEqual(["a", "b"]));
  });

  it("finds objects by an index, also after they moved", async () => {
    start({ indexBy: (object: Stored<ConfigMap>) => object.data?.["v"] });
    await watching();
    api.put("a", { v: "x" });
    api.put("b", { v: "x" });
    api.put("b", { v: "y" });
    await eventually(() => expect(changes).toHaveLength(3));
    expect(reflector.by("x").map(({ metadata }) => metadata.name)).toEqual(["a"]);
    expect(reflector.by("y").map(({ metadata }) => metadata.name)).toEqual(["b"]);
    expect(reflector.by("z")).toEqual([]);
  });

  it("starts as soon as the server does", async () => {
    api.next("list", refuse(503), refuse(500), (response) => response.socket?.destroy());
    api.put("a");
    start();
    await reflector.synced;
    expect(reflector.size).toBe(1);
  });

  it("asks nothing more once closed", async () => {
    start();
    await watching();
    reflector[Symbol.dispose]();
    await eventually(() => expect(api.watching).toBe(0));
    const before = api.requests.length;
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(api.requests.length).toBe(before);
  });
});
