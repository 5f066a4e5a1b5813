// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { WhetstoneError } from "@whetstone/core";
import { describe, expect, it } from "vitest";
import { createLogger, createMetrics, serveMetrics } from "./index.ts";

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
    metrics.counter("episodes_total", "h", ["outcome"]).inc({ outcome: "ok" });
    metrics.counter("episodes_total", "h", ["outcome"]).inc({ outcome: "ok" });
    let depth = 1;
    metrics.gaugeOf("queue_depth", "h", () => depth);
    depth = 5;
    metrics.histogram("step_seconds", "h").observe(0.2);
    const text = await metrics.render();
    expect(text).toContain('whetstone_episodes_total{outcome="ok",component="test"} 2');
    expect(text).toContain('whetstone_queue_depth{component="test"} 5');
    expect(text).toContain("whetstone_step_seconds_bucket");
  });

  it("serves them, and names a port that is taken", async () => {
    const metrics = createMetrics({ component: "test" });
    await using server = await serveMetrics(metrics, { host: "127.0.0.1", port: 0 });
    const get = async (path: string) => {
      const response = await fetch(server.url + path);
      return [response.status, await response.text()] as const;
    };
    expect((await get("/metrics"))[1]).toContain("whetstone_nodejs_eventloop_lag_seconds");
    expect((await get("/other"))[0]).toBe(404);
    const again = serveMetrics(metrics, { host: "127.0.0.1", port: server.port });
    await expect(again).rejects.toThrow(`127.0.0.1:${server.port}`);
  });
});
