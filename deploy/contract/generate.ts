// SPDX-License-Identifier: Apache-2.0
/** Writes what is made from the contract beside its messages: part of `make gen`. Prints each file's path. */
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createFileRegistry, type DescMessage, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { format, resolveConfig } from "prettier";
import { stringify } from "yaml";
import { schemaOf } from "../crds/schema.ts";
import { messagesBelow } from "./facts.ts";
import { filledFields } from "./filled.ts";
import { jobReference } from "./reference.ts";
import { settingsDefaults, settingsTable, settingsTypes } from "./settings.ts";

const ROOT = join(import.meta.dirname, "../..");
const YAML_HEADER =
  "# Generated from proto/whetstone/jobs/v1/jobs.proto by `make gen`. Do not edit: see deploy/crds.\n";

/** The contract with its comments, which proto/gen does not keep. */
function readContract(): ReturnType<typeof createFileRegistry> {
  const args = ["build", "--as-file-descriptor-set", "-o", "-"];
  const bytes = execFileSync("buf", args, { cwd: join(ROOT, "proto"), maxBuffer: 64 * 2 ** 20 });
  return createFileRegistry(fromBinary(FileDescriptorSetSchema, bytes));
}

async function write(path: string, text: string): Promise<void> {
  const file = join(ROOT, path);
  const isCode = path.endsWith(".ts");
  writeFileSync(file, isCode ? await format(text, { ...(await resolveConfig(file)), filepath: file }) : text);
  console.log(path);
}

const job = readContract().getMessage("whetstone.jobs.v1.JobSpec");
if (!job) throw new Error("the contract has no whetstone.jobs.v1.JobSpec");
const messages: readonly DescMessage[] = messagesBelow(job);
const yaml = stringify(schemaOf(job), { lineWidth: 0, aliasDuplicateObjects: false });
await write("charts/whetstone-crds/generated/job-spec.yaml", YAML_HEADER + yaml);
await write("services/libs/contract/src/generated/filled-fields.ts", filledFields(messages));
await write("services/libs/sdk/src/job/generated/settings.ts", settingsTypes(messages));
await write("services/libs/sdk/src/job/generated/fields.ts", settingsTable(messages));
const limits = messages.find(({ name }) => name === "RolloutLimits") as DescMessage;
await write("services/libs/sdk/src/job/generated/limit-defaults.ts", settingsDefaults(limits));
await write("docs/job-reference.md", jobReference(messages));
