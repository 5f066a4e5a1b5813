// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { WhetstoneError } from "@whetstone/core";
import { describe, expect, it } from "vitest";
import { createLogger, createMetrics, serveMetrics, startTracing, withSpan } from "./index.ts";

function capture(level?: "debug" | "info") {
  const lines: Record<string, unknown>[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) };
  return { lines, logger: createLogger({ component: "test", level, destination }) };
}

describe("logger", () => {
  it("writes events with fields and binds ids once", () => {
    const { lines, logger } = capture();
    logger.child({ job: "fl-1" }).info("group_scored", { elapsedMs: 3 });
    logger.debug("not_written");
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatchObject({
      level: "info",
      component: "test",
      event: "group_scored",
      job: "fl-1",
      elapsedMs: 3,
    });
    expect(String(lines[0]?.["time"])).toMatch(/^\d{4}-\d\d-\d\dT.*Z$/);
  });

  it("writes errors with code, context and causes, and no secrets", () => {
    const { lines, logger } = capture();
    const cause = new Error("socket closed");
    const error = new WhetstoneError("UNAVAILABLE", "engine is away", { context: { engine: "e1" }, cause });
    logger.error("engine_lost", { error, apiKey: "sk-1" });
    expect(lines[0]?.["error"]).toMatchObject({
      code: "UNAVAILABLE",
      retry: "safe",
      context: { engine: "e1" },
      cause: { message: "socket closed" },
    });
    expect(JSON.stringify(lines)).not.toContain("sk-1");
  });

  it("goes to standard error by default, and to the last line before an exit", () => {
    const entry = JSON.stringify(new URL("./index.ts", import.meta.url).href);
    const script = `import { createLogger } from ${entry}; createLogger({ component: "c" }).info("bye"); process.exit(0);`;
    const redirected = `"$0" --input-type=module -e "$1" 2>&1 >/dev/null`;
    const out = execFileSync("sh", ["-c", redirected, process.execPath, script], { encoding: "utf8" });
    expect(out).toContain('"event":"bye"');
  });
});

describe("metrics", () => {
  it("prefixes names, gives the same metric for the same name and reads gauges at the scrape", async () => {
    const metrics = createMetrics({ component: "test", processMetrics: false });
    metrics.counter({ name: "episodes_total", help: "h", labels: ["outcome"] }).inc({ outcome: "ok" });
    metrics.counter({ name: "episodes_total", help: "h", labels: ["outcome"] }).inc({ outcome: "ok" });
    let depth = 1;
    metrics.gauge({ name: "queue_depth", help: "h", read: () => depth });
    depth = 5;
    metrics.histogram({ name: "step_seconds", help: "h" }).observe(0.2);
    const text = await metrics.render();
    expect(text).toContain('whetstone_episodes_total{outcome="ok",component="test"} 2');
    expect(text).toContain('whetstone_queue_depth{component="test"} 5');
    expect(text).toContain("whetstone_step_seconds_bucket");
  });

  it("serves them, with health, and names a port that is taken", async () => {
    let reason = undefined as string | undefined;
    const metrics = createMetrics({ component: "test" });
    await using server = await serveMetrics(metrics, { host: "127.0.0.1", port: 0, health: () => reason });
    const get = async (path: string) => {
      const response = await fetch(server.url + path);
      return [response.status, await response.text()] as const;
    };
    expect((await get("/metrics"))[1]).toContain("whetstone_nodejs_eventloop_lag_seconds");
    expect(await get("/healthz")).toEqual([200, "ok"]);
    reason = "no NATS";
    expect(await get("/healthz")).toEqual([503, "no NATS"]);
    expect((await get("/other"))[0]).toBe(404);
    const again = serveMetrics(metrics, { host: "127.0.0.1", port: server.port });
    await expect(again).rejects.toThrow(`127.0.0.1:${server.port}`);
  });
});

describe("tracing", () => {
  it("is off without an endpoint and then loads nothing", () => {
    const entry = JSON.stringify(new URL("./index.ts", import.meta.url).href);
    const script = `import { startTracing } from ${entry};
      import { createRequire } from "node:module";
      const tracing = await startTracing({ serviceName: "s" });
      const loaded = Object.keys(createRequire(${entry}).cache).filter((f) => f.includes("sdk-trace") || f.includes("otlp"));
      process.stdout.write(JSON.stringify({ enabled: tracing.enabled, loaded }));`;
    const out = execFileSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8" });
    expect(JSON.parse(out)).toEqual({ enabled: false, loaded: [] });
  });

  it("exports spans with the service's name, errors included", async () => {
    const bodies: string[] = [];
    const collector = createServer((request, response) => {
      request.on("data", (chunk: Buffer) => bodies.push(chunk.toString()));
      request.on("end", () => response.writeHead(200, { "content-type": "application/json" }).end("{}"));
    });
    await new Promise<void>((resolve) => collector.listen(0, "127.0.0.1", resolve));
    const endpoint = `http://127.0.0.1:${(collector.address() as AddressInfo).port}/v1/traces`;
    const tracing = await startTracing({ serviceName: "orchestrator", endpoint });
    const failing = withSpan(tracing.tracer, "play_episode", () => Promise.reject(new Error("lost")));
    await expect(failing).rejects.toThrow("lost");
    await tracing[Symbol.asyncDispose]();
    collector.close();
    const body = bodies.join("");
    for (const text of ["orchestrator", "play_episode", "lost"]) expect(body).toContain(text);
  });
});
