import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["services/**/*.test.ts", "tests/**/*.test.ts", "deploy/**/*.test.ts"],
    exclude: ["**/node_modules/**"],
    pool: "forks",
    maxWorkers: 2,
    testTimeout: 20_000,
    hookTimeout: 20_000,
    reporters: process.env["WHETSTONE_TEST_REPORT"] ? ["default", "json"] : ["default"],
    // Set to a path to get the counts as JSON: numTotalTests, numPassedTests, numFailedTests.
    outputFile: process.env["WHETSTONE_TEST_REPORT"] ? { json: process.env["WHETSTONE_TEST_REPORT"] } : {},
  },
});
