// SPDX-License-Identifier: Apache-2.0
// Writes into docs/STATUS.md which stages were green in the run whose reports lie in .whetstone/test-reports.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { type LastGreen, writeLastGreen } from "./stages.ts";

const page = "docs/STATUS.md";
const names = JSON.parse(readFileSync(".whetstone/test-reports/green-stages.json", "utf8")) as string[];
const commit = execFileSync("git", ["rev-parse", "--short", "HEAD"], { encoding: "utf8" }).trim();
const green: LastGreen = { date: new Date().toISOString().slice(0, 10), commit };
writeFileSync(page, writeLastGreen(readFileSync(page, "utf8"), new Map(names.map((name) => [name, green]))));
console.log(`${page}: ${names.join(", ") || "no stage"} green at ${commit}`);
