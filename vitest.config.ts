import { join } from "node:path";
import { defineConfig } from "vitest/config";

/** The tests start hundreds of Node processes on the same sources: what one has compiled, the next one takes. */
process.env["NODE_COMPILE_CACHE"] ??= join(import.meta.dirname, ".whetstone/compile-cache");

const exclude = ["**/node_modules/**"];
/** Tests beside the code that need more than this machine's processes: a cluster, or a container engine. */
const KUBE = "**/*.kube.test.ts";
const CONTAINERS = "**/*.containers.test.ts";
/** Test files that tests/run-all.ts runs another time. */
const left = process.env["WHETSTONE_TEST_WITHOUT"]?.split(" ").filter(Boolean) ?? [];
/** `vitest run <path>` means the tests that run anywhere: the others are run by name, `vitest run --project kube <path>`. */
const named = (project: string): boolean => `${process.argv.join(" ")} `.includes(`--project ${project} `);
const slow = (project: string, include: string, timeout: number) => ({
  extends: true as const,
  test: {
    name: project,
    include: [include],
    exclude,
    globalSetup: `tests/support/require-${project}.ts`,
    // They share one cluster or engine.
    fileParallelism: false,
    testTimeout: timeout,
    hookTimeout: timeout,
  },
});

export default defineConfig({
  test: {
    pool: "forks",
    maxWorkers: 2,
    // Long, as every wait of a test: they end what hangs. A machine that is busy for half a minute is no fault of the code.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 30_000 } },
    reporters: process.env["WHETSTONE_TEST_REPORT"] ? ["default", "json"] : ["default"],
    // Set to a path to get the counts as JSON: numTotalTests, numPassedTests, numFailedTests.
    outputFile: process.env["WHETSTONE_TEST_REPORT"] ? { json: process.env["WHETSTONE_TEST_REPORT"] } : {},
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          include: ["services/**/*.test.ts", "tests/**/*.test.ts", "deploy/**/*.test.ts"],
          exclude: [...exclude, KUBE, CONTAINERS, ...left],
        },
      },
      ...(named("kube") ? [slow("kube", KUBE, 120_000)] : []),
      ...(named("containers") ? [slow("containers", CONTAINERS, 300_000)] : []),
    ],
  },
});
