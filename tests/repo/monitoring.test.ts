// SPDX-License-Identifier: Apache-2.0
// Dashboards and alerts ask for metrics that exist: a renamed one would leave an empty panel and a silent alert.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "../..");
const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");

const sources = globSync("services/**/src/**/*.ts", { cwd: ROOT, exclude: ["**/node_modules/**", "**/*.test.ts"] });
/** As `createMetrics` registers them; the prefix is its own. */
const declared = sources.flatMap((path) =>
  [...read(path).matchAll(/\.(counter|gauge|gaugeOf|histogram)\(\s*"([a-z_]+)"/g)].map((match) => ({
    kind: match[1] as string,
    name: `whetstone_${match[2]}`,
  })),
);
const engine = [...read("python-trainer/src/whetstone_engine/metrics.py").matchAll(/put\("(\w+)"/g)].map(
  (match) => `vllm:${match[1]}`,
);
/** Of the client library: every process has them. */
const PROCESS = ["whetstone_process_cpu_seconds_total", "whetstone_process_resident_memory_bytes"];
const known = new Set([
  ...declared.flatMap(({ kind, name }) =>
    kind === "histogram" ? ["bucket", "sum", "count"].map((part) => `${name}_${part}`) : [name],
  ),
  ...engine,
  ...PROCESS,
]);

const named = (text: string): string[] => [
  ...new Set([...text.matchAll(/(?:whetstone_|vllm:)[a-z_]+/g)].map(([name]) => name)),
];

it("finds metrics in the code", () => {
  expect(declared.length).toBeGreaterThan(20);
  expect(engine.length).toBeGreaterThan(5);
});

it.each(globSync("charts/whetstone/dashboards/*.json", { cwd: ROOT }))("%s names metrics that exist", (path) => {
  const dashboard = JSON.parse(read(path)) as { panels: { targets: { expr: string }[] }[]; templating: unknown };
  const expressions = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));
  expect(expressions.length).toBeGreaterThan(5);
  const asked = named([...expressions, JSON.stringify(dashboard.templating)].join(" "));
  expect(asked.filter((name) => !known.has(name))).toEqual([]);
});

it("alerts name metrics that exist", () => {
  const lines = read("charts/whetstone/templates/monitoring.yaml").split("\n");
  const expressions = lines.filter((line) => line.trim().startsWith("expr:"));
  expect(expressions.length).toBeGreaterThan(3);
  expect(named(expressions.join(" ")).filter((name) => !known.has(name))).toEqual([]);
});
