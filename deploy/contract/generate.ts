// SPDX-License-Identifier: Apache-2.0
/** Writes what is made from the contract beside its messages: part of `make gen`. Prints each file's path. */
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createFileRegistry, type DescMessage, fromBinary } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { format, resolveConfig } from "prettier";
import { stringify } from "yaml";
import { ENVIRONMENT_POOL } from "../../services/controller/src/operator/environment-pool/schema.ts";
import { INFERENCE_FLEET } from "../../services/controller/src/operator/inference-fleet/schema.ts";
import { SANDBOX_POOL } from "../../services/controller/src/operator/sandbox-pool/schema.ts";
import { TRAINING_JOB } from "../../services/controller/src/operator/training-job/schema.ts";
import { definitionOf } from "../crds/definitions.ts";
import { objectsReference } from "../crds/reference.ts";
import { type Schema, schemaOf } from "../crds/schema.ts";
import { messagesBelow } from "./facts.ts";
import { filledFields } from "./filled.ts";
import { jobReference } from "./reference.ts";
import { settingsDefaults, settingsTable, settingsTypes } from "./settings.ts";

const ROOT = join(import.meta.dirname, "../..");
const YAML_HEADER = "# Generated from services/controller/src/operator/*/schema.ts by `make gen`. Do not edit.\n";
const KINDS = [TRAINING_JOB, INFERENCE_FLEET, ENVIRONMENT_POOL, SANDBOX_POOL];

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

const contract = readContract();
const job = contract.getMessage("whetstone.jobs.v1.JobSpec");
if (!job) throw new Error("the contract has no whetstone.jobs.v1.JobSpec");
const messages: readonly DescMessage[] = messagesBelow(job);
const contractSchema = (name: string): Schema => {
  const message = contract.getMessage(name);
  if (!message) throw new Error(`the contract has no ${name}`);
  return schemaOf(message);
};
const kinds = [];
for (const kind of KINDS) {
  const definition = definitionOf(kind, contractSchema);
  // Helm reads YAML 1.1, to which more words are true or false.
  const yaml = stringify(definition, { lineWidth: 0, aliasDuplicateObjects: false, version: "1.1" });
  await write(`charts/whetstone-crds/generated/${kind.plural}.yaml`, YAML_HEADER + yaml);
  const [{ schema }] = definition.versions;
  kinds.push({ kind, schema: schema.openAPIV3Schema as Schema });
}
await write("docs/kubernetes-objects.md", objectsReference(kinds));
await write("services/libs/contract/src/generated/filled-fields.ts", filledFields(messages));
await write("services/libs/sdk/src/job/generated/settings.ts", settingsTypes(messages));
await write("services/libs/sdk/src/job/generated/fields.ts", settingsTable(messages));
const limits = messages.find(({ name }) => name === "RolloutLimits") as DescMessage;
await write("services/libs/sdk/src/job/generated/limit-defaults.ts", settingsDefaults(limits));
await write("docs/job-reference.md", jobReference(messages));
